/* peer.h - which device may reach the memory of which other one.
 *
 * Threads: any. Locks: none, one atomic word a device. Owns: nothing.
 * Invariant: access is one-directional and of this process only (aclrtDeviceEnablePeerAccess, CANN 9.1 docs).
 */
#ifndef ACLSIM_PEER_H
#define ACLSIM_PEER_H

#include <stdbool.h>
#include <stdint.h>

/* Whether device from asked for access to device to. Says nothing about whether a copy needs that: see
 * needs_peer_access of the profile. */
bool sim_peer_enabled(int32_t from, int32_t to);

/* The device lost its last context: what it had asked for is gone. */
void sim_peer_forget(int32_t device);

#endif
