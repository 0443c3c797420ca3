/* control.c - the functions of aclsim.h.
 *
 * Threads: any. Locks: sim.mu. Owns: nothing.
 * Invariant: nothing here waits for simulated work; asking for pending tasks may execute some (drive.h).
 */
#include "sim/settings.h"
#include "sim/sim.h"

#include <string.h>

int aclsim_abi(void)
{
    return ACLSIM_ABI;
}

int aclsim_set_device_count(uint32_t count)
{
    bool in_use;

    sim_once();
    if (count == 0 || count > SIM_MAX_DEVICES)
        return -1;
    pthread_mutex_lock(&sim.mu);
    in_use = sim_any_device_set();
    if (!in_use)
        sim_use_devices(count);
    pthread_mutex_unlock(&sim.mu);
    return in_use ? -1 : 0;
}

static bool good_device(int32_t device)
{
    return device >= 0 && device < SIM_MAX_DEVICES;
}

int aclsim_set_link(int32_t device, const struct aclsim_link *link)
{
    sim_once();
    if (link == NULL || (device != -1 && !good_device(device)))
        return -1;
    pthread_mutex_lock(&sim.mu);
    sim_forget_link();
    for (int32_t d = 0; d < SIM_MAX_DEVICES; d++)
        if (device == -1 || device == d) {
            sim.dev[d].link = *link;
            atomic_store(&sim.dev[d].submit_ns, link->submit_ns);
        }
    pthread_mutex_unlock(&sim.mu);
    return 0;
}

int aclsim_get_link(int32_t device, struct aclsim_link *link)
{
    sim_once();
    if (link == NULL || !good_device(device))
        return -1;
    pthread_mutex_lock(&sim.mu);
    *link = sim.dev[device].link;
    pthread_mutex_unlock(&sim.mu);
    return 0;
}

/* --- holds --- */

static struct sim_engine *engine_of(int32_t device, int direction)
{
    sim_once();
    if (!good_device(device) || direction < 0 || direction >= ACLSIM_N_DIRECTIONS)
        return NULL;
    return &sim.dev[device].engine[direction];
}

int aclsim_hold_engine(int32_t device, int direction)
{
    struct sim_engine *e = engine_of(device, direction);

    if (e == NULL)
        return -1;
    pthread_mutex_lock(&sim.mu);
    atomic_fetch_add(&e->holds, 1);
    pthread_mutex_unlock(&sim.mu);
    return 0;
}

int aclsim_release_engine(int32_t device, int direction)
{
    struct sim_engine *e = engine_of(device, direction);
    int result = -1;

    if (e == NULL)
        return -1;
    pthread_mutex_lock(&sim.mu);
    if (atomic_load(&e->holds) != 0) {
        result = 0;
        if (atomic_fetch_sub(&e->holds, 1) == 1) {
            uint64_t now = sim_now_ns();

            if (e->free_ns < now) /* the held time cannot be used any more */
                e->free_ns = now;
            sim_engine_wake(e);
        }
    }
    pthread_mutex_unlock(&sim.mu);
    return result;
}

/* A destroyed stream may be released: its destruction waits for that. */
static struct sim_stream *stream_of(void *stream)
{
    struct sim_thread *self = sim_self != NULL ? sim_self : sim_thread_slow();
    struct sim_context *ctx = sim_current(self);

    return stream != NULL ? stream : ctx != NULL ? ctx->stream : NULL;
}

int aclsim_hold_stream(void *stream)
{
    struct sim_stream *s = stream_of(stream);
    int result = -1;

    if (s == NULL)
        return -1;
    pthread_mutex_lock(&sim.mu);
    if (atomic_load(&s->magic) == SIM_MAGIC_STREAM) {
        s->holds++;
        atomic_fetch_add(&s->pause, 1);
        result = 0;
    }
    pthread_mutex_unlock(&sim.mu);
    return result;
}

