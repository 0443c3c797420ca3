/* sim_notify.c - notifies: set once, taken once, in order, with time limits and stale handles. */
#include "tests/sim_util.h"

enum { N = 512, MOST = 8192 };

static aclrtStream s, other;
static char *dev, *pin;

static aclrtNotify notify_new(void)
{
    aclrtNotify notify = NULL;

    OK(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    return notify;
}

static void check_codes(void)
{
    aclrtNotify notify, dead = notify_new();
    uint32_t id, same;

    CHECK_EQ(aclrtCreateNotify(NULL, 0), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtCreateNotify(&notify, 2), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtCreateNotify(&notify, ACL_NOTIFY_DEVICE_USE_ONLY));
    OK(aclrtGetNotifyId(notify, &id));
    OK(aclrtGetNotifyId(dead, &same));
    CHECK(id != same);
    CHECK_EQ(aclrtGetNotifyId(notify, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtRecordNotify(NULL, s), ACL_ERROR_INVALID_PARAM);
    OK(aclrtDestroyNotify(dead));
    CHECK_EQ(aclrtDestroyNotify(dead), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQ(aclrtRecordNotify(dead, s), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQ(aclrtWaitAndResetNotify(dead, s, 0), ACL_ERROR_RT_INVALID_HANDLE);
    OK(aclrtDestroyNotify(notify));
}

/* The wait orders the copies of two streams, and takes what it waited for. */
static void check_order(void)
{
    aclrtNotify notify = notify_new();

    for (uint32_t round = 0; round < 50; round++) {
        fill(pin, N, round);
        OK(aclrtMemset(pin + N, N, 0, N));
        OK(aclrtWaitAndResetNotify(notify, other, 0));
        OK(aclrtMemcpyAsync(pin + N, N, dev, N, ACL_MEMCPY_DEFAULT, other));
        CHECK(!stream_complete(other));
        OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
        OK(aclrtRecordNotify(notify, s));
        OK(aclrtSynchronizeStream(other));
        CHECK(holds(pin + N, N, round));
    }
    OK(aclrtDestroyNotify(notify));
}

/* One bit: two records before a wait are one; with several waiting, the first one gets it. */
static void check_one_bit(void)
{
    aclrtNotify notify = notify_new();

    OK(aclrtRecordNotify(notify, s));
    OK(aclrtRecordNotify(notify, s));
    OK(aclrtWaitAndResetNotify(notify, s, 0));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtWaitAndResetNotify(notify, s, 0));
    OK(aclrtWaitAndResetNotify(notify, other, 0));
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(s, 2), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK(message_has("NOTIFY_WAIT"));
    OK(aclrtRecordNotify(notify, NULL));
    OK(aclrtSynchronizeStream(s));
    CHECK(!stream_complete(other));
    OK(aclrtRecordNotify(notify, NULL));
    OK(aclrtSynchronizeStream(other));
    OK(aclrtDestroyNotify(notify));
}

static void check_timeout(void)
{
    aclrtNotify notify = notify_new();

    fill(pin, N, 77);
    OK(aclrtWaitAndResetNotify(notify, s, 1));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TASK_TIMEOUT);
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dev, N, 77));
    OK(aclrtWaitAndResetNotify(notify, s, 1)); /* in time: the limit is over with the wait */
    OK(aclrtRecordNotify(notify, other));
    OK(aclrtWaitAndResetNotify(notify, s, 0));
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(s, 1200), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    OK(aclrtRecordNotify(notify, other));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtDestroyNotify(notify));
}

static void check_limit(void)
{
    aclrtNotify *notifies = malloc(MOST * sizeof(*notifies)), more;

    for (int i = 0; i < MOST; i++)
        notifies[i] = notify_new();
    CHECK_EQ(aclrtCreateNotify(&more, 0), ACL_ERROR_RT_NO_NOTIFY_RESOURCE);
    CHECK(message_has("(EE1023)"));
    for (int i = 0; i < MOST; i++)
        OK(aclrtDestroyNotify(notifies[i]));
    more = notify_new();
    OK(aclrtDestroyNotify(more));
    free(notifies);
}

int main(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    s = stream_new();
    other = stream_new();
    dev = device_alloc(N);
    pin = pinned_alloc(2 * N);
    check_codes();
    check_order();
    check_one_bit();
    check_timeout();
    check_limit();
    return 0;
}
