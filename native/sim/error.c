/* error.c - error texts and the last error code, both per thread unless aclInit asked for one text store.
 *
 * Threads: each call touches only the calling thread's record and, when by_process, the shared text.
 * Locks:   shared_mu, a leaf.
 * Owns:    the pending and the shown text of each thread; the shared text.
 * Invariant: pending is NULL or a non-empty text that no aclGetRecentErrMsg returned yet (a thread without
 *          context excepted: there the real library does not consume what it returns).
 */
#include "sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_TEXT = 16384, MAX_LINE = 1024 };

static const struct {
    const char *id, *title, *cause;
} catalogue[] = {
    {"EE1001", "Invalid_Argument", "An argument does not fit the other arguments of the call."},
    {"EE1002", "Stream_Synchronize_Timeout", "The work queued on the stream did not end in time."},
    {"EE1003", "Invalid_Argument_Range", "A value lies outside of the range that the call accepts."},
    {"EE1004", "Null_Pointer", "A pointer argument must not be null."},
    {"EE1005", "Unsupported_Function", "This chip, or this form of it, lacks the function."},
    {"EE1006", "Unsupported_Argument", "The value is known but not supported here."},
    {"EE1010", "Foreign_Object", "The object was made in another context than the current one."},
    {"EE1016", "Unsupported_State", "The object is in a state that does not allow the call."},
    {"EE1017", "Invalid_Handle", "The handle was destroyed, or is of another type."},
    {"EE1018", "Wrong_Call_Sequence", "A call that has to come before this one is missing."},
    {"EE1023", "Resource_Exhausted", "Every object of this kind is in use."},
    {"EE2002", "Invalid_Environment_Variable", NULL},
    {"EE9999", "Inner_Error", NULL},
    {"EH0001", "Invalid_Argument", NULL},
    {"EH0003", "Invalid_File", NULL},
    {"EH0004", "Invalid_File", NULL},
    {"EH0006", "Unsupported_Function", "The simulated release or chip lacks the function."},
    {"EH0007", "Invalid_Argument", "The value is not a member of the enumeration."},
    {"EH0008", "Null_Pointer", "A pointer argument must not be null."},
};

/* err_msg_mode of the configuration: the texts of all threads in one place. */
static atomic_bool by_process;
static pthread_mutex_t shared_mu = PTHREAD_MUTEX_INITIALIZER;
static char *shared_text;

void sim_error_scope(bool process)
{
    atomic_store(&by_process, process);
}

static void append_to(char **pending, const char *text)
{
    size_t have = *pending != NULL ? strlen(*pending) : 0, more = strlen(text);
    char *grown;

    if (have + more >= MAX_TEXT) /* nobody reads them: keep the newest */
        have = 0;
    grown = realloc(*pending, have + more + 1);
    if (grown == NULL)
        return;
    memcpy(grown + have, text, more + 1);
    *pending = grown;
}

static void append(struct sim_thread *self, const char *text)
{
    if (!atomic_load(&by_process)) {
        append_to(&self->pending, text);
        return;
    }
    pthread_mutex_lock(&shared_mu);
    append_to(&shared_text, text);
    pthread_mutex_unlock(&shared_mu);
}

/* Takes what aclGetRecentErrMsg returns; NULL when nothing is pending. */
static char *take(struct sim_thread *self)
{
    char *text = self->pending;

    self->pending = NULL;
    if (atomic_load(&by_process)) {
        free(text);
        pthread_mutex_lock(&shared_mu);
        text = shared_text;
        shared_text = NULL;
        pthread_mutex_unlock(&shared_mu);
    }
    return text;
}

static void add_message(struct sim_thread *self, aclError code, const char *id, const char *line)
{
    char text[MAX_LINE * 2], stamp[64];
    const char *title = "Error", *cause = NULL;
    struct timespec now;
    struct tm tm;

    for (size_t i = 0; i < sizeof(catalogue) / sizeof(catalogue[0]); i++)
        if (strcmp(catalogue[i].id, id) == 0) {
            title = catalogue[i].title;
            cause = catalogue[i].cause;
        }
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    strftime(stamp, sizeof(stamp), "%Y-%m-%d-%H:%M:%S", &tm);
    snprintf(text, sizeof(text),
             "[PID: %d] %s.%03ld.%03ld %s(%s): %s\n%s%s%sTraceBack (most recent call last):\n\tthe simulated "
             "runtime returned %d\n",
             (int)getpid(), stamp, now.tv_nsec / 1000000, now.tv_nsec / 1000 % 1000, title, id, line,
             cause != NULL ? "\tPossible Cause: " : "", cause != NULL ? cause : "", cause != NULL ? "\n" : "",
             code);
    append(self, text);
}

