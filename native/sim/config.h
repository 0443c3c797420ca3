/* config.h - the configuration file of aclInit, and the hooks through which it reaches other parts.
 *
 * Threads: sim_config_apply from aclInit only, one at a time; the hooks from there and from sim_once.
 * Locks:   sim_config_apply takes sim.mu. The hooks are called without it.
 * Owns:    nothing.
 * Invariant: the object "aclsim" is applied whole or not at all, except through hooks that had accepted their
 *          part; CANN's own keys come behind it, one after the other as in the open runtime.
 */
#ifndef ACLSIM_CONFIG_H
#define ACLSIM_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "acl/abi.h"

#define SIM_MODE_FORMS "threads, virtual or adversarial"
#define SIM_SEED_FORMS "a whole number from 0 to 18446744073709551615"
#define SIM_FAULT_FORMS "fault rules separated by ';', or @ and a file of them (see aclsim.h)"

/* 0, or -1 when the value is not accepted. config.c defines each weakly, refusing everything. They may run
 * inside sim_once, when the state of the simulator exists but no thread was recorded yet: they must not call
 * sim_once, an ACL function or anything that does. */
int sim_config_mode(const char *mode);
int sim_config_seed(uint64_t seed);
int sim_config_faults(const char *rules);
void sim_guard_ask(int on); /* ACLSIM_GUARDS; the weak one does nothing */

/* Reads the file into *text (malloc'd, *nbytes long, "" for no file). 0, or a code with its text left. */
aclError sim_config_read(const char *path, char **text, size_t *nbytes);
/* Checks everything, then applies it. 0, or a code with its text left. */
aclError sim_config_apply(const char *path, const char *text, size_t nbytes);

#endif
