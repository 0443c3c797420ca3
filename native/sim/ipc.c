/* ipc.c - events that several processes record and wait for, through one page of shared memory each.
 *
 * Threads: any; plus one poller, started when the first stream waits for a record that is not complete.
 * Locks:   sim.mu; the shared page is atomic, because other processes do not take our locks.
 * Owns:    the mappings, and the open memory file of each event that this process made. It has no name, so
 *          that nothing is left of a process that is killed; others of the same user open it through /proc
 *          while it is open here. What is open elsewhere stays usable.
 * Invariant: a record has a ticket, in the order of the calls in all processes; slots[ticket % SLOTS] is at
 *          least the ticket when the record is complete.
 */
#include "sim/made.h"
#include "sim/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 256, NAME_BYTES = 40 };

#define TAG UINT64_C(0x31564543504d4953)

struct shared {
    uint64_t key;          /* random; the handle has it, too */
    atomic_ullong tickets; /* of the latest record; 0: none */
    atomic_uint pulse;     /* a futex: changes with every completion */
    atomic_ullong slots[SLOTS];
};

struct handle { /* what is inside of an aclrtIpcEventHandle */
    uint64_t tag;
    uint64_t key;
    char name[NAME_BYTES];
};
_Static_assert(sizeof(struct handle) <= sizeof(aclrtIpcEventHandle), "the handle has 64 bytes");

struct sim_ipc {
    struct shared *map;
    char name[NAME_BYTES];
    int fd; /* -1: opened */
    bool closed;
    uint32_t n_users;           /* tasks and calls that look at map */
    struct sim_stream *waiting; /* by dep_next */
    struct sim_ipc *next;
};

static struct sim_ipc *all; /* closed ones too */
static pthread_cond_t poller_cv;
static bool poller_started;

/* --- the shared page --- */

static bool ticket_over(const struct sim_ipc *ipc, uint64_t ticket)
{
    /* Acquire pairs with the release of complete_ticket, perhaps in another process. */
    return ticket == 0 ||
           atomic_load_explicit(&ipc->map->slots[ticket % SLOTS], memory_order_acquire) >= ticket;
}

