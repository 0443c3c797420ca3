#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int npux_fail(struct npux_err *err, int status, const char *call, const char *fmt, ...)
{
    va_list args;

    if (err == NULL)
        return status;
    err->status = status;
    err->acl_code = 0;
    err->call = call;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, args);
    va_end(args);
    return status;
}

int npux_fail_acl(struct npux_err *err, int acl_code, const char *call, const char *message)
{
    if (err == NULL)
        return -EIO;
    err->status = -EIO;
    err->acl_code = acl_code;
    err->call = call;
    snprintf(err->text, sizeof(err->text), "%s", message != NULL ? message : "");
    return -EIO;
}
