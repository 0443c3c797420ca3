/* sim.h - internal structures of the simulated ACL library.
 *
 * Threads: any number of callers; one engine thread per (device, direction) that was ever used, but not in
 * the driven modes of drive.h; a timer (timer.c), a poller (ipc.c) and a thread for the host functions of
 *          each context (callback.c), each from its first use on.
 * Locks:   init_mu of init.c, then sim.mu (devices, contexts, streams, events, engines), then that of
 *          register.c, then as leaves those of blocks.c, fault.c, race.c, finding.c, plog.c, thread.c,
 * error.c, exception.c, named.c and devlimit.c. Bytes move and callbacks run with no lock held
 *          (guard_bytes.c says where not).
 * Owns:    everything that a handle points to, for the life of the process: a destroyed object keeps its
 *          memory with another magic, so that a stale handle is recognised and never aliases a new object.
 * Invariant: per stream, done <= tail <= done + queue depth; tasks [done, tail) are the unfinished ones and
 *          finish in order.
 */
#ifndef ACLSIM_SIM_H
#define ACLSIM_SIM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default) /* the only names that leave the library */
#include "acl/prototypes.h"
#include "sim/aclsim.h"
#pragma GCC visibility pop

#include "sim/blocks.h"
#include "sim/drive.h"
#include "sim/ext.h"
#include "sim/fault.h"
#include "sim/finding.h"
#include "sim/plog.h"
#include "sim/profile.h"
#include "sim/race.h"

enum { SIM_MAX_DEVICES = 64, SIM_RING = 2048, SIM_RING_MASK = SIM_RING - 1, SIM_ID_WORDS = 64 };

#define SIM_FOREVER UINT64_MAX

enum {
    SIM_MAGIC_STREAM = 0x5354524d,
    SIM_MAGIC_EVENT = 0x45564e54,
    SIM_MAGIC_CONTEXT = 0x43545854,
    SIM_MAGIC_NOTIFY = 0x4e544659,
    SIM_MAGIC_DEAD = 0x44454144
};

enum sim_fn {
#define ACL_FN(result, name, need, since, parameters) SIM_FN_##name,
#include "acl/symbols.def"
#undef ACL_FN
    SIM_N_FN
};

/* --- streams, tasks, engines ------------------------------------------------------------------------- */

enum sim_task_kind { SIM_COPY, SIM_MEMSET, SIM_RECORD, SIM_WAIT, SIM_MARKER };
/* Kinds that ext.c executes with sim.mu held. */
enum sim_ext_kind {
    SIM_EXT_FIRST = 32,
    SIM_CALLBACK = SIM_EXT_FIRST,
    SIM_NOTIFY_RECORD,
    SIM_NOTIFY_WAIT,
    SIM_VALUE_WRITE,
    SIM_VALUE_WAIT,
    SIM_IPC_RECORD,
    SIM_IPC_WAIT
};

enum {
    SIM_TASK_OWNS_SRC = 1, /* src is malloc'd and dies with the task (copy kind 5, descriptions) */
    SIM_TASK_INDIRECT = 2, /* src is a struct sim_indirect, see copy.h */
    SIM_TASK_ORDINARY = 4, /* a side without a block is ordinary memory, which may be gone */
    SIM_TASK_WORDS = 8     /* SIM_MEMSET: src is a 32-bit value */
};

/* 64 bytes, so that a deep queue stays in the cache. Written by the submitter before tail moves, read by
 * whoever runs the task; when is rewritten by the engine with the modelled completion time. */
