/* sim_fill.c - fills with words and the edges of fills with bytes. */
#include "tests/sim_util.h"

enum { WORDS = 100, N = 4 * WORDS };

static char *dev, *pin, *heap;
static aclrtStream s;

static int words(const void *bytes, size_t count, uint32_t value)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp((const char *)bytes + 4 * i, &value, 4) != 0)
            return 0;
    return 1;
}

static void check_arguments(void)
{
    OK(aclrtMemset(NULL, 0, 1, 0));
    OK(aclrtMemsetAsync(NULL, 0, 1, 0, s));
    OK(aclrtMemsetD32(NULL, 0, 1, 0));
    CHECK_EQ(aclrtMemset(NULL, 8, 1, 8), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemsetD32(NULL, 8, 1, 2), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemsetD32(dev + 2, 8, 1, 2), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemsetD32(dev, 7, 1, 2), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemsetD32Async(dev, SIZE_MAX, 1, SIZE_MAX / 2, s), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemsetD32(heap, N, 1, 2), ACL_ERROR_INVALID_PARAM); /* only the runtime's memory */
    CHECK_EQ(aclrtMemsetD32(dev, 4 * N, 1, 4 * WORDS), ACL_ERROR_RT_PARAM_INVALID);
}

static void check_words(void)
{
    OK(aclrtMemset(dev, N, 0, N));
    OK(aclrtMemsetD32(dev, N, 0x01020304, WORDS - 1));
    OK(aclsim_peek(dev, heap, N));
    CHECK(words(heap, WORDS - 1, 0x01020304));
    CHECK(holds_byte(heap + N - 4, 4, 0));
    OK(aclrtMemsetD32(pin, N, 0xA0B0C0D0, WORDS));
    CHECK(words(pin, WORDS, 0xA0B0C0D0));
}

/* In stream order on the device, at once on the host. */
static void check_words_async(void)
{
    OK(aclsim_hold_stream(s));
    OK(aclrtMemsetD32Async(dev, N, 0xDEADBEEF, WORDS, s));
    OK(aclrtMemsetD32Async(pin, N, 0x5, WORDS, s));
    CHECK(words(pin, WORDS, 5));
    OK(aclsim_peek(dev, heap, N));
    CHECK(!words(heap, 1, 0xDEADBEEF));
    OK(aclsim_release_stream(s));
    OK(aclrtSynchronizeStream(s));
    OK(aclsim_peek(dev, heap, N));
    CHECK(words(heap, WORDS, 0xDEADBEEF));
}

int main(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    s = stream_new();
    dev = device_alloc(N);
    pin = pinned_alloc(N);
    heap = malloc(N);
    check_arguments();
    check_words();
    check_words_async();
    free(heap);
    return 0;
}
