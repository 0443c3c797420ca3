/* runtime.h - one loaded and initialised ACL library per process, shared by all engines on it.
 *
 * Threads: open and close from any thread that may call ACL (the engines' control threads).
 * Locks:   one process-wide mutex inside; ACL initialisation runs under it, nothing else does.
 * Owns:    the library, which is never unloaded: threads of the runtime may still be inside it.
 * Invariant: aclFinalize is called only if our aclInit was the first of the process (it returned 0, not
 *            100002), and only by the last engine.
 */
#ifndef NPUX_CORE_RUNTIME_H
#define NPUX_CORE_RUNTIME_H

#include <stdbool.h>

#include "acl/loader.h"
#include "base/err.h"

struct npux_runtime {
    struct npux_runtime *next;
    struct npux_acl_lib lib;
    unsigned n_users;
    bool we_initialised;
    bool faults_known; /* failed copies are reported one by one, see faults.h */
};

/* Loads the library at path if this process has not, and initialises ACL for the first user. *runtime is NULL
 * after a failure. */
int npux_runtime_open(const char *path, struct npux_runtime **runtime, struct npux_err *err);
/* The last user finalises, if ACL is ours. Returns the aclError of aclFinalize, or 0. */
int npux_runtime_close(struct npux_runtime *runtime);

/* *err from a failed ACL call on this thread, with the runtime's own message, which this consumes. */
int npux_runtime_fail(const struct npux_acl *acl, struct npux_err *err, int acl_code, const char *call);

#endif