struct sim_task {
    uint8_t kind;
    uint8_t dir;
    uint8_t flags;
    uint8_t value; /* SIM_MEMSET */
    uint32_t tid;  /* kernel id of the submitting thread */
    uint64_t when; /* submission time in ns, 0 when time is not modelled */
    union {
        struct {
            char *dst;
            const char *src;
            size_t nbytes;
            struct sim_block *dst_block; /* NULL: not memory that the device knows */
            struct sim_block *src_block;
            uint32_t dst_gen;
            uint32_t src_gen;
        } copy; /* and SIM_MEMSET, without src */
        struct {
            struct sim_event *event;
            uint64_t gen;
        } record;
        struct {
            struct sim_event *event;
            struct sim_stream *on; /* NULL: any record of the event that completes */
            uint64_t seq;
            uint32_t timeout_s; /* 0: none */
        } wait;
        struct {
            struct sim_callback *entry;
        } callback;
        struct {
            struct sim_notify *notify;
            uint32_t timeout_s;
        } notify; /* SIM_NOTIFY_RECORD without timeout_s */
        struct {
            char *ptr;
            struct sim_block *block;
            uint64_t number;
            uint32_t gen;
            uint32_t flag;
        } word; /* SIM_VALUE_WRITE, SIM_VALUE_WAIT */
        struct {
            struct sim_event *event;
            uint64_t ticket;
            uint32_t timeout_s;
        } ipc; /* SIM_IPC_RECORD without timeout_s */
    };
};
_Static_assert(sizeof(struct sim_task) == 64, "one task, one cache line");

struct sim_failure { /* for the message of the next synchronisation */
    int32_t code;
    uint32_t task_id;
    uint8_t dir;
    uint64_t nbytes;
    const void *dst;
    const void *src;
    const char *task; /* what failed, when it was no copy */
};

struct sim_stream {
    atomic_uint magic;
    int32_t id;
    uint32_t flags;
    uint32_t priority;
    uint32_t attr[3]; /* overflow switch, custom tag, cache switch: kept for whoever asks */
    bool stops;       /* ACL_STOP_ON_FAILURE was set on it */
    atomic_bool told; /* the state callbacks know that it is being destroyed */
    bool is_default;
    bool running; /* an engine executes its front tasks */
    bool queued;  /* in an engine's ready list */
    bool closing;
    struct sim_context *ctx;
    struct sim_device *dev;
    struct sim_task *ring;
    atomic_ullong tail;
    atomic_ullong done;
    atomic_uint pause; /* > 0: no further copy starts (holds, forced destruction) */
    uint32_t holds;
    pthread_cond_t cv;
    uint64_t wake_at; /* smallest done that a sleeping thread waits for */
    uint64_t last_end_ns;
    struct sim_failure failure;   /* code 0: none */
    struct sim_group *group;      /* who processes its callbacks, or NULL */
    atomic_uint n_aborts;         /* how often its work was dropped ... */
    int32_t abort_code;           /* ... last with this code ... */
    uint64_t abort_from;          /* ... from this task on */
    uint32_t aborting;            /* calls that are dropping its work now */
    bool device_abort;            /* one of them is aclrtDeviceTaskAbort */
    uint64_t timer_seq, timer_ns; /* the front that has a time limit; see timer.c */
    bool in_timer;
    struct sim_stream *timer_next;
    struct sim_stream *dependents; /* streams whose front waits for this one, by dep_next */
    struct sim_stream *dep_next;
    struct sim_stream **dep_list; /* the list this stream is in, or NULL */
    struct sim_stream *ready_next;
    struct sim_stream *work_next;
    bool in_work;
    uint32_t slot;                  /* in the set of ready.c, or SIM_NOT_READY */
    uint32_t n_polls;               /* adversarial: unsuccessful queries in a row */
    bool ending;                    /* virtual: its front copy has begun; its end event is in the set */
    aclError end_code;              /* of that copy */
    uint64_t end_ns;                /* of that copy */
    struct sim_guard *guard;        /* race.c; NULL: nothing noted yet */
    struct sim_made *made;          /* where it was created; NULL: with its context */
    struct sim_stream *prev, *next; /* the device's live streams */
    struct sim_stream *grave_next;
};

