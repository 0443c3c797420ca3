#include "core/plan.h"

/* The first transfers of a size map memory and warm caches. */
enum { N_WARM = 2, N_ENOUGH = 4, PROBE_EVERY = 256 };
static const double CLEAR_GAIN = 0.9;

static struct npux_plan_cell *cell_of(struct npux_plan *plan, int direction, size_t nbytes)
{
    int size = 0;

    while (nbytes > 1 && size < NPUX_PLAN_SIZES - 1) {
        nbytes >>= 1;
        size++;
    }
    return &plan->cells[direction][size];
}

bool npux_plan_choose_sync(struct npux_plan *plan, int direction, size_t nbytes, bool alone)
{
    struct npux_plan_cell *c = cell_of(plan, direction, nbytes);
    bool sync;

    if (plan->forced != NPUX_PAGEABLE_AUTO)
        return plan->forced == NPUX_PAGEABLE_SYNC;
    if (c->n[0] < N_ENOUGH)
        return false;
    if (c->n[1] < N_ENOUGH)
        return alone; /* to be measured */
    sync = c->ns_per_byte[1] < CLEAR_GAIN * c->ns_per_byte[0];
    if (alone && ++c->n_choices >= PROBE_EVERY) {
        c->n_choices = 0;
        return !sync;
    }
    return sync;
}

void npux_plan_note(struct npux_plan *plan, int direction, size_t nbytes, bool sync, uint64_t taken_ns)
{
    struct npux_plan_cell *c = cell_of(plan, direction, nbytes);
    double now = (double)taken_ns / (double)nbytes;
    double *average = &c->ns_per_byte[sync];

    if (++c->n[sync] <= N_WARM)
        *average = now;
    else
        *average += (now - *average) / 4;
}