static void complete_ticket(struct sim_ipc *ipc, uint64_t ticket)
{
    atomic_ullong *slot = &ipc->map->slots[ticket % SLOTS];
    unsigned long long seen = atomic_load_explicit(slot, memory_order_relaxed);

    while (seen < ticket && !atomic_compare_exchange_weak_explicit(slot, &seen, ticket, memory_order_release,
                                                                   memory_order_relaxed))
        ;
    atomic_fetch_add_explicit(&ipc->map->pulse, 1, memory_order_release);
    (void)syscall(SYS_futex, &ipc->map->pulse, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static struct shared *map_file(int fd)
{
    void *map = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return map != MAP_FAILED ? map : NULL;
}

static struct shared *make_page(char *name, int *fd)
{
    struct shared *map = NULL;
    uint64_t random = 0;

    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return NULL;
    *fd = memfd_create("aclsim-event", MFD_CLOEXEC);
    if (*fd < 0)
        return NULL;
    if (ftruncate(*fd, sizeof(struct shared)) == 0)
        map = map_file(*fd);
    if (map == NULL) {
        close(*fd);
        return NULL;
    }
    map->key = random;
    snprintf(name, NAME_BYTES, "/proc/%d/fd/%d", (int)getpid(), *fd);
    return map;
}

/* The key tells whether the file is still the one of the handle. */
static struct shared *open_page(const struct handle *handle)
{
    struct shared *map = NULL;
    struct stat st;
    int fd = open(handle->name, O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && st.st_size == (off_t)sizeof(struct shared))
        map = map_file(fd);
    close(fd);
    if (map != NULL && map->key != handle->key) {
        munmap(map, sizeof(*map));
        map = NULL;
    }
    if (map == NULL)
        errno = ENOENT;
    return map;
}

/* --- life; sim.mu held --- */

static struct sim_ipc *ipc_new(struct shared *map, const char *name, int fd)
{
    struct sim_ipc *ipc = map != NULL ? calloc(1, sizeof(*ipc)) : NULL;

    if (ipc == NULL)
        return NULL;
    ipc->map = map;
    memcpy(ipc->name, name, NAME_BYTES);
    ipc->fd = fd;
    ipc->next = all;
    all = ipc;
    return ipc;
}

/* Made with the first use, so that an event that nobody exports and records costs no file. */
static struct sim_ipc *ipc_of(struct sim_event *event)
{
    char name[NAME_BYTES] = "";
    struct shared *map;
    int fd = -1;

    if (event->ipc == NULL) {
        map = make_page(name, &fd);
        event->ipc = ipc_new(map, name, fd);
    }
    return event->ipc;
}

static void unuse(struct sim_ipc *ipc)
{
    if (--ipc->n_users == 0 && ipc->closed) {
        munmap(ipc->map, sizeof(*ipc->map));
        ipc->map = NULL;
    }
}

void sim_ipc_closed(struct sim_event *event)
{
    struct sim_ipc *ipc = event->ipc;

    if (ipc->fd >= 0)
        close(ipc->fd);
    ipc->closed = true;
    ipc->n_users++;
    unuse(ipc);
}

static aclError no_page(void)
{
    return sim_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "EE1020", "no shared memory for an event: %s",
                    strerror(errno));
}

/* --- on a stream; sim.mu held --- */

static void release_over(struct sim_ipc *ipc)
{
    struct sim_stream *s = ipc->waiting;

    while (s != NULL) {
        const struct sim_task *t =
            &s->ring[atomic_load_explicit(&s->done, memory_order_relaxed) & SIM_RING_MASK];

        if (ticket_over(ipc, t->ipc.ticket)) {
            ipc->n_users++; /* the task's own use ends with it */
            sim_stream_release(s);
            unuse(ipc);
            s = ipc->waiting;
        } else {
            s = s->dep_next;
        }
    }
}

/* Nobody tells this process about a completion elsewhere but the page. */
static void *poller_main(void *arg)
{
    enum { PERIOD_NS = 1000000 };

    (void)arg;
    pthread_mutex_lock(&sim.mu);
    for (;;) {
        bool waits = false;

        for (struct sim_ipc *ipc = all; ipc != NULL; ipc = ipc->next) {
            release_over(ipc);
            waits = waits || ipc->waiting != NULL;
        }
        sim_sched_run();
        (void)sim_cond_wait_until(&poller_cv, waits ? sim_now_ns() + PERIOD_NS : SIM_FOREVER);
    }
    return NULL;
}

static void wake_poller(void)
{
    if (!poller_started) {
        poller_started = true;
        sim_cond_init(&poller_cv);
        sim_worker_start(poller_main, NULL);
    }
    pthread_cond_signal(&poller_cv);
}

bool sim_ipc_front(struct sim_stream *s, struct sim_task *t)
{
    struct sim_ipc *ipc = t->ipc.event->ipc;

    if (t->kind == SIM_IPC_RECORD)
        return true; /* its publication completes it */
    if (ticket_over(ipc, t->ipc.ticket))
        return true;
    sim_stream_depend(s, &ipc->waiting);
    if (t->ipc.timeout_s != 0)
        sim_timer_arm(s, t->ipc.timeout_s);
    wake_poller();
    return false;
}

/* A dropped record completes, too, as that of any other event. */
void sim_ipc_task_done(struct sim_task *t)
{
    struct sim_ipc *ipc = t->ipc.event->ipc;

    if (t->kind == SIM_IPC_RECORD) {
        complete_ticket(ipc, t->ipc.ticket);
        release_over(ipc);
    }
    unuse(ipc);
}

static aclError submit(struct sim_thread *self, struct sim_event *event, struct sim_stream *s, uint8_t kind,
                       uint32_t timeout_s)
{
    struct sim_ipc *ipc;
    struct sim_task *t = NULL;
    uint64_t ticket = 0;
    bool nothing;

    sim_spend_submit(s->dev);
    pthread_mutex_lock(&sim.mu);
    ipc = ipc_of(event);
    if (ipc != NULL && kind == SIM_IPC_WAIT)
        ticket = atomic_load_explicit(&ipc->map->tickets, memory_order_acquire);
    nothing = ipc != NULL && kind == SIM_IPC_WAIT && ticket_over(ipc, ticket);
    if (ipc != NULL && !nothing)
        t = sim_submit_begin(self, s, kind);
    if (t != NULL) {
        if (kind == SIM_IPC_RECORD)
            ticket = atomic_fetch_add_explicit(&ipc->map->tickets, 1, memory_order_acq_rel) + 1;
        t->ipc.event = event;
        t->ipc.ticket = ticket;
        t->ipc.timeout_s = timeout_s;
        ipc->n_users++;
        sim_submit_commit(self, s);
    }
    pthread_mutex_unlock(&sim.mu);
    if (ipc == NULL)
        return no_page();
    return nothing || t != NULL ? ACL_SUCCESS : sim_closed_meanwhile(s);
}

aclError sim_ipc_record(struct sim_thread *self, struct sim_event *event, struct sim_stream *s)
{
    return submit(self, event, s, SIM_IPC_RECORD, 0);
}

/* Waits for the latest record of any process; none at all is nothing to wait for. */
aclError sim_ipc_wait(struct sim_thread *self, struct sim_event *event, struct sim_stream *s,
                      uint32_t timeout_s)
{
    return submit(self, event, s, SIM_IPC_WAIT, timeout_s);
}

/* --- from the host --- */

bool sim_ipc_complete(struct sim_event *event)
{
    bool complete = true;

    pthread_mutex_lock(&sim.mu);
    if (event->ipc != NULL && !event->ipc->closed)
        complete =
            ticket_over(event->ipc, atomic_load_explicit(&event->ipc->map->tickets, memory_order_acquire));
    pthread_mutex_unlock(&sim.mu);
    return complete;
}

/* Sleeps on the page until some record completes, in slices, because the other process may be gone. */
static void sleep_on(struct shared *map, uint32_t pulse, uint64_t deadline_ns)
{
    enum { SLICE_NS = 20000000 };
    uint64_t now = sim_now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
    struct timespec slice = {.tv_nsec = (long)(left < SLICE_NS ? left : SLICE_NS)};

    (void)syscall(SYS_futex, &map->pulse, FUTEX_WAIT, pulse, &slice, NULL, 0);
}

struct ipc_goal {
    struct sim_ipc *ipc;
    uint64_t ticket;
};

static bool goal_over(void *arg)
{
    const struct ipc_goal *goal = arg;

    return ticket_over(goal->ipc, goal->ticket);
}

/* The record may be this process's own work, which its threads execute; a slice at a time, for it may not. */
static bool drive(struct sim_ipc *ipc, uint64_t ticket)
{
    enum { SLICE_NS = 1000000 };
    struct ipc_goal goal = {ipc, ticket};
    bool over;

    pthread_mutex_lock(&sim.mu);
    wake_poller(); /* makes the condition */
    over = sim_drive_wait(goal_over, &goal, NULL, &poller_cv, sim_now_ns() + SLICE_NS);
    pthread_mutex_unlock(&sim.mu);
    return over;
}

bool sim_ipc_synchronize(struct sim_event *event, uint64_t deadline_ns)
{
    struct sim_ipc *ipc;
    uint64_t ticket = 0;
    bool over = true;

    pthread_mutex_lock(&sim.mu);
    ipc = event->ipc;
    if (ipc != NULL && !ipc->closed) {
        ipc->n_users++;
        ticket = atomic_load_explicit(&ipc->map->tickets, memory_order_acquire);
        over = ticket_over(ipc, ticket);
        pthread_mutex_unlock(&sim.mu);
        while (!over) {
            uint32_t pulse = atomic_load_explicit(&ipc->map->pulse, memory_order_acquire);

            over = ticket_over(ipc, ticket);
            if (!over && sim_now_ns() >= deadline_ns)
                break;
            if (!over && sim_driven())
                over = drive(ipc, ticket);
            else if (!over)
                sleep_on(ipc->map, pulse, deadline_ns);
        }
        pthread_mutex_lock(&sim.mu);
        unuse(ipc);
    }
    pthread_mutex_unlock(&sim.mu);
    return over;
}

/* --- the handles --- */

aclError aclrtIpcGetEventHandle(aclrtEvent handle, aclrtIpcEventHandle *out)
{
    SIM_CALL(aclrtIpcGetEventHandle);
    struct sim_event *event = handle;
    struct handle inside = {.tag = TAG};
    struct sim_ipc *ipc;
    aclError code;

    if (out == NULL)
        return sim_fail_null("handle");
    if (event == NULL)
        return sim_fail_null("event");
    if (!sim_profile.has_ipc_event)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    code = sim_event_check(event);
    if (code != 0)
        return code;
    if (event->flags != ACL_EVENT_IPC)
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1006",
                        "event flag 0x%x, expected value: ACL_EVENT_IPC", event->flags);
    pthread_mutex_lock(&sim.mu);
    ipc = ipc_of(event);
    if (ipc != NULL)
        inside.key = ipc->map->key;
    if (ipc != NULL)
        memcpy(inside.name, ipc->name, NAME_BYTES);
    pthread_mutex_unlock(&sim.mu);
    if (ipc == NULL)
        return no_page();
    memset(out, 0, sizeof(*out));
    memcpy(out, &inside, sizeof(inside));
    return ACL_SUCCESS;
}

