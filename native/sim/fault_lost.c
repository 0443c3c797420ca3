/* fault_lost.c - what a device that is lost does to the work that was queued on it.
 *
 * Threads: any. Locks: sim.mu. Owns: nothing.
 * Invariant: nobody waits for a lost device for ever: what was queued ends at once, undone, and each stream
 *            has the device's code for the next synchronisation. A copy that runs ends by itself, with the
 * code.
 */
#include "sim/sim.h"

void sim_device_fell(int32_t device)
{
    struct sim_device *dev = &sim.dev[device];
    int32_t code = sim_fault_lost(device);

    if (code == 0)
        return;
    pthread_mutex_lock(&sim.mu);
    for (struct sim_stream *s = dev->streams; s != NULL; s = s->next) {
        uint64_t done = atomic_load_explicit(&s->done, memory_order_relaxed);

        if (s->running || done == atomic_load_explicit(&s->tail, memory_order_relaxed))
            continue;
        s->failure = (struct sim_failure){.code = code, .task_id = (uint32_t)(done & 0xFFFF)};
        sim_stream_drop(s);
    }
    pthread_mutex_unlock(&sim.mu);
}
