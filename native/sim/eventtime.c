/* eventtime.c - time stamps of events, and the process-wide time limits.
 *
 * Threads: any. Locks: sim.mu for the stamps; the limits are atomic.
 * Owns:    the limits. Invariant: a stamp is read only of a complete record.
 */
#include "sim/sim.h"

static atomic_uint op_wait_timeout_s; /* 0: never */

uint32_t sim_op_wait_timeout_s(void)
{
    return atomic_load_explicit(&op_wait_timeout_s, memory_order_relaxed);
}

/* The checks that both readers of a stamp share; *stamp_ns becomes 0 when the record is not complete. */
static aclError read_stamp(struct sim_event *event, uint64_t *stamp_ns)
{
    aclError code = sim_event_check(event);
    bool complete, recorded;

    if (code == 0 && (event->flags & (ACL_EVENT_IPC | ACL_EVENT_EXTERNAL)) != 0)
        code = sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    if (code != 0)
        return code;
    if ((event->flags & ACL_EVENT_TIME_LINE) == 0)
        return sim_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "EE1001",
                        "the event takes no time stamp: create it with ACL_EVENT_TIME_LINE");
    pthread_mutex_lock(&sim.mu);
    recorded = atomic_load(&event->gen) != 0;
    complete = atomic_load(&event->done_gen) == atomic_load(&event->gen);
    *stamp_ns = complete ? event->stamp_ns : 0;
    pthread_mutex_unlock(&sim.mu);
    if (!recorded)
        return sim_fail(ACL_ERROR_RT_INTERNAL_ERROR, "EE9999",
                        "the event was never recorded: record and synchronize it first");
    return ACL_SUCCESS;
}

static aclError not_complete(void)
{
    return sim_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "EE1001",
                    "the event is not complete: synchronize first");
}

/* A tick need not be a whole number of nanoseconds: 48000 a millisecond on the 310B. */
static uint64_t ticks_of(uint64_t stamp_ns)
{
    return (uint64_t)((unsigned __int128)stamp_ns * sim_profile.ticks_per_ms / 1000000u);
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent start, aclrtEvent end)
{
    SIM_CALL(aclrtEventElapsedTime);
    struct sim_event *pair[] = {start, end};
    uint64_t stamps[2], ticks[2];

    if (ms == NULL)
        return sim_fail_null("ms");
    for (int i = 0; i < 2; i++) {
        aclError code = read_stamp(pair[i], &stamps[i]);

        if (code != 0)
            return code;
    }
    if (stamps[0] == 0 || stamps[1] == 0)
        return not_complete();
    ticks[0] = ticks_of(stamps[0]);
    ticks[1] = ticks_of(stamps[1]);
    if (ticks[1] < ticks[0])
        return sim_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "EE1001",
                        "the end event came before the start: exchange them");
    *ms = (float)((double)(ticks[1] - ticks[0]) / (double)sim_profile.ticks_per_ms);
    return ACL_SUCCESS;
}

/* In microseconds (aclrtEventGetTimestamp, CANN 9.1 docs). */
aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp)
{
    SIM_CALL(aclrtEventGetTimestamp);
    uint64_t stamp_ns;
    aclError code;

    if (timestamp == NULL)
        return sim_fail_null("timestamp");
    code = read_stamp(event, &stamp_ns);
    if (code != 0)
        return code;
    if (stamp_ns == 0)
        return not_complete();
    *timestamp = stamp_ns / 1000;
    return ACL_SUCCESS;
}

/* --- time limits --- */

aclError aclrtSetOpWaitTimeout(uint32_t timeout_s)
{
    SIM_CALL(aclrtSetOpWaitTimeout);
    if (!sim_profile.has_op_wait_timeout)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    atomic_store_explicit(&op_wait_timeout_s, timeout_s, memory_order_relaxed);
    return ACL_SUCCESS;
}

/* The limits of kernels are accepted without effect: copies have none. */
aclError aclrtSetOpExecuteTimeOut(uint32_t timeout_s)
{
    SIM_CALL(aclrtSetOpExecuteTimeOut);
    (void)timeout_s;
    return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout_ms)
{
    SIM_CALL(aclrtSetOpExecuteTimeOutWithMs);
    (void)timeout_ms;
    return ACL_SUCCESS;
}

/* The step of a kernel's time limit, and how many of them fit: chip properties of the open runtime, which
 * agree with the longest limits of aclrtSetOpExecuteTimeOut, CANN 9.1 docs: 2176 s, 547 s, 1091 s. On A2, A3
 * and 950 the driver gives the step; that of the 310B is assumed for them. */
static uint64_t interval_us(void)
{
    const unsigned bits = sim_profile.chip == SIM_CHIP_910 ? 36 : sim_profile.chip == SIM_CHIP_310P ? 31 : 32;

    return (UINT64_C(1) << bits) / 1000;
}

static uint64_t most_intervals(void)
{
    return sim_profile.chip == SIM_CHIP_910 ? 32 : sim_profile.chip == SIM_CHIP_310P ? 255 : 254;
}

aclError aclrtGetOpTimeOutInterval(uint64_t *interval)
{
    SIM_CALL(aclrtGetOpTimeOutInterval);
    struct sim_context *ctx;

    if (interval == NULL)
        return sim_fail_null("interval");
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *interval = interval_us();
    return ACL_SUCCESS;
}

/* Rounded up to whole intervals, at least one; 0 is the longest. */
aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout_us, uint64_t *actual)
{
    SIM_CALL(aclrtSetOpExecuteTimeOutV2);
    struct sim_context *ctx;
    uint64_t n;

    if (actual == NULL)
        return sim_fail_null("actual");
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    n = timeout_us / interval_us() + (timeout_us % interval_us() != 0);
    *actual = (n == 0 || n > most_intervals() ? most_intervals() : n) * interval_us();
    return ACL_SUCCESS;
}
