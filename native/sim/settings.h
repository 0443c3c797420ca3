/* settings.h - what the environment and the aclInit file set: devices, memory, links.
 *
 * Threads: read once inside sim_once; the apply functions with sim.mu held.
 * Locks:   sim.mu where said. Owns: the text of the first bad variable.
 * Invariant: sim.n_devices counts the visible devices; sim.dev[i].phys rises with i.
 */
#ifndef ACLSIM_SETTINGS_H
#define ACLSIM_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aclsim_link;

#define SIM_DEVICE_FORMS "a whole number from 1 to 64"
#define SIM_MODE_FORMS "threads, virtual or adversarial"
#define SIM_SEED_FORMS "a whole number from 0 to 18446744073709551615"
#define SIM_MEMORY_FORMS "bytes as a whole number above 0, or one with KiB, MiB, GiB or TiB"
#define SIM_LINK_FORMS                                                                               \
    "h2d, d2h and d2d in bytes per second (0 for no limit, or 1e6 or more), latency_us, submit_us, " \
    "latency_ns, submit_ns, and move=0 or move=1, such as h2d=25e9,d2h=25e9,latency_us=8; chip in "  \
    "front starts from the usual link of the chip"

void sim_settings_read(void);
/* The first bad variable as one line, or "". */
const char *sim_settings_fault(void);

/* False for a text that is not valid; the forms are those of the environment variables. */
bool sim_parse_whole(const char *text, uint64_t *value);
bool sim_parse_devices(const char *text, uint32_t *count);
bool sim_parse_bytes(const char *text, uint64_t *nbytes); /* also of fault rules; 0 is valid */
bool sim_parse_memory(const char *text, uint64_t *nbytes);
bool sim_parse_link(const char *text, struct aclsim_link *link);

/* sim.mu held, no device set. What ASCEND_RT_VISIBLE_DEVICES leaves of count devices becomes 0, 1, ... */
void sim_use_devices(uint32_t count);
/* Remembers the text, because "chip" follows the profile. */
void sim_use_link(const char *text);
void sim_follow_profile(void);
void sim_forget_link(void); /* a control function set another one */
/* Why no device is visible, for the texts of the calls that meet it; NULL when that is not so. */
const char *sim_visible_fault(void);

#endif
