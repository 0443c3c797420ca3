/* err.h - one error value, owned by the caller, filled where the failure is seen.
 *
 * Threads: a struct npux_err belongs to one thread at a time.
 * Locks:   none.
 * Owns:    its text, inline.
 * Invariant: status == 0 means "no error" and every other field is meaningless.
 */
#ifndef NPUX_BASE_ERR_H
#define NPUX_BASE_ERR_H

#include <stdint.h>

struct npux_err {
    int status;       /* 0, or a negative errno, the engine's own channel */
    int acl_code;     /* the aclError that caused it, 0 when ACL was not involved */
    const char *call; /* the function that failed; a string literal */
    char text[480];   /* what was asked, what was found */
};

#if defined(__GNUC__)
#define NPUX_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define NPUX_PRINTF(fmt, args)
#endif

/* Fills *err (which may be NULL) and returns status, so that `return npux_fail(...)` reads well. */
int npux_fail(struct npux_err *err, int status, const char *call, const char *fmt, ...) NPUX_PRINTF(4, 5);

/* The same for a failed ACL call; status is -EIO. message is the runtime's own text or NULL. */
int npux_fail_acl(struct npux_err *err, int acl_code, const char *call, const char *message);

#endif
