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
 *   ACLSIM_MODE           threads (default), virtual or adversarial: see aclsim_set_mode
 *   ACLSIM_SEED           a whole number, for the choices of adversarial mode; default 0
 *   ACLSIM_GUARDS         0 or 1: see aclsim_set_guards
 *   ACLSIM_STRICT         align: see aclsim_set_strict
 *   ACLSIM_FAULTS         fault rules, or @FILE with them; see aclsim_add_fault
 *   ACLSIM_TELL           1: each finding, the first time, is a line on standard error
 *   ACLSIM_REPORT         a file (- for standard error) that gets the report when the process ends; see
 *                         aclsim_write_report. Another process of the same run, forked or started, writes
 *                         FILE.PID; a forked one that made no call writes nothing. A FILE that is older than
 *                         the process is of an earlier run and is replaced; one with a time in the future
 *                         stays, and every process has FILE.PID, which is empty until it ends.
 *   ASCEND_PROCESS_LOG_PATH, ASCEND_GLOBAL_LOG_LEVEL, ASCEND_SLOG_PRINT_TO_STDOUT  as CANN's: log records in
 *                         the format of the release, in FOLDER/debug/plog and FOLDER/run/plog
 *   ASCEND_RT_VISIBLE_DEVICES  as for CANN: ascending ids, such as 1,3; what they name becomes 0, 1, ...
 * The file given to aclInit may set the same under "aclsim": {"profile", "devices", "device_memory", "link",
 * "mode", "seed", "faults"}, while no device is set; it wins over the environment.
 * Any other value is one line on standard error, and every aclInit returns ACL_ERROR_INVALID_PARAM with this
 * line as its text. Calls that need no aclInit use the default instead.
 *
 * Threads: every function may be called from any thread, with or without an ACL context.
 * Locks:   taken inside; no function here waits for simulated work.
 * Owns:    nothing of the caller's; texts that are returned belong to the calling thread, until its next
 * call. Invariant: nothing here changes what an ACL function of a program that does not call it returns.
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

/* How queued work is executed. Refused (-1) while a device is set.
 *   ACLSIM_THREADS      engine threads, in real time. The default.
 *   ACLSIM_VIRTUAL      no engine threads, and simulated time: the threads that wait or ask execute what is
 * due up to their own simulated time, which a submission raises by submit_ns, a wait to the end of what it
 * waited for, and a query that finds nothing finished by 1 us. The same single-threaded program gives the
 * same times to the nanosecond. Threads that hand work to each other do not hand over their time.
 *   ACLSIM_ADVERSARIAL  no engine threads, no time model: a copy is executed when somebody waits for it, or
 * at a moment that the seed chooses, so that a program that lacks a synchronisation gets wrong bytes. With
 * one host thread a seed repeats a run exactly. Guards are on.
 */
enum { ACLSIM_THREADS = 0, ACLSIM_VIRTUAL = 1, ACLSIM_ADVERSARIAL = 2 };
int aclsim_set_mode(int mode, uint64_t seed);
int aclsim_get_mode(void);
/* The clock of event time stamps: the calling thread's simulated time in virtual mode, else monotonic. */
uint64_t aclsim_now_ns(void);
/* 1: look for overlapping copies that nothing orders (finding "unordered") and for memory that is freed under
 * a copy which the host does not know to be complete ("freed"). Adversarial mode also looks for sources that
 * change between submission and execution ("source-changed"), and fills the host destination of a queued copy
 * with a pattern. -1: the default, on in adversarial mode only. Takes effect for later submissions. */
int aclsim_set_guards(int on);

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
/* Tasks submitted to streams of this device and not finished; -1 for a bad device. In virtual and adversarial
 * mode this is a query as those of streams and events are. */
int64_t aclsim_pending_tasks(int32_t device);

/* The nth copy (1 = the next) that starts executing in this direction (-1: any) on this device (-1: any)
 * fails with code: it moves no byte, its stream goes on, and the next synchronisation of that stream
 * returns code once. Returns an id > 0, or -1. Several may be armed; each counts every copy and fires once.
 * Copies that the calling thread makes itself are neither counted nor failed; fail_call is for these. */
int64_t aclsim_fail_copy(int32_t device, int direction, uint64_t nth, int32_t code);
/* The nth call (1 = the next) of the ACL function `name` returns code and does nothing else: it is counted,
 * but leaves no error text and no last error. Only for functions that return aclError. */
int64_t aclsim_fail_call(const char *name, uint64_t nth, int32_t code);