struct sim_engine {
    struct sim_device *dev;
    int dir;
    bool started;
    bool sleeping;
    atomic_uint holds;
    atomic_uint n_ready;
    pthread_cond_t cv;
    struct sim_stream *ready_head, *ready_tail;
    uint64_t free_ns; /* modelled time at which the link is idle again */
    uint64_t rest;    /* fraction of a nanosecond not yet charged, in units of 1/rate */
};

struct sim_device {
    int32_t id;
    int32_t phys;  /* id before ASCEND_RT_VISIBLE_DEVICES renumbered */
    uint32_t refs; /* aclrtSetDevice minus aclrtResetDevice */
    uint32_t n_contexts;
    uint32_t n_streams;    /* user streams */
    uint32_t n_hw_events;  /* event ids in use ... */
    uint32_t n_hw_pending; /* ... of these, by records that are not complete */
    uint64_t *event_ids;
    uint32_t next_event_id;
    pthread_cond_t event_cv; /* an event id became free */
    uint32_t n_id_waits;     /* threads that sleep on it */
    atomic_uint task_abort;  /* aclrtDeviceTaskAbort calls in progress */
    uint32_t n_notifies;
    uint32_t next_notify;
    uint32_t next_id;
    uint64_t ids[SIM_ID_WORDS];
    struct sim_context *primary;
    struct sim_stream *streams;
    struct sim_engine engine[ACLSIM_N_DIRECTIONS];
    struct aclsim_link link;
    atomic_ullong submit_ns; /* link.submit_ns, readable without sim.mu */
    struct sim_heap heap;
};

struct sim_context {
    atomic_uint magic;
    bool is_primary;
    struct sim_device *dev;
    struct sim_stream *stream; /* the default stream */
    bool stops;                /* ACL_STOP_ON_FAILURE was set on one of its streams */
    struct sim_failure halt;   /* the failure that stopped it; code 0: none */
    int32_t halt_stream;       /* its stream's id */
    atomic_int sticky;         /* halt.code once a synchronisation noticed it */
    struct sim_group *host;    /* of the thread that runs its host functions, or NULL */
    struct sim_context *grave_next;
};

enum sim_event_mode { SIM_EVENT_PLAIN, SIM_EVENT_FLAG, SIM_EVENT_EX }; /* the three creation calls */

struct sim_event {
    atomic_uint magic;
    uint8_t mode;
    uint32_t flags;
    struct sim_device *dev;
    struct sim_context *ctx;
    int64_t id; /* hardware id, -1 before the first one; kept for GetEventId when given back */
    bool holds_id;
    atomic_uint record_flag, wait_flag; /* 0: not used yet, else 1 + the flag that it is bound to */
    struct sim_ipc *ipc;                /* shared with other processes, or NULL */
    atomic_ullong gen;                  /* records submitted */
    atomic_ullong done_gen;             /* the latest gen that completed while being the latest */
    atomic_uint n_waits;                /* unfinished StreamWaitEvent tasks */
    uint64_t n_done;
    struct sim_stream *rec_stream; /* latest record: (stream, seq) */
    uint64_t rec_seq;
    uint64_t stamp_ns;
    struct sim_stream *blocked; /* streams that wait for any record, by dep_next */
    struct sim_order *order;    /* race.c: what the latest record comes after */
    struct sim_made *made;      /* where it was created */
    struct sim_event *grave_next;
};

struct sim_tally { /* see struct aclsim_counters */
    atomic_ullong copies[ACLSIM_N_DIRECTIONS];
    atomic_ullong bytes[ACLSIM_N_DIRECTIONS];
    atomic_ullong failed, pageable, unaligned;
    atomic_ullong live_streams, live_events;
};

struct sim_state {
    pthread_mutex_t mu;
    atomic_uint n_devices; /* visible ones */
    uint32_t n_physical;
    uint64_t device_bytes;
    struct sim_device dev[SIM_MAX_DEVICES];
    struct sim_stream *work; /* streams to advance, by work_next; empty whenever mu is free */
    struct sim_stream *dead_streams;
    struct sim_event *dead_events;
    struct sim_context *dead_contexts;
    struct sim_tally tally;
};
extern struct sim_state sim;

