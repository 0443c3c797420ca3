/* fault.c - failures that a test arms: the nth copy, the nth call.
 *
 * Threads: any. Locks: mu, a leaf; the two counters let the normal path skip it.
 * Owns:    the armed list.
 * Invariant: sim_n_copy_faults and sim_n_call_faults are the numbers of armed entries of each sort.
 */
#include "sim/sim.h"

struct fault {
    int64_t id;
    bool is_call;
    int fn;
    int32_t device;
    int dir;
    uint64_t left; /* matching copies or calls until it fires */
    int32_t code;
};

enum { MAX_FAULTS = 1024 };

atomic_uint sim_n_call_faults;
atomic_uint sim_n_copy_faults;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct fault faults[MAX_FAULTS];
static uint32_t n_faults;
static int64_t last_id;

static int64_t arm(struct fault fault)
{
    int64_t id = -1;

    if (fault.left == 0 || fault.code == 0)
        return -1;
    pthread_mutex_lock(&mu);
    if (n_faults < MAX_FAULTS) {
        id = fault.id = ++last_id;
        faults[n_faults++] = fault;
        atomic_fetch_add(fault.is_call ? &sim_n_call_faults : &sim_n_copy_faults, 1);
    }
    pthread_mutex_unlock(&mu);
    return id;
}

static bool matches(const struct fault *f, bool is_call, int fn, int32_t device, int dir)
{
    if (f->is_call != is_call)
        return false;
    if (is_call)
        return f->fn == fn;
    return (f->device < 0 || f->device == device) && (f->dir < 0 || f->dir == dir);
}

/* Every matching entry counts down; the oldest that reaches its turn gives the code. */
static aclError count_down(bool is_call, int fn, int32_t device, int dir)
{
    aclError code = 0;
    uint32_t kept = 0;

    pthread_mutex_lock(&mu);
    for (uint32_t i = 0; i < n_faults; i++) {
        struct fault *f = &faults[i];

        if (matches(f, is_call, fn, device, dir) && --f->left == 0) {
            if (code == 0)
                code = f->code;
            atomic_fetch_sub(is_call ? &sim_n_call_faults : &sim_n_copy_faults, 1);
            continue;
        }
        faults[kept++] = *f;
    }
    n_faults = kept;
    pthread_mutex_unlock(&mu);
    return code;
}

aclError sim_fault_call(enum sim_fn fn)
{
    return count_down(true, (int)fn, 0, 0);
}

aclError sim_fault_copy(int32_t device, int dir)
{
    return count_down(false, 0, device, dir);
}

int64_t aclsim_fail_copy(int32_t device, int direction, uint64_t nth, int32_t code)
{
    if (device < -1 || device >= SIM_MAX_DEVICES || direction < -1 || direction >= ACLSIM_N_DIRECTIONS)
        return -1;
    return arm((struct fault){.device = device, .dir = direction, .left = nth, .code = code});
}

int64_t aclsim_fail_call(const char *name, uint64_t nth, int32_t code)
{
    int fn = sim_fn_by_name(name);

    if (fn < 0)
        return -1;
    return arm((struct fault){.is_call = true, .fn = fn, .left = nth, .code = code});
}

int64_t aclsim_clear_faults(void)
{
    int64_t cleared;

    pthread_mutex_lock(&mu);
    cleared = n_faults;
    n_faults = 0;
    atomic_store(&sim_n_call_faults, 0);
    atomic_store(&sim_n_copy_faults, 0);
    pthread_mutex_unlock(&mu);
    return cleared;
}
