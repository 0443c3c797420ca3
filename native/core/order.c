#include "core/order.h"

#include <search.h>
#include <stddef.h>
#include <stdint.h>

#include "core/op.h"

void npux_order_init(struct npux_order *order)
{
    order->writers = NULL;
    order->waiting = NULL;
}

/* Device memory. -------------------------------------------------------------------------------------- */

static bool writes_block(const struct npux_op *op, const struct npux_block *block)
{
    return op->direction == NPUX_H2D && block == op->device;
}

/* An op that copies on the device may wait for two blocks. */
static struct npux_op **next_on(struct npux_op *op, const struct npux_block *block)
{
    return block == op->device ? &op->next_on_block : &op->next_on_from;
}

/* Counts the op on its block if nothing that runs there forbids it. */
static bool enter_block(struct npux_op *op, struct npux_block *block)
{
    bool writes = writes_block(op, block);

    if (block->has_writer || (writes && block->n_readers != 0))
        return false;
    if (writes)
        block->has_writer = true;
    else
        block->n_readers++;
    if (block == op->device)
        op->on_block = true;
    else
        op->on_from = true;
    return true;
}

static bool admit_block(struct npux_op *op, struct npux_block *block)
{
    if (block->wait_head == NULL && enter_block(op, block)) /* nobody overtakes those who wait already */
        return true;
    *next_on(op, block) = NULL;
    if (block->wait_head == NULL)
        block->wait_head = op;
    else
        *next_on(block->wait_tail, block) = op;
    block->wait_tail = op;
    return false;
}

/* Host memory. ---------------------------------------------------------------------------------------- */

static bool writes_host(const struct npux_op *op)
{
    return op->direction == NPUX_D2H;
}

static bool overlap(const struct npux_op *a, const struct npux_op *b)
{
    return (uintptr_t)a->host_low < (uintptr_t)b->host_high &&
           (uintptr_t)b->host_low < (uintptr_t)a->host_high;
}

/* Overlapping ranges are equal; the others are ordered by address. */
static int compare(const void *left, const void *right)
{
    const struct npux_op *a = left, *b = right;

    if (overlap(a, b))
        return 0;
    return (uintptr_t)a->host_low < (uintptr_t)b->host_low ? -1 : 1;
}

/* Puts the op in the tree if it writes, and nothing there forbids it. */
static bool enter_host(struct npux_order *order, struct npux_op *op)
{
    if (order->writers != NULL && tfind(op, &order->writers, compare) != NULL)
        return false;
    if (writes_host(op)) {
        /* Without memory for a node later ops do not see this one: order is lost then, not a transfer. */
        tsearch(op, &order->writers, compare);
        op->on_host = true;
    }
    return true;
}

/* Whether an op that waits before `end` writes what this one uses. */
static bool behind_waiting(const struct npux_order *order, const struct npux_op *op,
                           const struct npux_op *end)
{
    for (const struct npux_op *w = order->waiting; w != end; w = w->next_on_host)
        if (writes_host(w) && overlap(w, op))
            return true;
    return false;
}

static bool admit_host(struct npux_order *order, struct npux_op *op)
{
    struct npux_op **end = &order->waiting;

    if (op->host.nbytes == 0 || op->from != NULL)
        return true;
    if (!behind_waiting(order, op, NULL) && enter_host(order, op))
        return true;
    while (*end != NULL)
        end = &(*end)->next_on_host;
    op->next_on_host = NULL;
    *end = op;
    return false;
}

/* All. ----------------------------------------------------------------------------------------------- */

bool npux_order_admit_locked(struct npux_order *order, struct npux_op *op)
{
    /* Memory that was made for the op is known to nobody else. Who writes a block may read it as well. */
    bool block_free = op->fresh || op->device == NULL || admit_block(op, op->device);
    bool from_free = op->from == NULL || op->from == op->device || admit_block(op, op->from);
    bool host_free = admit_host(order, op);

    op->n_blockers = (uint8_t)(!block_free + !from_free + !host_free);
    return op->n_blockers == 0;
}

/* One thing that the op waited for is granted; appends it to the list that may start if that was the last. */
static struct npux_op **granted(struct npux_op *op, struct npux_op **end)
{
    if (--op->n_blockers != 0)
        return end;
    op->next = NULL;
    *end = op;
    return &op->next;
}

static struct npux_op **release_block(struct npux_op *op, struct npux_block *block, bool *counted,
                                      struct npux_op **end)
{
    if (!*counted)
        return end;
    *counted = false;
    if (writes_block(op, block))
        block->has_writer = false;
    else
        block->n_readers--;
    while (block->wait_head != NULL && enter_block(block->wait_head, block)) {
        struct npux_op *entered = block->wait_head;
        block->wait_head = *next_on(entered, block);
        end = granted(entered, end);
    }
    return end;
}

static struct npux_op **release_host(struct npux_order *order, struct npux_op *op, struct npux_op **end)
{
    struct npux_op **at = &order->waiting;

    if (!op->on_host)
        return end;
    op->on_host = false;
    tdelete(op, &order->writers, compare);
    while (*at != NULL) {
        struct npux_op *w = *at;
        if (!overlap(w, op) || behind_waiting(order, w, w) || !enter_host(order, w)) {
            at = &w->next_on_host;
            continue;
        }
        *at = w->next_on_host;
        end = granted(w, end);
    }
    return end;
}

struct npux_op *npux_order_release_locked(struct npux_order *order, struct npux_op *op)
{
    struct npux_op *first = NULL, **end = &first;

    end = release_block(op, op->device, &op->on_block, end);
    end = release_block(op, op->from, &op->on_from, end);
    release_host(order, op, end);
    return first;
}
