/* loader.h - opens one ACL library and fills the function table.
 *
 * Threads: load and unload are called by one thread at a time per struct.
 * Locks:   none.
 * Owns:    the dlopen handle, until npux_acl_unload.
 * Invariant: no ACL function is called here; loading has no effect on any device. The simulator is asked
 *          which functions its simulated release has (aclsim_has_function); the others count as missing.
 */
#ifndef NPUX_ACL_LOADER_H
#define NPUX_ACL_LOADER_H

#include "acl/table.h"
#include "base/err.h"

struct npux_acl_lib {
    void *handle;
    struct npux_acl fn;
    char path[1024];
};

/* Opens the library at path (a file name or what dlopen accepts) and resolves every symbol.
 * Returns 0, or a negative errno with *err filled: the dynamic loader's own text, or the names of the
 * MUST symbols that are missing. On failure nothing stays open. */
int npux_acl_load(struct npux_acl_lib *lib, const char *path, struct npux_err *err);

/* Closes the handle. The caller makes sure that no thread is inside the library. */
void npux_acl_unload(struct npux_acl_lib *lib);

#endif