int aclsim_release_stream(void *stream)
{
    struct sim_stream *s = stream_of(stream);
    int result = -1;

    if (s == NULL)
        return -1;
    pthread_mutex_lock(&sim.mu);
    if ((atomic_load(&s->magic) == SIM_MAGIC_STREAM || atomic_load(&s->magic) == SIM_MAGIC_DEAD) &&
        s->holds > 0) {
        s->holds--;
        result = 0;
        if (atomic_fetch_sub(&s->pause, 1) == 1 && s->ring != NULL) {
            uint64_t now = sim_now_ns();

            if (s->last_end_ns < now)
                s->last_end_ns = now;
            sim_sched_push(s);
            sim_sched_run();
        }
    }
    pthread_mutex_unlock(&sim.mu);
    return result;
}

int64_t aclsim_pending_tasks(int32_t device)
{
    uint64_t pending = 0;

    sim_once();
    if (!good_device(device))
        return -1;
    sim_drive_poll(NULL, 0); /* a query like any other, so that a loop around it ends */
    pthread_mutex_lock(&sim.mu);
    for (struct sim_stream *s = sim.dev[device].streams; s != NULL; s = s->next)
        pending += atomic_load(&s->tail) - atomic_load(&s->done);
    pthread_mutex_unlock(&sim.mu);
    return (int64_t)pending;
}

/* --- counters --- */

int64_t aclsim_call_count(const char *name, uint64_t tid)
{
    int fn = sim_fn_by_name(name);

    return fn < 0 ? -1 : sim_calls((enum sim_fn)fn, tid);
}

void aclsim_counters(struct aclsim_counters *out)
{
    struct sim_block_stats blocks;

    sim_block_stats(&blocks);
    for (int dir = 0; dir < ACLSIM_N_DIRECTIONS; dir++) {
        out->copies[dir] = atomic_load(&sim.tally.copies[dir]);
        out->bytes[dir] = atomic_load(&sim.tally.bytes[dir]);
    }
    out->failed_copies = atomic_load(&sim.tally.failed);
    out->pageable_copies = atomic_load(&sim.tally.pageable);
    out->unaligned_copies = atomic_load(&sim.tally.unaligned);
    out->live_streams = atomic_load(&sim.tally.live_streams);
    out->live_events = atomic_load(&sim.tally.live_events);
    out->live_device_blocks = blocks.device_blocks;
    out->live_device_bytes = blocks.device_bytes;
    out->live_pinned_blocks = blocks.pinned_blocks;
    out->live_pinned_bytes = blocks.pinned_bytes;
}

void aclsim_reset_counters(void)
{
    for (int dir = 0; dir < ACLSIM_N_DIRECTIONS; dir++) {
        atomic_store(&sim.tally.copies[dir], 0);
        atomic_store(&sim.tally.bytes[dir], 0);
    }
    atomic_store(&sim.tally.failed, 0);
    atomic_store(&sim.tally.pageable, 0);
    atomic_store(&sim.tally.unaligned, 0);
    sim_calls_reset();
}

/* --- looking and planting --- */

static char *pin_device(const void *ptr, size_t nbytes, struct sim_found *found)
{
    if (ptr == NULL || !sim_block_find(ptr, found) || found->device < 0)
        return NULL;
    if (nbytes > found->nbytes - ((uintptr_t)ptr - found->base) || !sim_block_pin(found->ref))
        return NULL;
    return (char *)((uintptr_t)ptr + (uintptr_t)found->ref.block->delta);
}

int aclsim_peek(const void *device_ptr, void *host, size_t nbytes)
{
    struct sim_found found;
    const char *bytes = pin_device(device_ptr, nbytes, &found);

    if (bytes == NULL)
        return -1;
    memcpy(host, bytes, nbytes);
    sim_block_unpin(found.ref.block);
    return 0;
}

int aclsim_poke(void *device_ptr, const void *host, size_t nbytes)
{
    struct sim_found found;
    char *bytes = pin_device(device_ptr, nbytes, &found);

    if (bytes == NULL)
        return -1;
    memcpy(bytes, host, nbytes);
    sim_value_poll();
    sim_block_unpin(found.ref.block);
    return 0;
}
