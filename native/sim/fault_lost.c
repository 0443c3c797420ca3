/* fault_lost.c - what a device that is lost or sick does to the rest: its queued work, its health record.
 *
 * Threads: any. Locks: sim.mu. Owns: nothing.
 * Invariant: nobody waits for a lost device for ever: what was queued ends at once, undone, and each stream
 *            has the device's code for the next synchronisation. A copy that runs ends by itself, with it.
 */
#include "sim/health.h"
#include "sim/sim.h"

static aclrtErrorType type_of(int32_t code)
{
    switch (code) {
    case ACL_ERROR_RT_DEVICE_MEM_ERROR:
    case ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR:
    case ACL_ERROR_RT_SUSPECT_DEVICE_MEM_ERROR:
        return ACL_RT_ERROR_MEMORY;
    case ACL_ERROR_RT_LINK_ERROR: /* a type of its own, which can be repaired, on the 950 only (open runtime)
                                   */
        return sim_profile.chip == SIM_CHIP_950 ? ACL_RT_ERROR_LINK : ACL_RT_ERROR_OTHERS;
    default:
        return code == 0 ? ACL_RT_NO_ERROR : ACL_RT_ERROR_OTHERS; /* 507057: assumed */
    }
}

/* sim.mu held. A sick device answers as usual otherwise, and its status stays normal (assumed). */
static void note(int32_t device, void *address, size_t nbytes)
{
    struct sim_health *health = sim_health(device);

    health->status =
        sim_fault_lost(device) != 0 ? ACL_RT_DEVICE_STATUS_ABNORMAL : ACL_RT_DEVICE_STATUS_NORMAL;
    health->error = type_of(sim_fault_sick(device));
    health->n_uce = health->error == ACL_RT_ERROR_MEMORY;
    health->uce[0] = (aclrtMemUceInfo){.addr = address, .len = nbytes};
}

static void end_work(struct sim_device *dev, int32_t code)
{
    for (struct sim_stream *s = dev->streams; s != NULL; s = s->next) {
        uint64_t done = atomic_load_explicit(&s->done, memory_order_relaxed);

        if (s->running || done == atomic_load_explicit(&s->tail, memory_order_relaxed))
            continue;
        s->failure = (struct sim_failure){.code = code, .task_id = (uint32_t)(done & 0xFFFF)};
        sim_stream_drop(s);
    }
}

void sim_device_fell(int32_t device, void *address, size_t nbytes)
{
    int32_t code = sim_fault_lost(device);

    pthread_mutex_lock(&sim.mu);
    note(device, address, nbytes);
    if (code != 0)
        end_work(&sim.dev[device], code);
    pthread_mutex_unlock(&sim.mu);
}

void sim_device_healed(void)
{
    pthread_mutex_lock(&sim.mu);
    for (int32_t d = 0; d < SIM_MAX_DEVICES; d++)
        if (sim_fault_lost(d) == 0 && sim_fault_sick(d) == 0)
            note(d, NULL, 0);
    pthread_mutex_unlock(&sim.mu);
}

/* The record is cleared already. Without the abort before it, the repair did not help (assumed). */
void sim_health_repaired(int32_t device)
{
    if (!sim_fault_repair(device) && sim_fault_sick(device) != 0)
        note(device, NULL, 0);
}
