/* fault.h - faults on purpose: rules, and the devices that they made ill.
 *
 * Threads: any. Locks: one mutex inside fault.c, a leaf. The normal path reads one atomic count per hook.
 * Owns:    the list of rules, the health of each device.
 * Invariant: each count below is the number of rules and ill devices that its hook has to look at.
 */
#ifndef ACLSIM_FAULT_H
#define ACLSIM_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_stream;
struct sim_task;

enum sim_action {
    SIM_FAULT_CALL,
    SIM_FAULT_COPY,
    SIM_FAULT_EVENT,
    SIM_FAULT_FREE,
    SIM_FAULT_ALLOC,
    SIM_FAULT_STREAMS,
    SIM_FAULT_EVENTS,
    SIM_FAULT_REGISTER,
    SIM_FAULT_SLOW,
    SIM_FAULT_STALL,
    SIM_FAULT_LOSE,
    SIM_FAULT_SICK,
    SIM_FAULT_RANDOM,
    SIM_N_ACTIONS
};

struct sim_rule {
    int64_t id;
    enum sim_action action;
    int fn;         /* an enum sim_fn; -1: whatever the action covers */
    int32_t device; /* this and the next two: -1 for any */
    int32_t dir;
    int32_t stream;
    int32_t code;
    bool want_device, want_pinned; /* allocations */
    bool at_once;                  /* lose and sick without a condition: when the rule is added */
    uint64_t min_bytes, max_bytes;
    uint64_t nth, every, times; /* times 0: for ever */
    double probability;
    uint64_t random;
    double factor;
    uint64_t delay_ns;
    uint64_t per_call, total, limit; /* UINT64_MAX: none */
    uint64_t matched, fired;
};

/* Fills out from the entries of a text. The number, or -1: why says what is wrong. (fault_rule.c) */
int sim_rules_parse(const char *text, struct sim_rule *out, int most, char *why, size_t n_why);
char *sim_rules_file(const char *path, char *why, size_t n_why); /* malloc'd; NULL with why set */

enum { /* of an ACL function; fault_group.c */
       SIM_GROUP_FREE = 1 << 0,
       SIM_GROUP_REGISTER = 1 << 1,
       SIM_GROUP_STREAM = 1 << 2, /* makes a stream */
       SIM_GROUP_EVENT = 1 << 3,  /* makes an event */
       SIM_GROUP_COPY = 1 << 4,   /* submits copies */
       SIM_GROUP_DEVICE = 1 << 5  /* cannot be answered without the device */
};
unsigned sim_fn_groups(int fn);

enum { SIM_MAX_RULES = 1024 };

/* All of them or, without room, none. The last one's id, or -1. */
int64_t sim_fault_arm(const struct sim_rule *added, uint32_t n);
/* Adds every rule of a text, or of the file after '@', or none of them. 0, or -1 with aclsim_fault_error. */
int sim_config_faults(const char *text);

extern atomic_uint sim_n_copy_faults;
extern atomic_uint sim_n_record_faults;
extern atomic_uint sim_n_alloc_faults;

/* Counts one started copy, without sim.mu. *delay_ns is the time that the copy takes by the link model when
 * this is called, and what has to be added to it afterwards. *stall: the copy must not go on before
 * sim_fault_stall_wait returns. The code that the copy ends with, or 0. */
int32_t sim_fault_copy(const struct sim_stream *s, const struct sim_task *t, uint64_t *delay_ns, bool *stall);
void sim_fault_stall_wait(const struct sim_stream *s); /* the calling thread's latest stall; no lock held */

/* With sim.mu held: the code that a record ends with, or 0. */
int32_t sim_fault_record(const struct sim_stream *s);
bool sim_fault_allows(int32_t device, size_t nbytes); /* device -1: page-locked host memory */

uint64_t sim_faults_fired_total(void); /* in the life of the process */

/* Device health. The code that calls on the device return while it is lost, or 0. */
int32_t sim_fault_lost(int32_t device);
int sim_check_lost(int32_t device);     /* the code with text, or 0 */
int32_t sim_fault_sick(int32_t device); /* the memory fault that stays until it is repaired, or 0 */
void sim_fault_aborted(int32_t device); /* aclrtDeviceTaskAbort went through */
/* aclrtRepairError and aclrtMemUceRepair: true when the device was ill and is not any more; false when it is
 * well, or its tasks were not aborted first. */
bool sim_fault_repair(int32_t device);
void sim_fault_revive(int32_t device); /* the last reset of the device */

/* fault_lost.c: what a device that has just fallen ill does to its streams. No lock held. */
void sim_device_fell(int32_t device, void *address, size_t nbytes); /* where its memory is bad */
void sim_device_healed(void);

#endif
