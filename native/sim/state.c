/* state.c - the state of the process, its one-time set-up.
 *
 * Threads: any; sim_once is a pthread_once. Locks: none of its own.
 * Owns:    the one struct sim_state.
 * Invariant: the environment is read once (settings.c), before the first other action of the library.
 */
#include "sim/settings.h"
#include "sim/sim.h"

#include <dlfcn.h>

struct sim_state sim;

/* Engine threads run this library's code for ever, so dlclose must not unmap it. */
static void stay_loaded(void)
{
    Dl_info info;

    if (dladdr((void *)&sim, &info) != 0 && info.dli_fname != NULL)
        (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static void init_once(void)
{
    pthread_mutexattr_t attr;

    stay_loaded();
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP); /* held for well under a microsecond */
    pthread_mutex_init(&sim.mu, &attr);
    pthread_mutexattr_destroy(&attr);
    sim_profile_once();
    for (int32_t d = 0; d < SIM_MAX_DEVICES; d++) {
        sim.dev[d].id = d;
        sim_cond_init(&sim.dev[d].event_cv);
        for (int dir = 0; dir < ACLSIM_N_DIRECTIONS; dir++) {
            sim.dev[d].engine[dir].dev = &sim.dev[d];
            sim.dev[d].engine[dir].dir = dir;
            sim_cond_init(&sim.dev[d].engine[dir].cv);
        }
    }
    sim_settings_read();
    sim_report_init();
}

void sim_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, init_once);
}
