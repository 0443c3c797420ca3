/* site.c - see site.h. */
#include "sim/site.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

enum {
    SHOWN = 120,      /* characters of a path; of a longer one the end is shown */
    MAX_NAME = 120,   /* of a place that the caller names */
    N_BUCKETS = 1024, /* for those names */
    MAX_NAMES = 65536 /* a program with more made them up at run time: the rest are not kept */
};

struct name {
    struct name *next;
    char text[MAX_NAME];
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct name *buckets[N_BUCKETS];
static uint32_t n_names;

struct sim_site sim_site_here(void)
{
    const struct sim_thread *self = sim_self;

    if (self == NULL)
        return (struct sim_site){.fn = -1};
    return (struct sim_site){(int)self->fn, self->from, self->place};
}

struct sim_site_text sim_site_text(struct sim_site site)
{
    struct sim_site_text out;
    const char *call = site.fn >= 0 ? sim_fn_name((enum sim_fn)site.fn) : "a call";
    Dl_info object;

    if (site.name != NULL) {
        snprintf(out.text, sizeof(out.text), "%s [%s]", call, site.name);
    } else if (site.from != NULL && dladdr(site.from, &object) != 0 && object.dli_fname != NULL) {
        /* One less: the address after a call may belong to the next line. */
        size_t offset = (size_t)((uintptr_t)site.from - 1 - (uintptr_t)object.dli_fbase);
        size_t nbytes = strlen(object.dli_fname);

        snprintf(out.text, sizeof(out.text), "%s [%s+0x%zx]", call,
                 object.dli_fname + (nbytes > SHOWN ? nbytes - SHOWN : 0), offset);
    } else {
        snprintf(out.text, sizeof(out.text), "%s", call);
    }
    return out;
}

static const char *keep(const char *text)
{
    uint32_t hash = 2166136261u;
    struct name *name;

    for (const char *c = text; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    hash %= N_BUCKETS;
    pthread_mutex_lock(&mu);
    for (name = buckets[hash]; name != NULL; name = name->next)
        if (strncmp(name->text, text, MAX_NAME - 1) == 0)
            break;
    if (name == NULL && n_names < MAX_NAMES && (name = malloc(sizeof(*name))) != NULL) {
        snprintf(name->text, sizeof(name->text), "%s", text);
        name->next = buckets[hash];
        buckets[hash] = name;
        n_names++;
    }
    pthread_mutex_unlock(&mu);
    return name != NULL ? name->text : NULL;
}

void aclsim_set_site(const char *name)
{
    struct sim_thread *self = sim_self != NULL ? sim_self : sim_thread_slow();

    self->next_place = name != NULL && *name != '\0' ? keep(name) : NULL;
}
