/* sim_batch.c - many copies in one call. */
#include "tests/sim_util.h"

enum { N = 1024, MANY = 5000 };

static char *dev, *pin, *heap;
static aclrtStream s;

static const aclrtMemcpyBatchAttr h2d = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE},
                                         .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};
static const aclrtMemcpyBatchAttr d2h = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_HOST},
                                         .srcLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};

/* Three copies host to device; tests change one thing each. */
struct batch {
    void *dsts[3], *srcs[3];
    size_t maxs[3], sizes[3], indexes[3], fail;
    aclrtMemcpyBatchAttr attrs[4]; /* more than the copies need */
    size_t n, n_attrs;
};

static struct batch good(void)
{
    struct batch b = {.n = 3, .n_attrs = 1, .fail = 77};

    for (int i = 0; i < 3; i++) {
        b.dsts[i] = dev + i * N;
        b.srcs[i] = pin + i * N;
        b.maxs[i] = b.sizes[i] = N;
        b.attrs[i] = h2d;
        b.indexes[i] = (size_t)i;
    }
    return b;
}

static aclError now(struct batch *b)
{
    return aclrtMemcpyBatch(b->dsts, b->maxs, b->srcs, b->sizes, b->n, b->attrs, b->indexes, b->n_attrs,
                            &b->fail);
}

static aclError later(struct batch *b)
{
    return aclrtMemcpyBatchAsync(b->dsts, b->maxs, b->srcs, b->sizes, b->n, b->attrs, b->indexes, b->n_attrs,
                                 &b->fail, s);
}

/* Both calls refuse the batch with this code and this fail index. */
static void refuse(const struct batch *b, aclError code, size_t fail)
{
    struct batch one = *b, two = *b;

    CHECK_EQ(now(&one), code);
    CHECK_EQ(one.fail, fail);
    CHECK_EQ(later(&two), code);
    CHECK_EQ(two.fail, fail);
    OK(aclrtSynchronizeStream(s));
}

static void check_arguments(void)
{
    struct batch b = good();

    CHECK_EQ(aclrtMemcpyBatch(b.dsts, b.maxs, b.srcs, b.sizes, 3, b.attrs, b.indexes, 1, NULL),
             ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemcpyBatchAsync(b.dsts, b.maxs, b.srcs, NULL, 3, b.attrs, b.indexes, 1, &b.fail, s),
             ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemcpyBatch(NULL, b.maxs, b.srcs, b.sizes, 3, b.attrs, b.indexes, 1, &b.fail),
             ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(b.fail, 77);
    b.n = 0;
    refuse(&b, ACL_ERROR_INVALID_PARAM, 77);
    b = good();
    b.maxs[2] = N - 1;
    refuse(&b, ACL_ERROR_INVALID_PARAM, 77);
    CHECK(message_has("(EH0009)"));
    b = good();
    b.attrs[0].rsv[15] = 1;
    refuse(&b, ACL_ERROR_INVALID_PARAM, 77);
    b = good();
    b.n_attrs = 0;
    refuse(&b, ACL_ERROR_RT_PARAM_INVALID, SIZE_MAX);
    b.n_attrs = 4;
    CHECK_EQ(now(&b), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtMemcpyBatchV2(b.dsts, b.maxs, b.srcs, b.sizes, 3, b.attrs, b.indexes, 1)); /* no fail index */
    b = good();
    b.indexes[0] = 1;
    refuse(&b, ACL_ERROR_RT_PARAM_INVALID, SIZE_MAX);
    b = good();
    b.n_attrs = 2;
    b.indexes[1] = 0;
    refuse(&b, ACL_ERROR_RT_PARAM_INVALID, SIZE_MAX);
    b.indexes[1] = 3;
    refuse(&b, ACL_ERROR_RT_PARAM_INVALID, SIZE_MAX);
}

static void check_entries(void)
{
    struct batch b = good();

    b.attrs[0].dstLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
    refuse(&b, ACL_ERROR_RT_PARAM_INVALID, 0);
    b = good();
    b.attrs[0].dstLoc.id = 1;
    refuse(&b, ACL_ERROR_RT_PARAM_INVALID, 0);
    b = good();
    b.sizes[1] = 0;
    refuse(&b, ACL_ERROR_RT_PARAM_INVALID, 1);
    b = good();
    b.srcs[2] = NULL;
    refuse(&b, ACL_ERROR_RT_PARAM_INVALID, 2);
    b = good();
    b.attrs[0].srcLoc = b.attrs[0].dstLoc;
    b.srcs[0] = b.srcs[1] = b.srcs[2] = dev + 4 * N;
    refuse(&b, ACL_ERROR_RT_PARAM_INVALID, 0);
    CHECK(message_has("(EE1016)"));
    b = good();
    b.attrs[0].srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST_NUMA; /* counts as host */
    OK(now(&b));
    b = good();
    memset(b.sizes, 0, sizeof(b.sizes));
    b.dsts[0] = NULL; /* nothing else is looked at */
    OK(now(&b));
    CHECK(b.fail == SIZE_MAX);
}

static void check_sync(void)
{
    struct batch b = good();
    struct aclsim_counters before, after;

    fill(pin, 3 * N, 1);
    aclsim_counters(&before);
    OK(aclsim_hold_engine(0, ACLSIM_H2D)); /* the caller copies, not the engine */
    OK(now(&b));
    OK(aclsim_release_engine(0, ACLSIM_H2D));
    CHECK(b.fail == SIZE_MAX);
    CHECK(device_holds(dev, 3 * N, 1));
    aclsim_counters(&after);
    CHECK_EQ(after.copies[ACLSIM_H2D] - before.copies[ACLSIM_H2D], 3);
    /* Two directions by two attributes. */
    memset(heap, 0, 3 * N);
    b.n_attrs = 2;
    b.attrs[1] = d2h;
    b.indexes[1] = 2;
    b.srcs[2] = dev;
    b.dsts[2] = heap;
    fill(pin, 3 * N, 2);
    OK(now(&b));
    CHECK(device_holds(dev, 2 * N, 2));
    CHECK(holds(heap, N, 2));
    CHECK(device_holds(dev, 2 * N, 2));
}

static void check_sync_limit(void)
{
    static void *dsts[MANY], *srcs[MANY];
    static size_t sizes[MANY];
    aclrtMemcpyBatchAttr attr = h2d;
    size_t index = 0, fail = 77;

    for (int i = 0; i < MANY; i++) {
        dsts[i] = dev;
        srcs[i] = pin;
        sizes[i] = 8;
    }
    CHECK_EQ(aclrtMemcpyBatch(dsts, sizes, srcs, sizes, 4097, &attr, &index, 1, &fail),
             ACL_ERROR_RT_PARAM_INVALID);
    CHECK(fail == SIZE_MAX);
    OK(aclrtMemcpyBatch(dsts, sizes, srcs, sizes, 4096, &attr, &index, 1, &fail));
    OK(aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, MANY, &attr, &index, 1, &fail, s)); /* no limit */
    OK(aclrtMemcpyBatchAsyncV2(dsts, sizes, srcs, sizes, MANY, &attr, &index, 1, s));
    OK(aclrtSynchronizeStream(s));
}