/* --- threads and call counting (thread.c) ------------------------------------------------------------ */

enum { SIM_HITS = 16 };

/* One per thread that ever called in; kept when the thread ends, because its counts stay readable. */
struct sim_thread {
    struct sim_thread *next;
    uint32_t tid;
    uint32_t last_task_id;
    uint32_t in_callback;   /* stream callbacks that this thread runs */
    enum sim_fn fn;         /* the latest call, for the log */
    const void *from;       /* where it returns to, for findings; see site.h */
    const char *place;      /* what aclsim_set_site said about it, or NULL */
    const char *next_place; /* about the next call */
    struct sim_context *ctx;
    uint32_t clock_epoch; /* clock.c */
    uint32_t n_polls;     /* adversarial: queries of no stream in particular */
    uint64_t clock_ns;    /* virtual: this thread's time */
    aclError last_error;
    char *pending;                   /* error text not read yet, or NULL */
    char *shown;                     /* what aclGetRecentErrMsg returned last */
    struct sim_found hits[SIM_HITS]; /* recent lookups, by address */
    atomic_ullong calls[SIM_N_FN];   /* written by the owner only */
    uint64_t base[SIM_N_FN];         /* counts at the last reset; thread list lock */
};

struct sim_thread *sim_thread_slow(void);
/* Starts a thread of the library, which is never joined and takes no signals. With or without sim.mu. */
void sim_worker_start(void *(*entry)(void *), void *arg);
void sim_called_in_callback(enum sim_fn fn); /* callback.c: a finding when the documents forbid it */
extern _Thread_local struct sim_thread *sim_self __attribute__((visibility("hidden")));

static inline struct sim_thread *sim_enter(enum sim_fn fn, const void *from)
{
    struct sim_thread *self = sim_self != NULL ? sim_self : sim_thread_slow();
    atomic_ullong *count = &self->calls[fn];

    self->fn = fn;
    self->from = from;
    self->place = self->next_place;
    self->next_place = NULL;
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1, memory_order_relaxed);
    if (self->in_callback != 0)
        sim_called_in_callback(fn);
    return self;
}

