/* register.h - host memory of the program that was registered with the runtime.
 *
 * Threads: any. Locks: its own mutex, a leaf above that of blocks.c.
 * Owns:    the registrations and the addresses under which the device would see them.
 * Invariant: registrations of the second kind of call do not overlap.
 */
#ifndef ACLSIM_REGISTER_H
#define ACLSIM_REGISTER_H

#include <stdbool.h>

/* An address that stands for host memory on the device. Kernels may use it, copies may not. */
bool sim_is_mapped_address(const void *ptr);

#endif
