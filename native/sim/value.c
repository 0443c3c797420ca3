/* value.c - 64-bit words of device memory that a stream writes, or waits for.
 *
 * Threads: any. Locks: sim.mu; the word itself may be written by a copy at the same time, as on a device.
 * Owns:    nothing.
 * Invariant: sim_n_value_waits is the length of the list of waiting streams, whose words are looked at again
 *          after everything that may have written device memory.
 */
#include "sim/sim.h"

#include <string.h>

uint32_t sim_n_value_waits;

static struct sim_stream *waiting; /* by dep_next */
static atomic_uint any;            /* the same count, to be read without sim.mu */

/* Read while an engine may write it: the device's own way to poll. Not seen by the thread sanitizer. */
__attribute__((no_sanitize("thread"))) static uint64_t read_word(const char *at)
{
    uint64_t word;

    __builtin_memcpy(&word, at, sizeof(word));
    return word;
}

__attribute__((no_sanitize("thread"))) static void write_word(char *at, uint64_t word)
{
    __builtin_memcpy(at, &word, sizeof(word));
}

static bool satisfied(uint64_t word, uint64_t number, uint32_t flag)
{
    switch (flag) {
    case ACL_STREAM_WAIT_VALUE_GEQ:
        return (int64_t)(word - number) >= 0;
    case ACL_STREAM_WAIT_VALUE_EQ:
        return word == number;
    case ACL_STREAM_WAIT_VALUE_AND:
        return (word & number) != 0;
    default:
        return ~(word | number) != 0;
    }
}

/* Where the bytes are, with a pin on the block; NULL when it was freed since. */
static char *pin(const struct sim_task *t)
{
    struct sim_ref ref = {t->word.block, t->word.gen};

    return sim_block_pin(ref) ? (char *)((uintptr_t)t->word.ptr + (uintptr_t)ref.block->delta) : NULL;
}

/* The wait is over, also because its memory is gone, which is a failure. */
static bool over(struct sim_stream *s, const struct sim_task *t)
{
    const char *at = pin(t);
    uint64_t word;

    if (at == NULL) {
        sim_ext_fail(s, t, ACL_ERROR_RT_TS_ERROR);
        return true;
    }
    word = read_word(at);
    sim_block_unpin(t->word.block);
    return satisfied(word, t->word.number, t->word.flag);
}

static void count_waits(void)
{
    sim_n_value_waits = 0;
    for (const struct sim_stream *s = waiting; s != NULL; s = s->dep_next)
        sim_n_value_waits++;
    atomic_store_explicit(&any, sim_n_value_waits, memory_order_release);
}

bool sim_value_front(struct sim_stream *s, struct sim_task *t)
{
    char *at;

    if (t->kind == SIM_VALUE_WAIT) {
        /* Counted first: a copy that ends after the look finds the count. */
        sim_stream_depend(s, &waiting);
        count_waits();
        if (!over(s, t))
            return false;
        sim_stream_undepend(s);
        count_waits();
        return true;
    }
    at = pin(t);
    if (at == NULL) {
        sim_ext_fail(s, t, ACL_ERROR_RT_TS_ERROR);
        return true;
    }
    write_word(at, t->word.number);
    sim_block_unpin(t->word.block);
    return true;
}

/* Publishing one stream comes back here: the list is walked anew after each. */
void sim_value_recheck(void)
{
    static bool busy; /* sim.mu held */
    struct sim_stream *s;

    if (busy)
        return;
    busy = true;
    do {
        for (s = waiting; s != NULL; s = s->dep_next) {
            const struct sim_task *t =
                &s->ring[atomic_load_explicit(&s->done, memory_order_relaxed) & SIM_RING_MASK];

            if (over(s, t))
                break;
        }
        if (s != NULL && s->dep_list == &waiting) /* not dropped by its own failure */
            sim_stream_release(s);
    } while (s != NULL);
    count_waits();
    busy = false;
}

void sim_value_poll(void)
{
    if (atomic_load_explicit(&any, memory_order_acquire) == 0)
        return;
    pthread_mutex_lock(&sim.mu);
    sim_value_recheck();
    sim_sched_run();
    pthread_mutex_unlock(&sim.mu);
}

/* --- the calls --- */

/* The order of the runtime: chip, handle, flag, location, context. A word that is not inside one block, or a
 * written one that is not on a multiple of 8, gives 107000 (assumed). */
static aclError check(struct sim_thread *self, const void *ptr, uint32_t flag, uint32_t last_flag, bool write,
                      struct sim_stream *s, struct sim_ref *ref)
{
    int location;
    aclError code;

    if (ptr == NULL)
        return sim_fail_null("device_ptr");
    if (!sim_profile.has_value_wait)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    code = sim_stream_check(s);
    if (code != 0)
        return code;
    if (flag > last_flag)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "flag %u, expected value: [0, %u]", flag,
                        last_flag);
    location = sim_locate(self, ptr, ref);
    if (location != ACL_MEM_LOCATION_TYPE_DEVICE)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003",
                        "%p is not device memory: pass an address of aclrtMalloc", ptr);
    if (ref->block->nbytes - ((uintptr_t)ptr - ref->block->base) < sizeof(uint64_t))
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "%p has no 8 bytes left in its block", ptr);
    if (write && (uintptr_t)ptr % sizeof(uint64_t) != 0)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "%p is no multiple of 8", ptr);
    return ACL_SUCCESS;
}

static aclError submit(struct sim_thread *self, void *ptr, uint64_t number, uint32_t flag,
                       struct sim_stream *s, uint8_t kind, struct sim_ref ref)
{
    struct sim_task *t;
    aclError code = sim_ext_stream(self, &s);

    if (code != 0)
        return code;
    sim_spend_submit(s->dev);
    pthread_mutex_lock(&sim.mu);
    t = sim_submit_begin(self, s, kind);
    if (t != NULL) {
        t->word.ptr = ptr;
        t->word.number = number;
        t->word.flag = flag;
        t->word.block = ref.block;
        t->word.gen = ref.gen;
        sim_submit_commit(self, s);
    }
    pthread_mutex_unlock(&sim.mu);
    return t != NULL ? ACL_SUCCESS : sim_closed_meanwhile(s);
}

aclError aclrtValueWrite(void *device_ptr, uint64_t value, uint32_t flag, aclrtStream stream)
{
    SIM_CALL(aclrtValueWrite);
    struct sim_ref ref;
    aclError code = check(self, device_ptr, flag, 0, true, stream, &ref);

    return code != 0 ? code : submit(self, device_ptr, value, flag, stream, SIM_VALUE_WRITE, ref);
}

aclError aclrtValueWait(void *device_ptr, uint64_t value, uint32_t flag, aclrtStream stream)
{
    SIM_CALL(aclrtValueWait);
    struct sim_ref ref;
    aclError code = check(self, device_ptr, flag, ACL_STREAM_WAIT_VALUE_NOR, false, stream, &ref);

    return code != 0 ? code : submit(self, device_ptr, value, flag, stream, SIM_VALUE_WAIT, ref);
}
