/* virtual.c - how fast virtual mode is: many copies over many devices, in the calling thread.
 *
 * Compiled by bench/virtual.py and linked with nothing: it opens the library that it is given. Each device
 * has two streams that upload, one that downloads and one that copies inside; every eighth round the download
 * waits for an event of the first upload.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "acl/prototypes.h"
#include "sim/aclsim.h"

enum { N_STREAMS = 4, SLOT = 4096, N_SLOTS = 16, WINDOW = 512 };

#define FN(name) static __typeof__(&name) p_##name
FN(aclInit);
FN(aclrtSetDevice);
FN(aclrtResetDevice);
FN(aclrtCreateStream);
FN(aclrtMalloc);
FN(aclrtMallocHost);
FN(aclrtFree);
FN(aclrtFreeHost);
FN(aclrtMemcpyAsync);
FN(aclrtCreateEventExWithFlag);
FN(aclrtDestroyEvent);
FN(aclrtRecordEvent);
FN(aclrtStreamWaitEvent);
FN(aclrtSynchronizeDevice);
FN(aclsim_set_device_count);
FN(aclsim_set_mode);
FN(aclsim_set_link);
FN(aclsim_now_ns);

struct device {
    char *memory, *host;
    aclrtStream stream[N_STREAMS];
    aclrtEvent event;
};

static struct device *devices;
static int n_devices, bad;

static double now_s(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);

    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
#define LOAD(name)                                         \
    do {                                                   \
        *(void **)&p_##name = dlsym(library, #name);       \
        if (p_##name == NULL) {                            \
            fprintf(stderr, "%s lacks %s\n", path, #name); \
            exit(1);                                       \
        }                                                  \
    } while (0)
    LOAD(aclInit);
    LOAD(aclrtSetDevice);
    LOAD(aclrtResetDevice);
    LOAD(aclrtCreateStream);
    LOAD(aclrtMalloc);
    LOAD(aclrtMallocHost);
    LOAD(aclrtFree);
    LOAD(aclrtFreeHost);
    LOAD(aclrtMemcpyAsync);
    LOAD(aclrtCreateEventExWithFlag);
    LOAD(aclrtDestroyEvent);
    LOAD(aclrtRecordEvent);
    LOAD(aclrtStreamWaitEvent);
    LOAD(aclrtSynchronizeDevice);
    LOAD(aclsim_set_device_count);
    LOAD(aclsim_set_mode);
    LOAD(aclsim_set_link);
    LOAD(aclsim_now_ns);
}

static void open_devices(void)
{
    for (int d = 0; d < n_devices; d++) {
        struct device *dev = &devices[d];

        bad |= p_aclrtSetDevice(d);
        bad |= p_aclrtMalloc((void **)&dev->memory, SLOT * N_SLOTS * 2, ACL_MEM_MALLOC_HUGE_FIRST);
        bad |= p_aclrtMallocHost((void **)&dev->host, SLOT * N_SLOTS * 2);
        memset(dev->host, 1, SLOT * N_SLOTS * 2);
        bad |= p_aclrtCreateEventExWithFlag(&dev->event, ACL_EVENT_SYNC);
        for (int i = 0; i < N_STREAMS; i++)
            bad |= p_aclrtCreateStream(&dev->stream[i]);
    }
}

static void close_devices(void)
{
    for (int d = 0; d < n_devices; d++) {
        bad |= p_aclrtSetDevice(d);
        bad |= p_aclrtDestroyEvent(devices[d].event);
        bad |= p_aclrtFree(devices[d].memory);
        bad |= p_aclrtFreeHost(devices[d].host);
        bad |= p_aclrtResetDevice(d);
        bad |= p_aclrtResetDevice(d);
    }
}

/* WINDOW copies on one device, so that the context changes rarely, as in a program with a thread each. */
static void round_of(struct device *dev, uint64_t round, uint64_t n)
{
    static const aclrtMemcpyKind kinds[N_STREAMS] = {ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_HOST_TO_DEVICE,
                                                     ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEMCPY_DEVICE_TO_DEVICE};

    if (round % 8 == 0) {
        bad |= p_aclrtRecordEvent(dev->event, dev->stream[0]);
        bad |= p_aclrtStreamWaitEvent(dev->stream[2], dev->event);
    }
    for (uint64_t i = 0; i < n; i++) {
        int lane = (int)(i % N_STREAMS);
        size_t nbytes = 64 + (size_t)((i * 2654435761u + round) % (SLOT - 64));
        char *near = dev->memory + (i % N_SLOTS) * SLOT, *far = near + N_SLOTS * SLOT;
        char *host = dev->host + (i % N_SLOTS) * SLOT;

        if (lane < 2)
            bad |= p_aclrtMemcpyAsync(near, nbytes, host, nbytes, kinds[lane], dev->stream[lane]);
        else if (lane == 2)
            bad |= p_aclrtMemcpyAsync(host + N_SLOTS * SLOT, nbytes, far, nbytes, kinds[lane],
                                      dev->stream[lane]);
        else
            bad |= p_aclrtMemcpyAsync(far, nbytes, near, nbytes, kinds[lane], dev->stream[lane]);
    }
}

/* Simulated nanoseconds of one run. */
static uint64_t run(uint64_t n_copies)
{
    uint64_t start, left = n_copies;

    bad |= p_aclsim_set_mode(ACLSIM_VIRTUAL, 1);
    open_devices();
    start = p_aclsim_now_ns();
    for (uint64_t round = 0; left > 0; round++)
        for (int d = 0; d < n_devices && left > 0; d++) {
            uint64_t n = left < WINDOW ? left : WINDOW;

            bad |= p_aclrtSetDevice(d);
            bad |= p_aclrtResetDevice(d);
            round_of(&devices[d], round, n);
            left -= n;
        }
    for (int d = 0; d < n_devices; d++) {
        bad |= p_aclrtSetDevice(d);
        bad |= p_aclrtSynchronizeDevice();
        bad |= p_aclrtResetDevice(d);
    }
    start = p_aclsim_now_ns() - start;
    close_devices();
    return start;
}

int main(int argc, char **argv)
{
    struct aclsim_link link = {25000000000u, 25000000000u, 800000000000u, 3000, 40, 0, 0};
    struct rusage usage;
    uint64_t n_copies, simulated[2];

    if (argc != 5) {
        fprintf(stderr, "use: virtual LIBRARY COPIES DEVICES MOVE\n");
        return 2;
    }
    load(argv[1]);
    n_copies = strtoull(argv[2], NULL, 10);
    n_devices = atoi(argv[3]);
    link.move_bytes = (uint32_t)atoi(argv[4]);
    devices = calloc((size_t)n_devices, sizeof(*devices));
    bad |= p_aclInit(NULL);
    bad |= p_aclsim_set_device_count((uint32_t)n_devices);
    bad |= p_aclsim_set_link(-1, &link);
    for (int i = 0; i < 2; i++) {
        double seconds = now_s();

        simulated[i] = run(n_copies);
        seconds = now_s() - seconds;
        printf("%llu copies, %d devices, move=%u: %.3f s, simulated %llu ns\n", (unsigned long long)n_copies,
               n_devices, link.move_bytes, seconds, (unsigned long long)simulated[i]);
    }
    getrusage(RUSAGE_SELF, &usage);
    printf("peak RSS %.1f MiB, same simulated time: %s\n", (double)usage.ru_maxrss / 1024,
           simulated[0] == simulated[1] ? "yes" : "NO");
    if (bad != 0)
        fprintf(stderr, "some call failed (codes or-ed: %d)\n", bad);
    return bad != 0 || simulated[0] != simulated[1];
}
