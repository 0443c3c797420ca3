/* sim_site.c - findings name the place that a call was made from: by address, or by what the caller said. */
#include "tests/sim_util.h"

enum { N = 4096 };

static const char *text_of(const char *kind, uint32_t index)
{
    static char text[1024];

    OK(aclsim_finding_text(kind, index, text, sizeof(text)));
    return text;
}

/* "[.../sim_site+0x1234]" */
static int names_this_program(const char *text)
{
    const char *at = strstr(text, "aclrtMemcpyAsync ["), *end = at != NULL ? strchr(at, ']') : NULL;
    const char *mine = at != NULL ? strstr(at, "sim_site+0x") : NULL;

    return mine != NULL && end != NULL && mine < end;
}

static void check_both_sides(void)
{
    aclrtStream s = stream_new(), other = stream_new();
    char *dev = device_alloc(N), *pin = pinned_alloc(2 * N), *second;
    const char *text;

    move_bytes(0);
    OK(aclsim_set_guards(1));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_HOST_TO_DEVICE, s));
    aclsim_set_site("other.py:7 in feed");
    OK(aclrtMemcpyAsync(pin + N, N, dev, N, ACL_MEMCPY_DEVICE_TO_HOST, other));
    CHECK_EQ(aclsim_finding_count("unordered"), 1);
    text = text_of("unordered", 0);
    CHECK(names_this_program(text));
    second = strstr(text, "aclrtMemcpyAsync [other.py:7 in feed]");
    CHECK(second != NULL && second > strstr(text, "sim_site+0x"));

    /* What was said counts for one call. */
    OK(aclrtFree(dev));
    text = text_of("freed", 0);
    CHECK(strstr(text, "aclrtFree [") != NULL);
    CHECK(strstr(text, "aclrtFree [other.py") == NULL);
    (void)aclrtSynchronizeDevice(); /* fails where the copies had not ended */
    OK(aclsim_set_guards(-1));
    OK(aclrtFreeHost(pin));
    OK(aclrtDestroyStream(s));
    OK(aclrtDestroyStream(other));
    move_bytes(1);
    aclsim_clear_findings();
}

/* A long name is cut, and never runs into the text behind it. */
static void check_long_name(void)
{
    aclrtStream s = stream_new();
    char *dev = device_alloc(N), *ordinary = malloc(N);
    char name[400];

    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    aclsim_set_site(name);
    OK(aclrtMemcpyAsync(dev, N, ordinary, N, ACL_MEMCPY_HOST_TO_DEVICE, s));
    CHECK(strstr(text_of("pageable", 0), "xxx] of 4096 bytes") != NULL);
    CHECK(strlen(text_of("pageable", 0)) < 400);
    aclsim_set_site(NULL);
    OK(aclrtSynchronizeStream(s));
    OK(aclrtDestroyStream(s));
    OK(aclrtFree(dev));
    free(ordinary);
    aclsim_clear_findings();
}

/* Without guards, too: a copy whose memory went away says so. */
static void check_gone(void)
{
    aclrtStream s = stream_new();
    char *dev = device_alloc(N), *pin = pinned_alloc(N);

    OK(aclsim_hold_stream(s));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_HOST_TO_DEVICE, s));
    OK(aclrtFreeHost(pin));
    OK(aclsim_release_stream(s));
    CHECK(aclrtSynchronizeStream(s) != 0);
    CHECK_EQ(aclsim_finding_count("freed"), 1);
    CHECK(strstr(text_of("freed", 0), "a copy of 4096 bytes") != NULL);
    OK(aclrtDestroyStream(s));
    OK(aclrtFree(dev));
    aclsim_clear_findings();
}

static void check_kind(void)
{
    aclrtStream s = stream_new();
    char *dev = device_alloc(N), *pin = pinned_alloc(N);

    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_HOST_TO_DEVICE, s));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    CHECK_EQ(aclsim_finding_count("wrong-kind"), 0);
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEVICE_TO_HOST, s));
    CHECK_EQ(aclsim_finding_count("wrong-kind"), 1);
    CHECK(names_this_program(text_of("wrong-kind", 0)));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtDestroyStream(s));
    OK(aclrtFree(dev));
    OK(aclrtFreeHost(pin));
    aclsim_clear_findings();
}

int main(void)
{
    OK(aclrtSetDevice(0));
    check_both_sides();
    check_long_name();
    check_gone();
    check_kind();
    OK(aclrtResetDevice(0));
    return 0;
}
