/* conf.h - a handful of checks against an ACL library, printed one a line with where each comes from.
 *
 * Threads: check may be called by one thread at a time.
 * Locks:   none.
 * Owns:    the library, from conf_open to the end of the process.
 * Invariant: every check prints one line, "ok" or "not ok" or "skip", and conf_end fails for any "not ok".
 */
#ifndef NPUX_CONF_H
#define NPUX_CONF_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/loader.h"

enum { CONF_WAIT_MS = 10000 };

static struct npux_acl_lib conf_lib;
static struct npux_acl *const acl = &conf_lib.fn;
static unsigned conf_n_checks, conf_n_failed;

/* Opens the library that argv names and sets device 0; ends the program when that fails. */
static inline void conf_open(int argc, char **argv)
{
    struct npux_err err;

    if (argc != 2) {
        fprintf(stderr, "usage: %s LIBRARY\n", argv[0]);
        exit(2);
    }
    if (npux_acl_load(&conf_lib, argv[1], &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        exit(2);
    }
    if (acl->aclInit(NULL) != 0 || acl->aclrtSetDevice(0) != 0) {
        fprintf(stderr, "device 0 cannot be set\n");
        exit(2);
    }
}

/* One expectation about a code; source says which document or observation it is from. */
static inline void check_code(const char *what, const char *source, long long expected, long long found)
{
    bool good = expected == found;

    conf_n_checks++;
    conf_n_failed += !good;
    printf("%s - %s [%s]", good ? "ok" : "not ok", what, source);
    if (!good)
        printf(": expected %lld, found %lld", expected, found);
    printf("\n");
}

static inline void check_true(const char *what, const char *source, bool found)
{
    check_code(what, source, true, found);
}

/* A control function of the simulator, or NULL with a line that says so on any other library. */
static inline void *conf_control(const char *name)
{
    void *found = dlsym(conf_lib.handle, name);

    if (found == NULL)
        printf("skip - %s is a function of the simulator only\n", name);
    return found;
}

/* Whether every slot that a check needs is there, with a line when it is not. */
static inline bool conf_has(bool has, const char *name)
{
    if (!has)
        printf("skip - this release has no %s\n", name);
    return has;
}

static inline void *conf_pinned(size_t nbytes, int fill)
{
    void *host = NULL;

    if (acl->aclrtMallocHost(&host, nbytes) != 0)
        exit(2);
    memset(host, fill, nbytes);
    return host;
}

static inline void *conf_device(size_t nbytes, int fill)
{
    void *device = NULL;

    if (acl->aclrtMalloc(&device, nbytes, ACL_MEM_MALLOC_HUGE_FIRST) != 0 ||
        acl->aclrtMemset(device, nbytes, fill, nbytes) != 0)
        exit(2);
    return device;
}

static inline aclrtStream conf_stream(void)
{
    aclrtStream stream = NULL;

    if (acl->aclrtCreateStream(&stream) != 0)
        exit(2);
    return stream;
}

/* Whether device memory holds nbytes times fill. */
static inline bool conf_holds(const void *device, size_t nbytes, int fill)
{
    unsigned char *seen = malloc(nbytes);
    bool same = true;

    if (seen == NULL || acl->aclrtMemcpy(seen, nbytes, device, nbytes, ACL_MEMCPY_DEVICE_TO_HOST) != 0)
        exit(2);
    for (size_t i = 0; i < nbytes; i++)
        same = same && seen[i] == (unsigned char)fill;
    free(seen);
    return same;
}

static inline int conf_end(void)
{
    check_code("the device is reset", "aclrtResetDevice docs, CANN 9.1", 0, acl->aclrtResetDevice(0));
    check_code("the library is finalised", "aclFinalize docs, CANN 9.1", 0, acl->aclFinalize());
    printf("%u checks, %u failed\n", conf_n_checks, conf_n_failed);
    return conf_n_failed == 0 ? 0 : 1;
}

#endif
