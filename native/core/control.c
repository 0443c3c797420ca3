#include "core/control.h"

#include <stddef.h>

#include "base/clock.h"

static void *control_main(void *argument)
{
    struct npux_control *c = argument;

    pthread_mutex_lock(&c->mu);
    for (;;) {
        struct npux_call *call = c->head;
        bool posted;
        int result;
        if (call == NULL && c->stop)
            break;
        if (call == NULL) {
            pthread_cond_wait(&c->work_cv, &c->mu);
            continue;
        }
        c->head = call->next;
        posted = call->posted;
        pthread_mutex_unlock(&c->mu);
        result = call->function(call->argument);
        pthread_mutex_lock(&c->mu);
        if (posted)
            continue;
        call->result = result;
        call->done = true;
        pthread_cond_broadcast(&c->done_cv);
    }
    pthread_mutex_unlock(&c->mu);
    return NULL;
}

int npux_control_start(struct npux_control *c)
{
    int rc;

    pthread_mutex_init(&c->mu, NULL);
    npux_cond_init(&c->work_cv);
    npux_cond_init(&c->done_cv);
    c->head = c->tail = NULL;
    c->stop = false;
    rc = pthread_create(&c->thread, NULL, control_main, c);
    return -rc;
}

static void append(struct npux_control *c, struct npux_call *call)
{
    call->next = NULL;
    if (c->head == NULL)
        c->head = call;
    else
        c->tail->next = call;
    c->tail = call;
    pthread_cond_signal(&c->work_cv);
}

void npux_control_post(struct npux_control *c, struct npux_call *call)
{
    pthread_mutex_lock(&c->mu);
    call->posted = true;
    append(c, call);
    pthread_mutex_unlock(&c->mu);
}

int npux_control_call(struct npux_control *c, int (*function)(void *argument), void *argument)
{
    struct npux_call call = {.function = function, .argument = argument};

    pthread_mutex_lock(&c->mu);
    append(c, &call);
    while (!call.done)
        pthread_cond_wait(&c->done_cv, &c->mu);
    pthread_mutex_unlock(&c->mu);
    return call.result;
}

void npux_control_stop(struct npux_control *c)
{
    pthread_mutex_lock(&c->mu);
    c->stop = true;
    pthread_cond_signal(&c->work_cv);
    pthread_mutex_unlock(&c->mu);
    pthread_join(c->thread, NULL);
    pthread_mutex_destroy(&c->mu);
    pthread_cond_destroy(&c->work_cv);
    pthread_cond_destroy(&c->done_cv);
}
