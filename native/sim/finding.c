/* finding.c - see finding.h. Needs nothing of the rest of the simulator.
 *
 * Threads: any. Locks: mu, a leaf. Owns: the texts.
 * Invariant: see finding.h.
 */
#include "sim/finding.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)
#include "sim/aclsim.h"
#pragma GCC visibility pop

enum { MAX_TEXTS = 32, MAX_TEXT = 640 };

static const char *const names[SIM_N_FOUND] = {
    [SIM_FOUND_PAGEABLE] = "pageable",          [SIM_FOUND_UNALIGNED] = "unaligned",
    [SIM_FOUND_WRONG_KIND] = "wrong-kind",      [SIM_FOUND_HOST_AS_D2D] = "host-as-d2d",
    [SIM_FOUND_SRC_CHANGED] = "source-changed", [SIM_FOUND_FREED] = "freed",
    [SIM_FOUND_UNORDERED] = "unordered",        [SIM_FOUND_STALE_HANDLE] = "stale-handle",
    [SIM_FOUND_IN_CALLBACK] = "in-callback",    [SIM_FOUND_LEAK] = "leak",
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool tells; /* written once, before any reader */
static struct found {
    uint64_t count;
    uint32_t n_texts;
    char texts[MAX_TEXTS][MAX_TEXT];
} found[SIM_N_FOUND];

static void read_environment(void)
{
    const char *value = getenv("ACLSIM_TELL");

    tells = value != NULL && *value != '\0' && strcmp(value, "0") != 0;
}

bool sim_find_tells(void)
{
    pthread_once(&once, read_environment);
    return tells;
}

void sim_find(enum sim_finding kind, const char *fmt, ...)
{
    struct found *f = &found[kind];
    char text[MAX_TEXT];
    bool first = true;
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    pthread_mutex_lock(&mu);
    f->count++;
    for (uint32_t i = 0; i < f->n_texts && first; i++)
        first = strcmp(f->texts[i], text) != 0;
    if (first && f->n_texts == MAX_TEXTS)
        first = false; /* a program that does it wrong everywhere need not print every place */
    else if (first)
        memcpy(f->texts[f->n_texts++], text, sizeof(text));
    pthread_mutex_unlock(&mu);
    if (first && sim_find_tells())
        fprintf(stderr, "aclsim: found %s: %s\n", names[kind], text);
}

const char *sim_finding_name(enum sim_finding kind)
{
    return names[kind];
}

static int by_name(const char *name)
{
    for (int kind = 0; name != NULL && kind < SIM_N_FOUND; kind++)
        if (strcmp(names[kind], name) == 0)
            return kind;
    return -1;
}

int64_t aclsim_finding_count(const char *name)
{
    int only = by_name(name);
    uint64_t sum = 0;

    if (name != NULL && only < 0)
        return -1;
    pthread_mutex_lock(&mu);
    for (int kind = 0; kind < SIM_N_FOUND; kind++)
        if (name == NULL || kind == only)
            sum += found[kind].count;
    pthread_mutex_unlock(&mu);
    return (int64_t)sum;
}

int aclsim_finding_text(const char *name, uint32_t index, char *out, size_t n)
{
    int kind = by_name(name), result = -1;

    if (kind < 0 || out == NULL || n == 0)
        return -1;
    pthread_mutex_lock(&mu);
    if (index < found[kind].n_texts)
        result = snprintf(out, n, "%s", found[kind].texts[index]) < (int)n ? 0 : 1;
    pthread_mutex_unlock(&mu);
    return result;
}

void aclsim_clear_findings(void)
{
    pthread_mutex_lock(&mu);
    for (int kind = 0; kind < SIM_N_FOUND; kind++)
        found[kind].count = found[kind].n_texts = 0;
    pthread_mutex_unlock(&mu);
}
