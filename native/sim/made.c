/* made.c - see made.h. */
#include "sim/made.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "sim/finding.h"
#include "sim/site.h"

enum { N_BUCKETS = 256 };

struct sim_made {
    struct sim_made *next;
    struct sim_site site;
    enum sim_made_kind kind;
    atomic_ullong n_live, n_bytes;
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct sim_made *buckets[N_BUCKETS];

static struct sim_made **bucket_of(const struct sim_site *site)
{
    uintptr_t hash = ((uintptr_t)site->from >> 1) ^ (uintptr_t)site->name ^ (uintptr_t)site->fn;

    return &buckets[(uint32_t)(hash * UINT64_C(0x9E3779B97F4A7C15) >> 32) % N_BUCKETS];
}

static struct sim_made *find(const struct sim_site *site, enum sim_made_kind kind)
{
    struct sim_made **bucket = bucket_of(site), *made = *bucket;

    while (made != NULL && (made->site.from != site->from || made->site.name != site->name ||
                            made->site.fn != site->fn || made->kind != kind))
        made = made->next;
    if (made == NULL && (made = calloc(1, sizeof(*made))) != NULL) {
        made->site = *site;
        made->kind = kind;
        made->next = *bucket;
        *bucket = made;
    }
    return made;
}

struct sim_made *sim_made_here(enum sim_made_kind kind, uint64_t nbytes)
{
    struct sim_site site = sim_site_here();
    struct sim_made *made;

    if (site.name != NULL)
        site.from = NULL; /* the same place, whatever lies between */
    pthread_mutex_lock(&mu);
    made = find(&site, kind);
    pthread_mutex_unlock(&mu);
    if (made == NULL)
        return NULL;
    atomic_fetch_add_explicit(&made->n_live, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&made->n_bytes, nbytes, memory_order_relaxed);
    return made;
}

void sim_made_gone(struct sim_made *made, uint64_t nbytes)
{
    if (made == NULL)
        return;
    atomic_fetch_sub_explicit(&made->n_live, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&made->n_bytes, nbytes, memory_order_relaxed);
}

void sim_made_find_leaks(void)
{
    pthread_mutex_lock(&mu);
    for (int kind = SIM_MADE_STREAM; kind <= SIM_MADE_PINNED_BLOCK; kind++)
        for (int i = 0; i < N_BUCKETS; i++)
            for (struct sim_made *made = buckets[i]; made != NULL; made = made->next) {
                unsigned long long n = atomic_load(&made->n_live);

                if (n == 0 || (int)made->kind != kind)
                    continue;
                if (kind == SIM_MADE_STREAM || kind == SIM_MADE_EVENT)
                    sim_find(SIM_FOUND_LEAK, "%llu %s not destroyed; made by %s", n,
                             kind == SIM_MADE_STREAM ? "stream(s)" : "event(s)",
                             sim_site_text(made->site).text);
                else
                    sim_find(SIM_FOUND_LEAK, "%llu %s block(s) with %llu bytes not freed; made by %s", n,
                             kind == SIM_MADE_DEVICE_BLOCK ? "device" : "page-locked",
                             (unsigned long long)atomic_load(&made->n_bytes), sim_site_text(made->site).text);
            }
    pthread_mutex_unlock(&mu);
}
