/* config.h - the configuration file of aclInit.
 *
 * Threads: sim_config_apply from aclInit only, one at a time.
 * Locks:   sim_config_apply takes sim.mu.
 * Owns:    nothing.
 * Invariant: the object "aclsim" is checked as a whole before any of it is applied; the mode, the seed and
 * the fault rules are applied first, by the parts that own them. CANN's own keys come behind it, one after
 * the other as in the open runtime.
 */
#ifndef ACLSIM_CONFIG_H
#define ACLSIM_CONFIG_H

#include <stddef.h>

#include "acl/abi.h"

/* Reads the file into *text (malloc'd, *nbytes long, "" for no file). 0, or a code with its text left. */
aclError sim_config_read(const char *path, char **text, size_t *nbytes);
/* Checks everything, then applies it. 0, or a code with its text left. */
aclError sim_config_apply(const char *path, const char *text, size_t nbytes);

#endif