/* Counts the call and names the calling thread's record self. */
#define SIM_COUNT(name)                                                                    \
    struct sim_thread *const self = sim_enter(SIM_FN_##name, __builtin_return_address(0)); \
    (void)self

/* Which functions the simulated release does not have yet (profile.c); changes with the profile only. */
extern atomic_bool sim_lacks[SIM_N_FN];
aclError sim_lack(enum sim_fn fn); /* the code and text of a lacking function */

/* The first line of every ACL function that returns aclError. */
#define SIM_CALL(name)                                                             \
    SIM_COUNT(name);                                                               \
    do {                                                                           \
        if (atomic_load_explicit(&sim_lacks[SIM_FN_##name], memory_order_relaxed)) \
            return sim_lack(SIM_FN_##name);                                        \
        if (atomic_load_explicit(&sim_n_call_faults, memory_order_acquire) != 0) { \
            aclError fault_ = sim_fault_call(SIM_FN_##name);                       \
            if (fault_ != 0)                                                       \
                return fault_;                                                     \
        }                                                                          \
    } while (0)

int sim_fn_by_name(const char *name); /* -1: none */
const char *sim_fn_name(enum sim_fn fn);
int64_t sim_calls(enum sim_fn fn, uint64_t tid); /* tid 0: all threads */
void sim_calls_reset(void);

/* --- faults on calls (fault.c) ----------------------------------------------------------------------- */

extern atomic_uint sim_n_call_faults;
aclError sim_fault_call(enum sim_fn fn); /* the code to return, or 0; see also fault.h */

/* --- state and time (state.c, clock.c) --------------------------------------------------------------- */

void sim_once(void);                    /* reads the environment the first time */
uint64_t sim_now_ns(void);              /* monotonic; in virtual mode the calling thread's simulated time */
void sim_sleep_until(uint64_t when_ns); /* sleeps, then spins for the last part; virtual: raises the time */
void sim_cond_init(pthread_cond_t *cv); /* on CLOCK_MONOTONIC */
bool sim_cond_wait_until(pthread_cond_t *cv, uint64_t deadline_ns); /* with sim.mu; false: deadline passed */

/* In a loop that waits for another thread. */
static inline void sim_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

bool sim_any_device_set(void); /* sim.mu held; also explicit contexts count (device.c) */

/* --- errors (error.c) -------------------------------------------------------------------------------- */

/* Leaves the text for aclGetRecentErrMsg, remembers code as the thread's last error unless the ACL layer
 * itself makes it (1000xx, 2000xx), and returns code. */
aclError sim_fail(aclError code, const char *id, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
aclError sim_fail_quiet(aclError code); /* no text */
aclError sim_fail_null(const char *what);
aclError sim_fail_failure(const struct sim_stream *s, const struct sim_failure *failure);
void sim_error_scope(bool by_process); /* whose texts aclGetRecentErrMsg returns; at first the thread's */

/* --- devices (device.c) and contexts (context.c) ----------------------------------------------------- */

aclError sim_check_device(int32_t device); /* 0 or 107001 with text */
/* Of calls that work on the object of a device that is set: 0, 107001, or 507000 (assumed) when it is not. */
aclError sim_check_device_set(int32_t device);
struct sim_target { /* how far a stream has to come */
    struct sim_stream *s;
    uint64_t n_tasks;
    uint32_t aborts; /* what sim_stream_aborts gave */
};
/* What the streams of the device have now; the caller frees *targets. 0, or 200000 with text. Without sim.mu.
 */
aclError sim_device_targets(struct sim_device *dev, struct sim_target **targets, uint32_t *n);
/* Without text: 0, 107000 for a value outside of its range, 207000 when the chip has no such limit. */
aclError sim_limit_set(aclrtDeviceLimit limit, uint64_t value);
/* The device that a thread without context gets; -1: none. */
void sim_set_default_device(int32_t device);
/* sim.mu held. NULL: out of host memory or address space. */
struct sim_context *sim_context_new(struct sim_device *dev, bool is_primary);
/* sim.mu held, unlocked while streams drain. The handle is dead from the start. */
void sim_context_close(struct sim_context *ctx);
struct sim_context *sim_current(struct sim_thread *self); /* NULL without a live one; no message */
aclError sim_need_context(struct sim_thread *self, struct sim_context **ctx); /* 0 or 107002 with text */

/* --- scheduling (sched.c); all with sim.mu held unless said otherwise -------------------------------- */

struct sim_stream *sim_stream_new(struct sim_context *ctx, uint32_t flags, bool is_default);
/* Waits for its work, or drops it; the handle is dead when this starts. Unlocks sim.mu while waiting. */
void sim_stream_close(struct sim_stream *s, bool force);
/* Waits for room. NULL when the stream was closed meanwhile. The caller fills the task, then commits
 * without unlocking. */
struct sim_task *sim_submit_begin(struct sim_thread *self, struct sim_stream *s, uint8_t kind);
void sim_submit_commit(struct sim_thread *self, struct sim_stream *s);
void sim_stream_publish(struct sim_stream *s, uint64_t new_done); /* then sim_sched_run */
void sim_sched_push(struct sim_stream *s);
void sim_sched_run(void);
bool sim_stream_wait(struct sim_stream *s, uint64_t target,
                     uint64_t deadline_ns);                  /* false: too late or aborted */
void sim_stream_spin(struct sim_stream *s, uint64_t target); /* without sim.mu; a few microseconds */

/* --- streams (stream.c) ------------------------------------------------------------------------------ */

aclError sim_stream_check(struct sim_stream *s);     /* 0 for NULL and live streams, else 107017 */
aclError sim_closed_meanwhile(struct sim_stream *s); /* 107017 with text; without sim.mu */
aclError sim_stream_own(const struct sim_stream *s, const struct sim_context *ctx); /* 0 or 107003 */
/* The stream that a call names, from any context, and the current context: 0, 107017 or 107002, in this
 * order. *s becomes the default stream when it is NULL. Without sim.mu, as the next two. */
aclError sim_stream_resolve(struct sim_thread *self, struct sim_stream **s, struct sim_context **ctx);
aclError sim_stream_sync(struct sim_stream *s, uint64_t deadline_ns);
/* The same up to a task that was looked up before, when sim_stream_aborts gave aborts. */
aclError sim_stream_sync_to(struct sim_stream *s, uint64_t target, uint32_t aborts, uint64_t deadline_ns);
uint32_t sim_streams_left(const struct sim_device *dev); /* that can still be created; with sim.mu held */
aclError sim_timeout_check(int32_t timeout_ms, uint64_t *deadline_ns);

/* --- events (event.c); with sim.mu held -------------------------------------------------------------- */

void sim_event_recorded(struct sim_event *event, uint64_t gen, uint64_t when_ns);
void sim_event_give_id(struct sim_event *event); /* eventid.c */
/* Waits while every id is taken and some record of the device is going to give one back. 0 or 207007. */
aclError sim_event_take_id(struct sim_event *event);
/* Whether the kind of event takes a hardware id at all. */
bool sim_event_needs_id(const struct sim_event *event);
uint32_t sim_op_wait_timeout_s(void); /* eventtime.c; without sim.mu */
/* A new event of any creation call, not counted as live yet; NULL without host memory. Without sim.mu. */
struct sim_event *sim_event_new(struct sim_context *ctx, uint32_t flags, enum sim_event_mode mode);
aclError sim_event_check(struct sim_event *event); /* also without sim.mu */

/* --- engines (engine.c) ------------------------------------------------------------------------------ */

extern const char *const sim_dir_names[ACLSIM_N_DIRECTIONS]; /* in rules, reports and thread names */
bool sim_link_timed(const struct aclsim_link *link);
void sim_spend_submit(struct sim_device *dev); /* busy for link.submit_ns; without sim.mu */
/* With sim.mu held: takes the engine's link for nbytes, no earlier than ready_ns; the modelled end. */
uint64_t sim_engine_charge(struct sim_engine *e, const struct aclsim_link *link, uint64_t ready_ns,
                           uint64_t nbytes);
/* Without sim.mu: the front task's bytes, counts and faults in the calling thread, unpublished; its code. */
/* *extra_ns: in the copy's modelled time, out what faults add to it. */
aclError sim_engine_run_one(struct sim_stream *s, uint64_t seq, bool move, uint64_t *extra_ns);
/* With sim.mu held, unlocked for the callbacks of a failure: publishes that task of a running stream. */
void sim_engine_finish(struct sim_stream *s, uint64_t seq, aclError code);
void sim_engine_queue(struct sim_engine *e, struct sim_stream *s); /* this and the next: sim.mu held */
void sim_engine_unqueue(struct sim_engine *e, struct sim_stream *s);
void sim_engine_wake(struct sim_engine *e);

/* --- memory (location.c) ------------------------------------------------------------------------------- */

/* Where ptr points: HOST or DEVICE with *ref filled; UNREGISTERED; or -1 for an address of a device that is
 * in no live block, which nobody may touch. */
int sim_locate(struct sim_thread *self, const void *ptr, struct sim_ref *ref);

/* --- the report (report.c) --------------------------------------------------------------------------- */

void sim_report_init(void); /* reads its part of the environment; once */

/* --- exception callbacks (exception.c) --------------------------------------------------------------- */

void sim_exception_report(const struct sim_stream *s, const struct sim_failure *failure, uint32_t tid);

#endif