/* What came before the bad entry stays queued and is copied. */
static void check_async(void)
{
    struct batch b = good();

    OK(aclrtMemset(dev, 3 * N, 9, 3 * N));
    fill(pin, 3 * N, 3);
    b.sizes[2] = 0;
    OK(aclsim_hold_stream(s));
    CHECK_EQ(later(&b), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(b.fail, 2);
    CHECK_EQ(aclsim_pending_tasks(0), 2);
    fill(pin, 3 * N, 4);
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dev, 2 * N, 4));
    OK(aclsim_peek(dev + 2 * N, heap, N));
    CHECK(holds_byte(heap, N, 9));
}

/* An ordinary entry drains the stream in the middle of the call. */
static void check_pageable(void)
{
    struct batch b = good();
    struct aclsim_counters before, after;

    aclsim_counters(&before);
    fill(pin, 3 * N, 5);
    memcpy(heap, pin, 3 * N);
    b.srcs[1] = heap + N;
    OK(later(&b));
    aclsim_counters(&after);
    CHECK_EQ(after.pageable_copies - before.pageable_copies, 1);
    CHECK(device_holds(dev, 2 * N, 5));
    OK(aclrtSynchronizeStream(s));
    CHECK(device_holds(dev, 3 * N, 5));
}

static void check_stream(void)
{
    struct batch b = good();
    aclrtStream gone = stream_new(), mine = s;

    OK(aclrtDestroyStream(gone));
    s = gone;
    CHECK_EQ(later(&b), ACL_ERROR_RT_INVALID_HANDLE);
    s = NULL; /* the default stream */
    OK(later(&b));
    OK(aclrtSynchronizeStream(NULL));
    s = mine;
}

int main(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    s = stream_new();
    dev = device_alloc(8 * N);
    pin = pinned_alloc(8 * N);
    heap = malloc(8 * N);
    check_arguments();
    check_entries();
    check_sync();
    check_sync_limit();
    check_async();
    check_pageable();
    check_stream();
    free(heap);
    return 0;
}
