/* sim_util.h - what the tests of the simulator share. */
#ifndef NPUX_TESTS_SIM_UTIL_H
#define NPUX_TESTS_SIM_UTIL_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "acl/prototypes.h"
#include "sim/aclsim.h"
#include "tests/check.h"

#define OK(call) CHECK_EQ((call), 0)

/* A byte that depends on the position, so that a shifted or swapped copy is noticed. */
static inline unsigned char pattern(uint32_t seed, size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + seed * 40503u + 1u;

    return (unsigned char)(x >> 13);
}

static inline void fill(void *bytes, size_t nbytes, uint32_t seed)
{
    for (size_t i = 0; i < nbytes; i++)
        ((unsigned char *)bytes)[i] = pattern(seed, i);
}

static inline int holds(const void *bytes, size_t nbytes, uint32_t seed)
{
    for (size_t i = 0; i < nbytes; i++)
        if (((const unsigned char *)bytes)[i] != pattern(seed, i))
            return 0;
    return 1;
}

static inline int holds_byte(const void *bytes, size_t nbytes, unsigned char value)
{
    for (size_t i = 0; i < nbytes; i++)
        if (((const unsigned char *)bytes)[i] != value)
            return 0;
    return 1;
}

static inline void *device_alloc(size_t nbytes)
{
    void *ptr = NULL;

    OK(aclrtMalloc(&ptr, nbytes, ACL_MEM_MALLOC_HUGE_FIRST));
    return ptr;
}

static inline void *pinned_alloc(size_t nbytes)
{
    void *ptr = NULL;

    OK(aclrtMallocHost(&ptr, nbytes));
    return ptr;
}

static inline aclrtStream stream_new(void)
{
    aclrtStream s = NULL;

    OK(aclrtCreateStream(&s));
    return s;
}

static inline int device_holds(const void *device_ptr, size_t nbytes, uint32_t seed)
{
    void *host = malloc(nbytes);
    int same;

    OK(aclsim_peek(device_ptr, host, nbytes));
    same = holds(host, nbytes, seed);
    free(host);
    return same;
}

static inline double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* The text left by the last failing call holds this; reading it clears it. */
static inline int message_has(const char *part)
{
    const char *text = aclGetRecentErrMsg();

    return text != NULL && strstr(text, part) != NULL;
}

static inline int event_complete(aclrtEvent event)
{
    aclrtEventRecordedStatus status = (aclrtEventRecordedStatus)9;

    OK(aclrtQueryEventStatus(event, &status));
    return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

static inline int stream_complete(aclrtStream stream)
{
    aclrtStreamStatus status = (aclrtStreamStatus)9;

    OK(aclrtStreamQuery(stream, &status));
    return status == ACL_STREAM_STATUS_COMPLETE;
}

static inline void in_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;

    OK(pthread_create(&thread, NULL, fn, arg));
    OK(pthread_join(thread, NULL));
}

/* Planted races between engine threads are for the guards to find; without bytes that move, ThreadSanitizer
 * has nothing to say about them. */
static inline void move_bytes(uint32_t on)
{
    const struct aclsim_link link = {.move_bytes = on};

    OK(aclsim_set_link(-1, &link));
}

#endif
