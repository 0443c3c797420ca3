/* sim_value.c - words that streams write and wait for. */
#include "tests/sim_util.h"

static aclrtStream s, other;
static uint64_t *dev, *pin;

static uint64_t word(void)
{
    uint64_t value = 0;

    OK(aclsim_peek(dev, &value, sizeof(value)));
    return value;
}

static void check_codes(void)
{
    CHECK_EQ(aclrtValueWrite(NULL, 1, 0, s), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtValueWrite(dev, 1, 1, s), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtValueWrite(pin, 1, 0, s), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtValueWrite((char *)dev + 4, 1, 0, s), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtValueWait(NULL, 1, 0, s), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtValueWait(dev, 1, 4, s), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtValueWait(pin, 1, 0, s), ACL_ERROR_RT_PARAM_INVALID);
}

static void check_write(void)
{
    OK(aclsim_hold_stream(s));
    *pin = 5;
    OK(aclrtMemcpyAsync(dev, 8, pin, 8, ACL_MEMCPY_DEFAULT, s));
    OK(aclrtValueWrite(dev, UINT64_C(0x1122334455667788), 0, s));
    CHECK_EQ(word(), 0); /* in the order of the stream */
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(s));
    CHECK_EQ(word(), 0x1122334455667788);
    OK(aclrtValueWrite(dev, 0, 0, NULL));
    OK(aclrtSynchronizeStream(NULL));
    CHECK_EQ(word(), 0);
}

/* Each comparison at both sides of its limit. */
static void check_flags(void)
{
    static const struct {
        uint32_t flag;
        uint64_t value, no, yes;
    } rows[] = {{ACL_STREAM_WAIT_VALUE_GEQ, 10, 9, 10},
                {ACL_STREAM_WAIT_VALUE_GEQ, 5, UINT64_MAX, 6}, /* by signed difference */
                {ACL_STREAM_WAIT_VALUE_EQ, 10, 11, 10},
                {ACL_STREAM_WAIT_VALUE_AND, 6, 9, 2},
                {ACL_STREAM_WAIT_VALUE_NOR, 1, UINT64_MAX - 1, UINT64_MAX - 2}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        OK(aclrtValueWrite(dev, rows[i].no, 0, other));
        OK(aclrtSynchronizeStream(other));
        OK(aclrtValueWait(dev, rows[i].value, rows[i].flag, s));
        CHECK(!stream_complete(s));
        OK(aclrtValueWrite(dev, rows[i].yes, 0, other));
        OK(aclrtSynchronizeStream(s));
        OK(aclrtValueWait(dev, rows[i].value, rows[i].flag, s)); /* true already */
        OK(aclrtSynchronizeStream(s));
    }
}

/* Whatever writes the word ends the wait. */
static void check_writers(void)
{
    for (int writer = 0; writer < 5; writer++) {
        const uint64_t ones = UINT64_C(0x0101010101010101);

        OK(aclrtMemset(dev, 8, 0, 8));
        *pin = ones;
        OK(aclrtValueWait(dev, ones, ACL_STREAM_WAIT_VALUE_EQ, s));
        CHECK_EQ(aclrtSynchronizeStreamWithTimeout(s, 1), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
        CHECK(message_has("VALUE_WAIT"));
        if (writer == 0)
            OK(aclrtMemcpyAsync(dev, 8, pin, 8, ACL_MEMCPY_DEFAULT, other));
        else if (writer == 1)
            OK(aclrtMemsetAsync(dev, 8, 1, 8, other));
        else if (writer == 2)
            OK(aclrtMemcpy(dev, 8, pin, 8, ACL_MEMCPY_DEFAULT));
        else if (writer == 3)
            OK(aclrtMemset(dev, 8, 1, 8));
        else
            OK(aclsim_poke(dev, pin, 8));
        OK(aclrtSynchronizeStream(s));
    }
}

/* Two streams hand a word to and fro while copies run beside them. */
static void check_ping_pong(void)
{
    OK(aclrtMemset(dev, 8, 0, 8));
    for (uint64_t i = 0; i < 200; i++) {
        OK(aclrtValueWait(dev, 2 * i, ACL_STREAM_WAIT_VALUE_EQ, s));
        OK(aclrtValueWrite(dev, 2 * i + 1, 0, s));
        OK(aclrtValueWait(dev, 2 * i + 1, ACL_STREAM_WAIT_VALUE_EQ, other));
        OK(aclrtValueWrite(dev, 2 * i + 2, 0, other));
        OK(aclrtMemcpyAsync(dev + 1, 8, pin, 8, ACL_MEMCPY_DEFAULT, NULL));
    }
    OK(aclrtSynchronizeStream(s));
    OK(aclrtSynchronizeStream(other));
    CHECK_EQ(word(), 400);
}

static void check_freed(void)
{
    void *gone = device_alloc(64);

    OK(aclrtMemset(gone, 64, 0, 64));
    OK(aclrtValueWait(gone, 1, ACL_STREAM_WAIT_VALUE_EQ, s));
    OK(aclrtFree(gone));
    OK(aclrtValueWrite(dev, 1, 0, other)); /* anything written: the look finds the block gone */
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TS_ERROR);
    OK(aclrtSynchronizeStream(s));
}

int main(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    s = stream_new();
    other = stream_new();
    dev = device_alloc(64);
    pin = pinned_alloc(64);
    OK(aclrtMemset(dev, 64, 0, 64));
    check_codes();
    check_write();
    check_flags();
    check_writers();
    check_ping_pong();
    check_freed();
    OK(aclrtDestroyStream(s));
    OK(aclrtDestroyStream(other));
    return 0;
}
