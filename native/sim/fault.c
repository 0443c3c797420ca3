/* fault.c - the armed fault rules, and what each hook makes of them.
 *
 * Threads: any. Locks: mu, a leaf; the counts let the normal path skip it.
 * Owns:    the list of rules, the health of each device.
 * Invariant: (mu held) a rule that has fired its times stays in the list, so that it can be asked for and so
 *          that its stalled copies stay stalled, but no hook matches it any more.
 */
#include "sim/fault.h"

#include "sim/copy.h"
#include "sim/sim.h"

#include <string.h>

struct health {
    int32_t lost; /* the code, or 0 */
    int32_t sick;
    bool aborted;             /* its tasks, since it became sick */
    int64_t lost_by, sick_by; /* the rules */
};

atomic_uint sim_n_call_faults;
atomic_uint sim_n_copy_faults;
atomic_uint sim_n_record_faults;
atomic_uint sim_n_alloc_faults;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t unstalled = PTHREAD_COND_INITIALIZER;
static struct sim_rule rules[SIM_MAX_RULES];
static uint32_t n_rules;
static int64_t last_id;
static uint64_t n_fired;
static struct health health[SIM_MAX_DEVICES];
static _Thread_local int64_t stalled_by;

/* --- which hook looks at what; mu held --- */

static bool spent(const struct sim_rule *r)
{
    return r->times != 0 && r->fired >= r->times;
}

enum { HOOK_CALL = 1, HOOK_COPY = 2, HOOK_RECORD = 4, HOOK_ALLOC = 8 };

static unsigned hooks_of(const struct sim_rule *r)
{
    switch (r->action) {
    case SIM_FAULT_COPY:
    case SIM_FAULT_SLOW:
    case SIM_FAULT_STALL:
    case SIM_FAULT_SICK:
        return HOOK_COPY;
    case SIM_FAULT_LOSE:
        return r->fn >= 0 ? HOOK_CALL : HOOK_COPY;
    case SIM_FAULT_RANDOM:
        return HOOK_CALL | HOOK_COPY;
    case SIM_FAULT_EVENT:
        return HOOK_RECORD;
    case SIM_FAULT_ALLOC:
        return HOOK_ALLOC;
    default:
        return HOOK_CALL;
    }
}

static void count_hooks(void)
{
    unsigned n[4] = {0}; /* in the order of the bits */

    for (uint32_t i = 0; i < n_rules; i++)
        for (int bit = 0; bit < 4 && !spent(&rules[i]); bit++)
            n[bit] += hooks_of(&rules[i]) >> bit & 1;
    for (int d = 0; d < SIM_MAX_DEVICES; d++) {
        n[0] += health[d].lost != 0;
        n[1] += health[d].lost != 0 || health[d].sick != 0;
    }
    /* Release pairs with the acquire of the hooks: who sees the count finds the rule. */
    atomic_store_explicit(&sim_n_call_faults, n[0], memory_order_release);
    atomic_store_explicit(&sim_n_copy_faults, n[1], memory_order_release);
    atomic_store_explicit(&sim_n_record_faults, n[2], memory_order_release);
    atomic_store_explicit(&sim_n_alloc_faults, n[3], memory_order_release);
}

/* --- when a rule fires; mu held --- */