static struct sim_thread *this_thread(void)
{
    return sim_self != NULL ? sim_self : sim_thread_slow();
}

/* The part of the code that the runtime uses inside itself, where it is known; 0 elsewhere. */
static unsigned inner_code(aclError code)
{
    switch (code) {
    case ACL_ERROR_RT_PARAM_INVALID:
        return 0x7110001;
    case ACL_ERROR_RT_CONTEXT_NULL:
        return 0x7070001;
    case ACL_ERROR_RT_STREAM_SUBSCRIBE:
        return 0x7160003;
    case ACL_ERROR_RT_INVALID_HANDLE:
        return 0x7110016;
    default:
        return 0;
    }
}

/* As the real layers do: the runtime logs its code with a description, the layer above the result. */
static void log_failure(enum sim_log_level level, aclError code, const char *line)
{
    const char *called = sim_fn_name(this_thread()->fn);
    const char *impl = sim_profile.gen >= SIM_GEN_8_5 ? "Impl" : ""; /* the name of the inner function */
    char function[80], inner[32] = "";

    snprintf(function, sizeof(function), "%s%s", called, impl);
    if (code >= 100000 && code <= 100999) {
        sim_log_at(level, "ASCENDCL", __FILE__, __LINE__, function, "%s, result = %d", line, code);
        return;
    }
    if (inner_code(code) != 0)
        snprintf(inner, sizeof(inner), ", InnerCode=%#x", inner_code(code));
    sim_log_at(level, "RUNTIME", __FILE__, __LINE__, strncmp(called, "acl", 3) == 0 ? called + 3 : called,
               "ErrCode=%d, desc=[%s]%s", code, line, inner);
    sim_log_at(level, "ASCENDCL", __FILE__, __LINE__, function, "failed, runtime result = %d", code);
}

static aclError remember(aclError code)
{
    /* 1000xx and 2000xx are made by the layer above the runtime, which does not keep a last error. */
    if ((code < 100000 || code > 100999) && (code < 200000 || code > 200999))
        this_thread()->last_error = code;
    return code;
}

aclError sim_fail_quiet(aclError code)
{
    log_failure(SIM_LOG_WARNING, code, "not supported or not ready");
    return remember(code);
}

aclError sim_fail(aclError code, const char *id, const char *fmt, ...)
{
    char line[MAX_LINE];
    va_list args;

    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    add_message(this_thread(), code, id, line);
    log_failure(SIM_LOG_ERROR, code, line);
    return remember(code);
}

aclError sim_fail_null(const char *what)
{
    return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0008", "%s is null", what);
}

aclError sim_fail_failure(const struct sim_stream *s, const struct sim_failure *failure)
{
    static const char *const copy_types[] = {"H2D", "D2H", "D2D"};

    if (failure->task != NULL)
        return sim_fail(failure->code, "EE9999", "task %s failed, device_id=%d, stream_id=%d, task_id=%u",
                        failure->task, s->dev->id, s->id, failure->task_id);
    if (failure->dst == NULL)
        return sim_fail(failure->code, "EE9999", "task failed, device_id=%d, stream_id=%d, task_id=%u",
                        s->dev->id, s->id, failure->task_id);
    return sim_fail(failure->code, "EE9999",
                    "async copy failed, device_id=%d, stream_id=%d, task_id=%u, copy_type=%s, length=%llu, "
                    "dst_addr=%p, src_addr=%p",
                    s->dev->id, s->id, failure->task_id, copy_types[failure->dir],
                    (unsigned long long)failure->nbytes, failure->dst, failure->src);
}

const char *aclGetRecentErrMsg(void)
{
    SIM_COUNT(aclGetRecentErrMsg);
    free(self->shown);
    self->shown = NULL;
    if (sim_current(self) == NULL) {
        add_message(self, ACL_ERROR_RT_CONTEXT_NULL, "EE1018",
                    "the device's messages need a current context, and this thread has none");
        self->shown = take(self);
        if (self->shown != NULL) /* returned, and yet kept */
            append(self, self->shown);
        return self->shown;
    }
    self->shown = take(self);
    return self->shown;
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level)
{
    SIM_CALL(aclrtPeekAtLastError);
    if (level != ACL_RT_THREAD_LEVEL)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0007", "level %d, expected value: 0", (int)level);
    return self->last_error;
}

aclError aclrtGetLastError(aclrtLastErrLevel level)
{
    SIM_CALL(aclrtGetLastError);
    aclError code = self->last_error;

    if (level != ACL_RT_THREAD_LEVEL)
        return sim_fail(ACL_ERROR_INVALID_PARAM, "EH0007", "level %d, expected value: 0", (int)level);
    self->last_error = ACL_SUCCESS;
    return code;
}
