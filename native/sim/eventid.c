/* eventid.c - the hardware ids of events, of which a device has a limited number.
 *
 * Threads: any. Locks: sim.mu held, but for the ACL functions.
 * Owns:    the id map of each device. An event made with flags holds its id for its life, the others hold one
 *          while their latest record is not complete.
 * Invariant: n_hw_events ids are set in the map; n_hw_pending of them belong to records.
 */
#include "sim/sim.h"

#include <stdlib.h>

enum { ID_WORDS = 65536 / 64 }; /* no product has more than 65536 */

/* Without the SYNC bit no stream can wait for the event, and the documents exempt it from the limit. */
bool sim_event_needs_id(const struct sim_event *event)
{
    return (event->flags & (ACL_EVENT_SYNC | ACL_EVENT_EXTERNAL)) != 0;
}

static bool take(struct sim_device *dev, int64_t *id)
{
    uint32_t n = sim_profile.max_events < ID_WORDS * 64 ? sim_profile.max_events : ID_WORDS * 64;

    if (dev->event_ids == NULL)
        dev->event_ids = calloc(ID_WORDS, sizeof(*dev->event_ids));
    if (dev->event_ids == NULL || dev->n_hw_events >= n)
        return false;
    for (;;) { /* some bit below n is clear; the next id is another one, so that a reused id is old */
        uint32_t at = dev->next_event_id % n;

        dev->next_event_id = at + 1;
        if ((dev->event_ids[at / 64] >> (at % 64) & 1) == 0) {
            dev->event_ids[at / 64] |= UINT64_C(1) << (at % 64);
            dev->n_hw_events++;
            *id = at;
            return true;
        }
    }
}

static bool has_id(void *arg)
{
    const struct sim_device *dev = arg;

    return dev->n_hw_events < sim_profile.max_events || dev->n_hw_pending == 0;
}

aclError sim_event_take_id(struct sim_event *event)
{
    struct sim_device *dev = event->dev;

    if (event->holds_id)
        return ACL_SUCCESS;
    while (!event->holds_id && !take(dev, &event->id)) {
        if (event->mode == SIM_EVENT_FLAG || dev->n_hw_pending == 0)
            return ACL_ERROR_RT_NO_EVENT_RESOURCE;
        dev->n_id_waits++;
        (void)sim_drive_wait(has_id, dev, NULL, &dev->event_cv, SIM_FOREVER);
        dev->n_id_waits--;
    }
    if (event->holds_id)
        return ACL_SUCCESS; /* another thread that records the same event was first */
    event->holds_id = true;
    dev->n_hw_pending += event->mode != SIM_EVENT_FLAG;
    return ACL_SUCCESS;
}

void sim_event_give_id(struct sim_event *event)
{
    struct sim_device *dev = event->dev;

    if (!event->holds_id)
        return;
    event->holds_id = false;
    dev->event_ids[event->id / 64] &= ~(UINT64_C(1) << (event->id % 64));
    dev->n_hw_events--;
    dev->n_hw_pending -= event->mode != SIM_EVENT_FLAG;
    if (dev->n_id_waits == 0)
        return;
    pthread_cond_broadcast(&dev->event_cv);
    sim_drive_wake();
}

/* An event that takes its id at the record has none before the first one; what the call then returns is not
 * documented, 107000 is assumed. An event that never takes one is told apart in the same way. */
aclError aclrtGetEventId(aclrtEvent handle, uint32_t *event_id)
{
    SIM_CALL(aclrtGetEventId);
    struct sim_event *event = handle;
    int64_t id;
    aclError code;

    if (event == NULL)
        return sim_fail_null("event");
    if (event_id == NULL)
        return sim_fail_null("event_id");
    code = sim_event_check(event);
    if (code == 0 && (event->flags & ACL_EVENT_IPC) != 0)
        code = sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    if (code != 0)
        return code;
    pthread_mutex_lock(&sim.mu);
    id = event->id;
    pthread_mutex_unlock(&sim.mu);
    if (id < 0)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1018", "the event has no id before it is recorded");
    *event_id = (uint32_t)id;
    return ACL_SUCCESS;
}

aclError aclrtGetEventAvailNum(uint32_t *count)
{
    SIM_CALL(aclrtGetEventAvailNum);
    struct sim_context *ctx;

    if (count == NULL)
        return sim_fail_null("count");
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    pthread_mutex_lock(&sim.mu);
    *count = sim_profile.max_events - ctx->dev->n_hw_events;
    pthread_mutex_unlock(&sim.mu);
    return ACL_SUCCESS;
}
