/* finding.c - see finding.h. */
#include "sim/finding.h"
#include "sim/aclsim.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[SIM_N_FOUND] = {"pageable",       "unaligned",   "host-as-d2d",
                                               "source-changed", "freed",       "unordered",
                                               "stale-handle",   "in-callback", "leak"};
static atomic_llong counts[SIM_N_FOUND];

void sim_find(enum sim_finding kind, const char *fmt, ...)
{
    va_list args;

    atomic_fetch_add(&counts[kind], 1);
    if (getenv("ACLSIM_TELL") == NULL)
        return;
    va_start(args, fmt);
    fprintf(stderr, "aclsim: found %s: ", names[kind]);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}

__attribute__((visibility("default"))) int64_t aclsim_finding_count(const char *name)
{
    int64_t sum = 0;
    int known = 0;

    for (int i = 0; i < SIM_N_FOUND; i++)
        if (name == NULL || strcmp(name, names[i]) == 0) {
            sum += atomic_load(&counts[i]);
            known = 1;
        }
    return known ? sum : -1;
}
