/* statecb.c - callbacks that hear of devices being set and reset, and of streams being created and destroyed,
 * default streams included.
 *
 * Threads: registration by any; the callbacks run on the thread that sets, resets, creates or destroys.
 * Locks:   those of the lists, see named.h; none during a callback.
 * Owns:    the two lists. Invariant: a stream's destruction is told once.
 */
#include "sim/health.h"
#include "sim/named.h"
#include "sim/sim.h"

#include <stdlib.h>

static struct sim_named_list of_devices = {.mu = PTHREAD_MUTEX_INITIALIZER};
static struct sim_named_list of_streams = {.mu = PTHREAD_MUTEX_INITIALIZER};

void sim_device_notify(int32_t device, aclrtDeviceState state)
{
    size_t n;
    struct sim_named *now = sim_named_now(&of_devices, &n);

    for (size_t i = 0; i < n; i++)
        ((aclrtDeviceStateCallback)now[i].callback)(device, state, now[i].args);
    free(now);
}

static void tell(struct sim_stream *s, aclrtStreamState state)
{
    size_t n;
    struct sim_named *now = sim_named_now(&of_streams, &n);

    for (size_t i = 0; i < n; i++)
        ((aclrtStreamStateCallback)now[i].callback)(s, state, now[i].args);
    free(now);
}

void sim_state_created(struct sim_stream *s)
{
    tell(s, ACL_RT_STREAM_STATE_CREATE_POST);
}

void sim_state_destroying(struct sim_stream *s)
{
    if (!atomic_exchange(&s->told, true))
        tell(s, ACL_RT_STREAM_STATE_DESTROY_PRE);
}

aclError aclrtRegDeviceStateCallback(const char *name, aclrtDeviceStateCallback callback, void *args)
{
    SIM_CALL(aclrtRegDeviceStateCallback);

    return sim_named_set(&of_devices, name, (void (*)(void))callback, args);
}

aclError aclrtRegStreamStateCallback(const char *name, aclrtStreamStateCallback callback, void *args)
{
    SIM_CALL(aclrtRegStreamStateCallback);

    return sim_named_set(&of_streams, name, (void (*)(void))callback, args);
}