/* Fault rules: one entry, ACTION key=value ..., as in "copy code=507001 direction=h2d nth=3". Several
 * entries, in ACLSIM_FAULTS or in the file after its '@', are separated by ';' or newlines; '#' begins a
 * comment.
 *
 * Actions, with their own keys and the default code:
 *   call      name= code=      an ACL function returns code and does nothing; no error text, no last error
 *   copy      code=507001      a queued copy ends with code and moves no byte, as aclsim_fail_copy
 *   event     code=507001      a record ends with code; the event completes, the next synchronisation tells
 *   free      code=207002      a freeing function (name= for only one) returns code and frees nothing
 *   alloc     kind=device|pinned (both) per_call=BYTES total=BYTES
 *                              allocations above these limits return 207001; without a limit, all do
 *   streams   limit=N          with N streams on the device, another one is 207008
 *   events    limit=N          with N events in the process, another one is 207007
 *   register  code=207000      aclrtHostRegister and aclrtHostRegisterV2 return code
 *   slow      factor=X delay_us=N  a queued copy takes X times its modelled time and N microseconds more
 *   stall                      a queued copy does not end, and its engine is stuck, until the rule is removed
 *                              (virtual mode: it takes 2 simulated seconds more; adversarial: no effect)
 *   lose      code=507010 name=    the device is lost: queued work fails, calls that need the device return
 *                              code, its status is abnormal; until the last reset, or aclrtResetDeviceForce
 *   sick      code=507054      a memory fault (507053 to 507057): copies fail until tasks are aborted and
 *                              the fault is repaired, or until the device is reset (507057, and 507056
 *                              but on the 950, cannot be repaired)
 *   random    rate=P seed=N    of the copies a share P is refused (207001), fails (507001) or is slow
 * Selectors: device=, and for queued copies direction=h2d|d2h|d2d, stream=ID, min_bytes=, max_bytes=.
 * When: nth=1 the first match that fires, every=1 then one of so many, times=1 how often (0: for ever,
 * also the default of limits and of probability=), probability=P with seed=N, from a generator of the rule's
 * own. lose and sick fire on the nth copy (lose with name=: call), or at once without any such key.
 * BYTES takes KiB, MiB, GiB and TiB.
 *
 * An id > 0, or -1; then aclsim_fault_error says why, for the calling thread's latest rule. */
int64_t aclsim_add_fault(const char *rule);
const char *aclsim_fault_error(void);
/* Also ends the stalls and heals the devices that the rule made ill. 0, or -1 for an unknown id. */
int aclsim_remove_fault(int64_t id);
int64_t aclsim_faults_fired(int64_t id); /* how often, or -1 for an unknown id */
/* Removes every rule, ends stalls, heals devices; returns how many rules could still have fired. */
int64_t aclsim_clear_faults(void);

/* Findings: what was noticed that would be wrong, slow or lucky on hardware. Kinds: pageable, unaligned,
 * wrong-kind, host-as-d2d, source-changed, freed, unordered, stale-handle, in-callback, leak. A text names
 * the calls with the places that they were made from, "aclrtMemcpyAsync [/path/program+0x1234]": addr2line -e
 * /path/program 0x1234 says the line. `npu-xfer sim run` does that by itself. */
int64_t aclsim_finding_count(const char *name); /* NULL: of all kinds; -1 for an unknown name */
/* The index-th of the first 32 different texts of a kind. 0; 1 when it was cut; -1 when there is none. */
int aclsim_finding_text(const char *name, uint32_t index, char *out, size_t n);
void aclsim_clear_findings(void);
/* What findings name as the place of this thread's next call, instead of an address; a language without
 * useful return addresses says its file and line here. Up to 119 characters are kept; NULL: the address. */
void aclsim_set_site(const char *name);

/* Writes the report now: a JSON object with "simulator", "pid", "profile", "mode", "calls", "copies",
 * "failed_copies", "pageable_copies", "unaligned_copies", "faults_fired", "findings", "leaks" (what is alive)
 * and, with a virtual clock, "virtual_ns". path "-": standard error. 0, or -1 when it cannot be written. */
int aclsim_write_report(const char *path);

/* Calls of one ACL function: by the calling thread's kernel id, or by all threads for tid 0.
 * -1 for a name that is not an ACL function. */
int64_t aclsim_call_count(const char *name, uint64_t tid);
void aclsim_counters(struct aclsim_counters *out);
void aclsim_reset_counters(void); /* call counts and executed-copy counts; not the live counts */

/* on: asynchronous copies with an address that is not a multiple of 64 fail with 107000. No CANN release does
 * that; it finds what documents before 9.1 forbid. Default: ACLSIM_STRICT=align in the environment, or off.
 */
void aclsim_set_strict(int on);

/* Copies between device memory and host memory outside of any stream, for tests that look or plant.
 * 0, or -1 when [device_ptr, device_ptr + nbytes) is not one live device block. */
int aclsim_peek(const void *device_ptr, void *host, size_t nbytes);
int aclsim_poke(void *device_ptr, const void *host, size_t nbytes);

#ifdef __cplusplus
}
#endif
#endif
