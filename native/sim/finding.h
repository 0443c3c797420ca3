/* finding.h - what the simulator noticed that would be wrong, slow or lucky on hardware.
 *
 * Threads: any. Locks: its own mutex, a leaf. Owns: the texts.
 * Invariant: a kind's count is never less than the number of its texts that are kept.
 */
#ifndef ACLSIM_FINDING_H
#define ACLSIM_FINDING_H

#include <stdbool.h>

/* The names are those of the report; see finding.c. */
enum sim_finding {
    SIM_FOUND_PAGEABLE,     /* an asynchronous copy of ordinary memory */
    SIM_FOUND_UNALIGNED,    /* an asynchronous copy of an address that is not 64-byte aligned */
    SIM_FOUND_WRONG_KIND,   /* a kind that does not fit where the memory lies, and is corrected */
    SIM_FOUND_HOST_AS_D2D,  /* ordinary host memory handed to the DMA engine by its kind */
    SIM_FOUND_SRC_CHANGED,  /* a source changed between submission and execution */
    SIM_FOUND_FREED,        /* memory freed under a copy that was not known to be complete */
    SIM_FOUND_UNORDERED,    /* overlapping copies on streams that nothing orders */
    SIM_FOUND_STALE_HANDLE, /* a destroyed stream or event used */
    SIM_FOUND_IN_CALLBACK,  /* an ACL call from a callback that may deadlock */
    SIM_FOUND_LEAK,         /* alive at the end of the process */
    SIM_N_FOUND
};

void sim_find(enum sim_finding kind, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *sim_finding_name(enum sim_finding kind);
bool sim_find_tells(void); /* ACLSIM_TELL: the first of each text is also a line on standard error */

#endif
