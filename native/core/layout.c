#include "core/layout.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/hostcopy.h"

/* Appends dimension i to nd, or merges it with the one before when both together have one stride. */
static void add_dimension(struct npux_nd *nd, ptrdiff_t extent, ptrdiff_t stride)
{
    int last = nd->ndim - 1;

    if (extent == 1)
        return;
    if (last >= 0 && nd->strides[last] == extent * stride) {
        nd->shape[last] *= extent;
        nd->strides[last] = stride;
        return;
    }
    nd->shape[nd->ndim] = extent;
    nd->strides[nd->ndim] = stride;
    nd->ndim++;
}

int npux_host_init(struct npux_host *host, void *base, size_t itemsize, int ndim, const ptrdiff_t *shape,
                   const ptrdiff_t *strides)
{
    struct npux_nd *nd;
    size_t slots = (size_t)(ndim > 0 ? ndim : 1);

    host->base = base;
    host->nbytes = itemsize;
    host->nd = NULL;
    for (int i = 0; i < ndim; i++)
        host->nbytes *= (size_t)shape[i];
    if (host->nbytes == 0)
        return 0;
    nd = malloc(sizeof(*nd) + 2 * slots * sizeof(ptrdiff_t));
    if (nd == NULL)
        return -ENOMEM;
    nd->ndim = 0;
    nd->run = itemsize;
    nd->shape = (ptrdiff_t *)(nd + 1);
    nd->strides = nd->shape + slots;
    for (int i = 0; i < ndim; i++)
        add_dimension(nd, shape[i], strides[i]);
    if (nd->ndim > 0 && nd->strides[nd->ndim - 1] == (ptrdiff_t)nd->run) {
        nd->run *= (size_t)nd->shape[nd->ndim - 1];
        nd->ndim--;
    }
    if (nd->ndim == 0) { /* one run: contiguous after all */
        free(nd);
        return 0;
    }
    host->nd = nd;
    return 0;
}

void npux_host_clear(struct npux_host *host)
{
    free(host->nd);
    host->nd = NULL;
}

void npux_host_bounds(const struct npux_host *host, char **low, char **high)
{
    *low = host->base;
    *high = host->base + (host->nd != NULL ? host->nd->run : host->nbytes);
    for (int i = 0; host->nd != NULL && i < host->nd->ndim; i++) {
        ptrdiff_t reach = (host->nd->shape[i] - 1) * host->nd->strides[i];
        if (reach < 0)
            *low += reach;
        else
            *high += reach;
    }
}

/* n elements of a constant width between a strided row and contiguous bytes. The compiler turns each
 * memcpy of constant size into a plain load and store, whatever the alignment. */
#define COPY_ROW(width)               \
    for (size_t k = 0; k < n; k++) {  \
        if (to_host)                  \
            memcpy(row, flat, width); \
        else                          \
            memcpy(flat, row, width); \
        row += stride;                \
        flat += width;                \
    }

static inline void copy_row(char *row, ptrdiff_t stride, char *flat, size_t n, size_t run, const bool to_host)
{
    switch (run) {
    case 1:
        COPY_ROW(1)
        break;
    case 2:
        COPY_ROW(2)
        break;
    case 4:
        COPY_ROW(4)
        break;
    case 8:
        COPY_ROW(8)
        break;
    case 16:
        COPY_ROW(16)
        break;
    default:
        COPY_ROW(run)
        break;
    }
}

static void copy_part(char *at, char *flat, size_t nbytes, bool to_host)
{
    if (to_host)
        memcpy(at, flat, nbytes);
    else
        memcpy(flat, at, nbytes);
}

/* The cursor: which index the next run has, and where it lies. */
struct cursor {
    const struct npux_nd *nd;
    char *at;
    ptrdiff_t index[64];
};

static void cursor_seek(struct cursor *c, const struct npux_host *host, size_t n_run)
{
    c->nd = host->nd;
    c->at = host->base;
    for (int i = host->nd->ndim - 1; i >= 0; i--) {
        c->index[i] = (ptrdiff_t)(n_run % (size_t)host->nd->shape[i]);
        n_run /= (size_t)host->nd->shape[i];
        c->at += c->index[i] * host->nd->strides[i];
    }
}

/* Moves n runs forward inside the last dimension; the caller never passes its end. */
static void cursor_advance(struct cursor *c, size_t n)
{
    int i = c->nd->ndim - 1;

    c->index[i] += (ptrdiff_t)n;
    c->at += (ptrdiff_t)n * c->nd->strides[i];
    while (i > 0 && c->index[i] == c->nd->shape[i]) {
        c->at -= c->nd->shape[i] * c->nd->strides[i];
        c->index[i] = 0;
        i--;
        c->index[i]++;
        c->at += c->nd->strides[i];
    }
}

static void copy_nd(const struct npux_host *host, size_t offset, char *flat, size_t nbytes, bool to_host)
{
    const struct npux_nd *nd = host->nd;
    const int last = nd->ndim - 1;
    size_t skip = offset % nd->run;
    struct cursor c;

    cursor_seek(&c, host, offset / nd->run);
    if (skip != 0) { /* the range starts inside a run */
        size_t part = nd->run - skip < nbytes ? nd->run - skip : nbytes;
        copy_part(c.at + skip, flat, part, to_host);
        flat += part;
        nbytes -= part;
        if (nbytes == 0)
            return;
        cursor_advance(&c, 1);
    }
    while (nbytes >= nd->run) {
        size_t n = (size_t)(nd->shape[last] - c.index[last]);
        if (n > nbytes / nd->run)
            n = nbytes / nd->run;
        if (to_host)
            copy_row(c.at, nd->strides[last], flat, n, nd->run, true);
        else
            copy_row(c.at, nd->strides[last], flat, n, nd->run, false);
        flat += n * nd->run;
        nbytes -= n * nd->run;
        if (nbytes == 0)
            return;
        cursor_advance(&c, n);
    }
    copy_part(c.at, flat, nbytes, to_host); /* the range ends inside a run */
}

void npux_host_read(const struct npux_host *host, size_t offset, void *dst, size_t nbytes)
{
    if (nbytes == 0)
        return;
    if (host->nd == NULL)
        npux_copy(dst, host->base + offset, nbytes);
    else
        copy_nd(host, offset, dst, nbytes, false);
}

void npux_host_write(const struct npux_host *host, size_t offset, const void *src, size_t nbytes)
{
    if (nbytes == 0)
        return;
    if (host->nd == NULL)
        npux_copy(host->base + offset, src, nbytes);
    else /* copy_nd only reads flat when it writes to the host */
        copy_nd(host, offset, (char *)(uintptr_t)src, nbytes, true);
}
