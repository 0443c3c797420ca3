/* ext.h - what goes on a stream besides copies, fills and plain events; failure modes; dropped work.
 *
 * Threads: any. Locks: sim.mu held in every function unless its comment says otherwise.
 * Owns:    nothing itself; each file below says what it owns.
 * Invariant: a stream whose front is one of these tasks and not over is in the list of what it waits for, by
 *          dep_next, and dep_list names that list: it is not runnable until sim_stream_release.
 */
#ifndef ACLSIM_EXT_H
#define ACLSIM_EXT_H

#include <stdbool.h>
#include <stdint.h>

struct sim_context;
struct sim_device;
struct sim_event;
struct sim_failure;
struct sim_stream;
struct sim_task;
struct sim_thread;

/* --- ext.c: the tasks of the kinds from SIM_EXT_FIRST on --- */

/* The task is the front of its stream. true: it is over. false: the stream is in a list now. */
bool sim_ext_front(struct sim_stream *s, struct sim_task *t);
/* The task is being published: executed or dropped. */
void sim_ext_done(struct sim_task *t);
/* What s queued elsewhere for its unfinished tasks is taken back; its tasks are being dropped. */
void sim_ext_forget(struct sim_stream *s);
void sim_ext_closed(struct sim_stream *s); /* the stream is gone */
const char *sim_ext_name(const struct sim_task *t);
/* The front task t of s failed; s tells at its next synchronisation. */
void sim_ext_fail(struct sim_stream *s, const struct sim_task *t, int32_t code);

/* The checks that the asynchronous calls share, in the order of the runtime: handle (107017), context
 * (107002), ownership (107003), then the state of the context. *s becomes the default stream when it is NULL.
 * Without sim.mu. */
int sim_ext_stream(struct sim_thread *self, struct sim_stream **s);

/* --- sched.c --- */

void sim_stream_depend(struct sim_stream *s, struct sim_stream **list);
void sim_stream_undepend(struct sim_stream *s);
/* The stream's front is over: out of its list, published, pushed. The caller runs sim_sched_run. */
void sim_stream_release(struct sim_stream *s);
/* Everything that did not start is published without being executed. Runs sim_sched_run. */
void sim_stream_drop(struct sim_stream *s);

/* --- timer.c: time limits of waits on a stream --- */

/* The front of s, which is in a list, fails after timeout_s if it is still there. In real time in every mode:
 * a wait that nothing ends has no simulated event to come. */
void sim_timer_arm(struct sim_stream *s, uint32_t timeout_s);

/* --- abort.c: failures and dropped work --- */

int sim_failure_mode(struct sim_thread *self, struct sim_stream *s, uint64_t mode); /* without sim.mu */
void sim_stream_failed(struct sim_stream *s, const struct sim_failure *failure);
/* 0, or 107022 with text while the device's tasks are being aborted. With or without sim.mu. */
int sim_device_usable(const struct sim_device *dev);
/* The same; or why the context takes no asynchronous work, with text: the first failure in STOP mode once
 * somebody noticed it. Without sim.mu. */
int sim_context_usable(struct sim_context *ctx);
/* The same at a synchronisation, which is what notices. Without sim.mu. */
int sim_context_notice(struct sim_context *ctx);
/* How a wait for s up to target ended that began when sim_stream_aborts gave before. 0, 107022 or 107023 with
 * text. Without sim.mu. */
uint32_t sim_stream_aborts(struct sim_stream *s);
int sim_stream_aborted(struct sim_stream *s, uint32_t before, uint64_t target);

/* --- callback.c --- */

bool sim_callback_front(struct sim_stream *s, struct sim_task *t);
void sim_callback_done(struct sim_task *t);
void sim_callback_forget(struct sim_stream *s);
void sim_callback_closed(struct sim_stream *s);
void sim_callback_context_closed(struct sim_context *ctx);

/* --- notify.c --- */

bool sim_notify_front(struct sim_stream *s, struct sim_task *t);

/* --- value.c --- */

extern uint32_t sim_n_value_waits; /* streams whose front waits for a value */
bool sim_value_front(struct sim_stream *s, struct sim_task *t);
void sim_value_recheck(void); /* device memory may have changed; the caller runs sim_sched_run */
void sim_value_poll(void);    /* the same as a whole, without sim.mu */

/* --- ipc.c: events that two processes share --- */

struct sim_ipc;
bool sim_ipc_front(struct sim_stream *s, struct sim_task *t);
void sim_ipc_task_done(struct sim_task *t);
/* Without sim.mu. 0, or a code with text. */
int sim_ipc_record(struct sim_thread *self, struct sim_event *event, struct sim_stream *s);
int sim_ipc_wait(struct sim_thread *self, struct sim_event *event, struct sim_stream *s, uint32_t timeout_s);
bool sim_ipc_complete(struct sim_event *event);                          /* without sim.mu */
bool sim_ipc_synchronize(struct sim_event *event, uint64_t deadline_ns); /* without sim.mu; false: late */
void sim_ipc_closed(struct sim_event *event);                            /* the handle is dead */

/* --- statecb.c: callbacks on creation and destruction of streams; without sim.mu --- */

void sim_state_created(struct sim_stream *s);
void sim_state_destroying(struct sim_stream *s); /* tells once */

#endif
