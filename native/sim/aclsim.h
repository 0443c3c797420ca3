/* aclsim.h - control of the simulated ACL library, beside the ACL functions themselves.
 *
 * Only libascendcl_sim.so exports these. A program asks for aclsim_abi first: if dlsym does not find it,
 * the library is not the simulator.
 *
 * Environment, read once at the first call of any function of the library:
 *   ACLSIM_PROFILE        chip, form and release, such as a2-ep-9.1 (the default); see aclsim_set_profile
 *   ACLSIM_DEVICES        number of devices, 1 to 64; default 1
 *   ACLSIM_DEVICE_MEMORY  bytes of each device, plain or with KiB, MiB, GiB, TiB; default 32GiB
 *   ACLSIM_LINK           for example "h2d=25e9,d2h=25e9,d2d=1e12,latency_us=8,submit_us=1.9,move=0"; also
 *                         latency_ns and submit_ns. A rate is 0 (no limit) or 1e6 or more. "chip" in front
 *                         starts from about what the chip's usual board reaches.
 *   ACLSIM_MODE, ACLSIM_SEED, ACLSIM_FAULTS  as the functions that set these
 *   ASCEND_RT_VISIBLE_DEVICES  as for CANN: ascending ids, such as 1,3; what they name becomes 0, 1, ...
 * The file given to aclInit may set the same under "aclsim": {"profile", "devices", "device_memory", "link",
 * "mode", "seed", "faults"}, while no device is set; it wins over the environment.
 * Any other value is one line on standard error, and every aclInit returns ACL_ERROR_INVALID_PARAM with this
 * line as its text. Calls that need no aclInit use the default instead.
 *
 * Threads: every function may be called from any thread, with or without an ACL context.
 * Locks:   taken inside; no function here blocks on simulated work.
 */
#ifndef NPUX_ACLSIM_H
#define NPUX_ACLSIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ACLSIM_ABI 1

/* Directions of a DMA engine. */
enum { ACLSIM_H2D = 0, ACLSIM_D2H = 1, ACLSIM_D2D = 2, ACLSIM_N_DIRECTIONS = 3 };

/* The link model of one device. All times are 0 in "instant", which is the default. Otherwise a copy begins
 * when its engine is free and it is the first of its stream, takes latency_ns plus nbytes / rate, and is not
 * seen as finished before. The next one begins at the modelled end, not when somebody noticed it, so a deep
 * queue of copies that take longer than the host needs for each (about 0.3 us; 4 KiB at 25 GB/s takes less)
 * runs within about 1 % of the rate. A thread that waits for one copy wakes up to some tens of microseconds
 * after the modelled end: measure throughput with it, not the latency of a single copy. */
struct aclsim_link {
    uint64_t h2d_bytes_per_s; /* 0: no time for bytes */
    uint64_t d2h_bytes_per_s;
    uint64_t d2d_bytes_per_s;
    uint64_t latency_ns; /* added to each copy, on the engine */
    uint64_t submit_ns;  /* busy time of the submitting thread in each asynchronous call */
    uint32_t move_bytes; /* 1: bytes are copied (default); 0: timing only, for speed measurements */
    uint32_t reserved;
};

/* What happened so far; see also aclsim_call_count. */
struct aclsim_counters {
    uint64_t copies[3];        /* executed copies by direction; one of n * 64 MiB counts as n */
    uint64_t bytes[3];         /* bytes of these */
    uint64_t failed_copies;    /* copies that ended in an error */
    uint64_t pageable_copies;  /* asynchronous copies of ordinary memory, executed synchronously */
    uint64_t unaligned_copies; /* asynchronous copies with an address that is not 64-byte aligned */
    uint64_t live_streams;
    uint64_t live_events;
    uint64_t live_device_blocks;
    uint64_t live_device_bytes;
    uint64_t live_pinned_blocks;
    uint64_t live_pinned_bytes;
};

int aclsim_abi(void); /* ACLSIM_ABI */

/* What is simulated: a chip (910, 310p, 310b, a2, a3, 950), a form (ep, rc) and a CANN release
 * (8.0, 8.3, 8.5, 9.0, 9.1), joined by '-', ',' or ' ' in any order; a part that is missing is that of
 * a2-ep-9.1. "910b" is a2 and "classic" is 8.0. Refused (-1) when there is no such chip in such a form or
 * release, while a device is set, and between aclInit and the finalisation. */
int aclsim_set_profile(const char *name);
int aclsim_get_profile(char *out, size_t nbytes); /* "a2-ep-9.1"; -1 when it does not fit */
/* 1: the simulated release has this function. 0: it does not, and the function returns
 * ACL_ERROR_API_NOT_SUPPORT. -1: the simulator does not know it. A loader takes 0 as a missing symbol. */
int aclsim_has_function(const char *name);

/* Number of devices (1 to 64) before ASCEND_RT_VISIBLE_DEVICES. Refused (-1) while a device is set. Default:
 * ACLSIM_DEVICES or 1. */
int aclsim_set_device_count(uint32_t count);

/* device -1: all devices, also those set later. 0 on success. */
int aclsim_set_link(int32_t device, const struct aclsim_link *link);
int aclsim_get_link(int32_t device, struct aclsim_link *link);

/* A held engine or stream starts no further queued copy or fill; a copy that runs already ends. Holds nest by
 * count. Events with no copy before them still complete, and copies that the calling thread makes itself
 * (aclrtMemcpy, pageable memory) are not held. Engine holds are remembered for a device that is not set yet.
 * stream NULL: the default stream of the current context. 0, or -1 for a bad argument or nothing to release.
 */
int aclsim_hold_engine(int32_t device, int direction);
int aclsim_release_engine(int32_t device, int direction);
int aclsim_hold_stream(void *stream);
int aclsim_release_stream(void *stream);
/* Tasks submitted to streams of this device and not finished; -1 for a bad device. */
int64_t aclsim_pending_tasks(int32_t device);

/* The nth copy (1 = the next) that starts executing in this direction (-1: any) on this device (-1: any)
 * fails with code: it moves no byte, its stream goes on, and the next synchronisation of that stream
 * returns code once. Returns an id > 0, or -1. Several may be armed; each counts every copy and fires once.
 * Copies that the calling thread makes itself are neither counted nor failed; fail_call is for these. */
int64_t aclsim_fail_copy(int32_t device, int direction, uint64_t nth, int32_t code);
/* The nth call (1 = the next) of the ACL function `name` returns code and does nothing else: it is counted,
 * but leaves no error text and no last error. Only for functions that return aclError. */
int64_t aclsim_fail_call(const char *name, uint64_t nth, int32_t code);
/* Disarms everything that has not fired; returns how many that were. */
int64_t aclsim_clear_faults(void);

/* Calls of one ACL function: by the calling thread's kernel id, or by all threads for tid 0.
 * -1 for a name that is not an ACL function. */
int64_t aclsim_call_count(const char *name, uint64_t tid);
void aclsim_counters(struct aclsim_counters *out);
void aclsim_reset_counters(void); /* call counts and executed-copy counts; not the live counts */

/* Copies between device memory and host memory outside of any stream, for tests that look or plant.
 * 0, or -1 when [device_ptr, device_ptr + nbytes) is not one live device block. */
int aclsim_peek(const void *device_ptr, void *host, size_t nbytes);
int aclsim_poke(void *device_ptr, const void *host, size_t nbytes);

#ifdef __cplusplus
}
#endif
#endif