/* What a handle of a destroyed event gives is not documented; 107000 is assumed. */
static aclError bad_handle(const char *why)
{
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1017", "the event handle cannot be opened: %s", why);
}

aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *out)
{
    SIM_CALL(aclrtIpcOpenEventHandle);
    struct handle inside;
    struct sim_context *ctx;
    struct sim_event *event;
    struct shared *map;

    if (out == NULL)
        return sim_fail_null("event");
    if (!sim_profile.has_ipc_event)
        return sim_fail_quiet(ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    if (sim_need_context(self, &ctx) != 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    memcpy(&inside, &handle, sizeof(inside));
    if (inside.tag != TAG || memchr(inside.name, '\0', NAME_BYTES) == NULL ||
        strncmp(inside.name, "/proc/", 6) != 0)
        return bad_handle("aclrtIpcGetEventHandle did not make it");
    map = open_page(&inside);
    if (map == NULL)
        return bad_handle(strerror(errno));
    event = sim_event_new(ctx, ACL_EVENT_IPC, SIM_EVENT_EX);
    pthread_mutex_lock(&sim.mu);
    if (event != NULL)
        event->ipc = ipc_new(map, inside.name, -1);
    if (event != NULL && event->ipc != NULL) {
        event->grave_next = sim.dead_events;
        sim.dead_events = event;
    }
    pthread_mutex_unlock(&sim.mu);
    if (event == NULL || event->ipc == NULL) {
        free(event);
        munmap(map, sizeof(*map));
        return sim_fail(ACL_ERROR_BAD_ALLOC, "EH0001", "no host memory for an event");
    }
    atomic_fetch_add(&sim.tally.live_events, 1);
    event->made = sim_made_here(SIM_MADE_EVENT, 0);
    *out = event;
    return ACL_SUCCESS;
}
