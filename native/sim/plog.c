/* plog.c - see plog.h. */
#include "sim/plog.h"

void sim_log(enum sim_log_level level, const char *function, const char *fmt, ...)
{
    (void)level;
    (void)function;
    (void)fmt;
}