static double draw(struct sim_rule *r)
{
    r->random ^= r->random << 13;
    r->random ^= r->random >> 7;
    r->random ^= r->random << 17;
    return (double)((r->random * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0;
}

/* Counts one match. */
static bool due(struct sim_rule *r)
{
    if (++r->matched < r->nth || (r->matched - r->nth) % r->every != 0)
        return false;
    if (r->probability < 1 && draw(r) >= r->probability)
        return false;
    r->fired++;
    n_fired++;
    return true;
}

/* The caller tells the streams by sim_device_fell when mu is unlocked. */
static void fall_ill(struct sim_rule *r, int32_t device)
{
    struct health *h = &health[device];

    if (r->action == SIM_FAULT_LOSE) {
        h->lost = r->code;
        h->lost_by = r->id;
        pthread_cond_broadcast(&unstalled);
    } else {
        h->sick = r->code;
        h->sick_by = r->id;
        h->aborted = false;
    }
}

/* --- adding and removing --- */

static bool make_room(uint32_t wanted)
{
    uint32_t kept = 0;

    if (n_rules + wanted <= SIM_MAX_RULES)
        return true;
    for (uint32_t i = 0; i < n_rules; i++)
        if (!spent(&rules[i]) || rules[i].action == SIM_FAULT_STALL)
            rules[kept++] = rules[i];
    n_rules = kept;
    return n_rules + wanted <= SIM_MAX_RULES;
}

int64_t sim_fault_arm(const struct sim_rule *added, uint32_t n)
{
    int64_t id = -1;

    pthread_mutex_lock(&mu);
    if (make_room(n)) {
        for (uint32_t i = 0; i < n; i++) {
            struct sim_rule *r = &rules[n_rules++];

            *r = added[i];
            id = r->id = ++last_id;
            for (int32_t d = 0; r->at_once && d < SIM_MAX_DEVICES; d++)
                if (r->device < 0 || r->device == d)
                    fall_ill(r, d);
            r->fired += r->at_once;
            n_fired += r->at_once;
            if (r->at_once)
                r->times = 1;
        }
        count_hooks();
    }
    pthread_mutex_unlock(&mu);
    for (uint32_t i = 0; i < n && id >= 0; i++)
        for (int32_t d = 0; added[i].at_once && d < SIM_MAX_DEVICES; d++)
            sim_device_fell(d, NULL, 0);
    return id;
}

static void heal(int64_t id) /* mu held; 0: every device */
{
    for (int d = 0; d < SIM_MAX_DEVICES; d++) {
        if (id == 0 || health[d].lost_by == id)
            health[d].lost = 0;
        if (id == 0 || health[d].sick_by == id)
            health[d].sick = 0;
    }
    pthread_cond_broadcast(&unstalled);
}

int aclsim_remove_fault(int64_t id)
{
    int result = -1;

    sim_once();
    pthread_mutex_lock(&mu);
    for (uint32_t i = 0; i < n_rules && result != 0; i++)
        if (rules[i].id == id) {
            memmove(&rules[i], &rules[i + 1], (n_rules - i - 1) * sizeof(rules[0]));
            n_rules--;
            heal(id);
            count_hooks();
            result = 0;
        }
    pthread_mutex_unlock(&mu);
    sim_device_healed();
    return result;
}

int64_t aclsim_faults_fired(int64_t id)
{
    int64_t fired = -1;

    pthread_mutex_lock(&mu);
    for (uint32_t i = 0; i < n_rules; i++)
        if (rules[i].id == id)
            fired = (int64_t)rules[i].fired;
    pthread_mutex_unlock(&mu);
    return fired;
}

uint64_t sim_faults_fired_total(void)
{
    uint64_t fired;

    pthread_mutex_lock(&mu);
    fired = n_fired;
    pthread_mutex_unlock(&mu);
    return fired;
}

int64_t aclsim_clear_faults(void)
{
    int64_t cleared = 0;

    sim_once();
    pthread_mutex_lock(&mu);
    for (uint32_t i = 0; i < n_rules; i++)
        cleared += !spent(&rules[i]);
    n_rules = 0;
    heal(0);
    count_hooks();
    pthread_mutex_unlock(&mu);
    sim_device_healed();
    return cleared;
}

/* --- copies --- */

static bool copy_matches(const struct sim_rule *r, const struct sim_stream *s, const struct sim_task *t)
{
    return (hooks_of(r) & HOOK_COPY) != 0 && !spent(r) && (r->device < 0 || r->device == s->dev->id) &&
           (r->dir < 0 || r->dir == t->dir) && (r->stream < 0 || r->stream == s->id) &&
           t->copy.nbytes >= r->min_bytes && t->copy.nbytes <= r->max_bytes;
}

struct effect {
    int32_t code;
    uint64_t delay_ns;
    int64_t stall;
    bool fell;
};

static void apply(struct sim_rule *r, const struct sim_stream *s, uint64_t taken_ns, struct effect *effect)
{
    enum { RANDOM_DELAY_NS = 200000 }; /* long beside a small copy, short for a test */
    int32_t code = 0;

    switch (r->action) {
    case SIM_FAULT_COPY:
        code = r->code;
        break;
    case SIM_FAULT_SLOW:
        effect->delay_ns += r->delay_ns + (uint64_t)((r->factor - 1) * (double)taken_ns);
        break;
    case SIM_FAULT_STALL:
        effect->stall = r->id;
        break;
    case SIM_FAULT_RANDOM:
        if (draw(r) < 0.5)
            code = ACL_ERROR_RT_TS_ERROR;
        else
            effect->delay_ns += RANDOM_DELAY_NS;
        break;
    default:
        fall_ill(r, s->dev->id);
        effect->fell = true;
    }
    if (effect->code == 0) /* the oldest rule decides */
        effect->code = code;
}

int32_t sim_fault_copy(const struct sim_stream *s, const struct sim_task *t, uint64_t *delay_ns, bool *stall)
{
    struct effect effect = {0};
    bool changed = false;
    struct health *h = &health[s->dev->id];

    pthread_mutex_lock(&mu);
    for (uint32_t i = 0; i < n_rules; i++)
        if (copy_matches(&rules[i], s, t) && due(&rules[i])) {
            apply(&rules[i], s, *delay_ns, &effect);
            changed = true;
        }
    if (changed)
        count_hooks();
    if (h->lost != 0 || h->sick != 0)
        effect.code = h->lost != 0 ? h->lost : h->sick;
    pthread_mutex_unlock(&mu);
    if (effect.fell)
        sim_device_fell(s->dev->id, t->dir == ACLSIM_H2D ? t->copy.dst : (void *)(uintptr_t)sim_task_src(t),
                        t->copy.nbytes);
    stalled_by = effect.stall;
    *stall = effect.stall != 0;
    *delay_ns = effect.delay_ns;
    return effect.code;
}

static bool holds(int64_t id, int32_t device) /* mu held */
{
    if (health[device].lost != 0)
        return false;
    for (uint32_t i = 0; i < n_rules; i++)
        if (rules[i].id == id)
            return true;
    return false;
}

void sim_fault_stall_wait(const struct sim_stream *s)
{
    pthread_mutex_lock(&mu);
    while (holds(stalled_by, s->dev->id))
        pthread_cond_wait(&unstalled, &mu);
    pthread_mutex_unlock(&mu);
}

int32_t sim_fault_record(const struct sim_stream *s)
{
    int32_t code = 0;

    pthread_mutex_lock(&mu);
    for (uint32_t i = 0; i < n_rules; i++) {
        struct sim_rule *r = &rules[i];

        if (r->action == SIM_FAULT_EVENT && !spent(r) && (r->device < 0 || r->device == s->dev->id) &&
            (r->stream < 0 || r->stream == s->id) && due(r) && code == 0)
            code = r->code;
    }
    if (code != 0)
        count_hooks();
    pthread_mutex_unlock(&mu);
    return code;
}

/* --- allocations --- */

bool sim_fault_allows(int32_t device, size_t nbytes)
{
    bool allowed = true;
    struct sim_block_stats blocks;
    size_t free_bytes = 0, total_bytes = 0;
    uint64_t used;

    if (atomic_load_explicit(&sim_n_alloc_faults, memory_order_acquire) == 0)
        return true;
    sim_block_stats(&blocks);
    if (device >= 0)
        sim_heap_room(&sim.dev[device].heap, &free_bytes, &total_bytes);
    used = device >= 0 ? total_bytes - free_bytes : blocks.pinned_bytes;
    pthread_mutex_lock(&mu);
    for (uint32_t i = 0; i < n_rules; i++) {
        struct sim_rule *r = &rules[i];
        bool limited = r->per_call != UINT64_MAX || r->total != UINT64_MAX;

        if (r->action != SIM_FAULT_ALLOC || spent(r) || !(device < 0 ? r->want_pinned : r->want_device) ||
            (device >= 0 && r->device >= 0 && r->device != device) || nbytes < r->min_bytes ||
            nbytes > r->max_bytes)
            continue;
        if (limited && nbytes <= r->per_call && nbytes <= r->total && used <= r->total - nbytes)
            continue;
        if (due(r))
            allowed = false;
    }
    count_hooks();
    pthread_mutex_unlock(&mu);
    return allowed;
}

/* --- calls --- */

struct asked { /* one call, as the rules see it */
    enum sim_fn fn;
    unsigned groups;
    int32_t device; /* the current one; -1: none */
    uint64_t n_streams, n_events;
};

static bool call_matches(const struct sim_rule *r, const struct asked *call)
{
    if ((hooks_of(r) & HOOK_CALL) == 0 || spent(r) || (r->device >= 0 && r->device != call->device))
        return false;
    switch (r->action) {
    case SIM_FAULT_FREE:
        return r->fn >= 0 ? r->fn == (int)call->fn : (call->groups & SIM_GROUP_FREE) != 0;
    case SIM_FAULT_REGISTER:
        return (call->groups & SIM_GROUP_REGISTER) != 0;
    case SIM_FAULT_STREAMS:
        return (call->groups & SIM_GROUP_STREAM) != 0 && call->n_streams >= r->limit;
    case SIM_FAULT_EVENTS:
        return (call->groups & SIM_GROUP_EVENT) != 0 && call->n_events >= r->limit;
    case SIM_FAULT_RANDOM:
        return (call->groups & SIM_GROUP_COPY) != 0;
    default:
        return r->fn == (int)call->fn;
    }
}

/* What one call returns instead of doing its work. */
static int32_t fault_for(const struct asked *call, bool *exhausted)
{
    int32_t code = 0;

    for (uint32_t i = 0; i < n_rules; i++) {
        struct sim_rule *r = &rules[i];
        int32_t given = r->code;
        double rate = r->probability;
        bool now;

        if (!call_matches(r, call))
            continue;
        if (r->action == SIM_FAULT_RANDOM) {
            r->probability = rate / 3; /* a third at submission, two thirds at execution */
            given = ACL_ERROR_RT_MEMORY_ALLOCATION;
        }
        now = due(r);
        r->probability = rate;
        if (!now)
            continue;
        if (r->action == SIM_FAULT_LOSE && call->device >= 0)
            fall_ill(r, call->device);
        if (code == 0) {
            code = given;
            *exhausted = r->action == SIM_FAULT_STREAMS || r->action == SIM_FAULT_EVENTS;
        }
    }
    count_hooks();
    return code;
}

static aclError fail_lost(int32_t code, int32_t device)
{
    return sim_fail(code, "EE9999", "device %d is lost: reset it with aclrtResetDeviceForce, or restart",
                    device);
}

aclError sim_fault_call(enum sim_fn fn)
{
    struct sim_context *ctx = sim_current(sim_self);
    struct asked call = {
        .fn = fn, .groups = sim_fn_groups((int)fn), .device = ctx != NULL ? ctx->dev->id : -1};
    bool exhausted = false;
    int32_t code, lost = 0;

    if ((call.groups & SIM_GROUP_STREAM) != 0 && ctx != NULL) {
        pthread_mutex_lock(&sim.mu);
        call.n_streams = ctx->dev->n_streams;
        pthread_mutex_unlock(&sim.mu);
    }
    call.n_events = atomic_load(&sim.tally.live_events);
    pthread_mutex_lock(&mu);
    code = fault_for(&call, &exhausted);
    if (call.device >= 0 && (call.groups & SIM_GROUP_DEVICE) != 0)
        lost = health[call.device].lost;
    pthread_mutex_unlock(&mu);
    if (lost != 0 && code == lost) /* perhaps by this call */
        sim_device_fell(call.device, NULL, 0);
    if (lost != 0)
        return fail_lost(lost, call.device);
    if (exhausted)
        return sim_fail(code, "EE1023", "device %d has no room for another object in %s", call.device,
                        sim_fn_name(fn));
    return code;
}

/* --- health --- */

int32_t sim_fault_lost(int32_t device)
{
    int32_t code;

    if (atomic_load_explicit(&sim_n_call_faults, memory_order_acquire) == 0)
        return 0;
    pthread_mutex_lock(&mu);
    code = health[device].lost;
    pthread_mutex_unlock(&mu);
    return code;
}

aclError sim_check_lost(int32_t device)
{
    int32_t code = sim_fault_lost(device);

    return code != 0 ? fail_lost(code, device) : ACL_SUCCESS;
}

int32_t sim_fault_sick(int32_t device)
{
    int32_t code;

    pthread_mutex_lock(&mu);
    code = health[device].sick;
    pthread_mutex_unlock(&mu);
    return code;
}

void sim_fault_aborted(int32_t device)
{
    pthread_mutex_lock(&mu);
    health[device].aborted = health[device].sick != 0;
    pthread_mutex_unlock(&mu);
}

bool sim_fault_repair(int32_t device)
{
    bool repaired;

    pthread_mutex_lock(&mu);
    repaired = health[device].sick != 0 && health[device].aborted;
    if (repaired) {
        health[device].sick = 0;
        count_hooks();
    }
    pthread_mutex_unlock(&mu);
    return repaired;
}

void sim_fault_revive(int32_t device)
{
    pthread_mutex_lock(&mu);
    health[device] = (struct health){0};
    count_hooks();
    pthread_mutex_unlock(&mu);
    sim_device_healed();
}
