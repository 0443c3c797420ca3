/* finding.c - see finding.h. */
#include "sim/finding.h"

void sim_find(enum sim_finding kind, const char *fmt, ...)
{
    (void)kind;
    (void)fmt;
}
