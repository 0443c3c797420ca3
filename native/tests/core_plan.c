/* core_plan.c - when the plan tries the synchronous copy, keeps it, leaves it again. No engine. */
#include "core/plan.h"

#include <string.h>

#include "tests/check.h"

enum { NBYTES = 100000, STAGED_NS = 100000 };

static struct npux_plan plan;

/* One transfer alone on its way, which takes as long as its path does. */
static bool run(int direction, uint64_t sync_ns)
{
    bool sync = npux_plan_choose_sync(&plan, direction, NBYTES, true);

    npux_plan_note(&plan, direction, NBYTES, sync, sync ? sync_ns : STAGED_NS);
    return sync;
}

static unsigned count_sync(int direction, uint64_t sync_ns, unsigned n)
{
    unsigned n_sync = 0;

    for (unsigned i = 0; i < n; i++)
        n_sync += run(direction, sync_ns);
    return n_sync;
}

int main(void)
{
    memset(&plan, 0, sizeof(plan));
    CHECK_EQ(count_sync(0, 50000, 4), 0);                      /* staging first */
    CHECK_EQ(count_sync(0, 50000, 100), 100);                  /* then the other, which is faster */
    CHECK(npux_plan_choose_sync(&plan, 0, NBYTES, false));     /* also when there is other work */
    CHECK(!npux_plan_choose_sync(&plan, 1, NBYTES, true));     /* the other direction knows nothing yet */
    CHECK(!npux_plan_choose_sync(&plan, 0, 4 * NBYTES, true)); /* nor other sizes */
    CHECK(count_sync(0, 200000, 20) < 20);                     /* it has become slow: left, */
    CHECK(count_sync(0, 200000, 1000) <= 4);                   /* and looked at once in 256 */
    CHECK(count_sync(0, 50000, 2000) > 1000);                  /* and found again */
    CHECK_EQ(count_sync(1, 95000, 4), 0);                      /* a gain that is not clear */
    CHECK(count_sync(1, 95000, 4) == 4 && count_sync(1, 95000, 200) == 0);
    CHECK(!npux_plan_choose_sync(&plan, 1, 1, false) && !npux_plan_choose_sync(&plan, 1, SIZE_MAX, false));
    plan.forced = NPUX_PAGEABLE_SYNC;
    CHECK(npux_plan_choose_sync(&plan, 1, NBYTES, false));
    plan.forced = NPUX_PAGEABLE_STAGED;
    CHECK(!npux_plan_choose_sync(&plan, 0, NBYTES, true));
    return 0;
}
