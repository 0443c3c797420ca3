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

/* Elements at any address, whatever they are. */
typedef uint8_t e1 __attribute__((may_alias));
typedef uint16_t e2 __attribute__((may_alias, aligned(1)));
typedef uint32_t e4 __attribute__((may_alias, aligned(1)));
typedef uint64_t e8 __attribute__((may_alias, aligned(1)));
typedef struct {
    uint64_t halves[2];
} __attribute__((may_alias, aligned(1), packed)) e16;

/* n elements between a strided row and contiguous ones. With a constant stride of two, or
 * backwards, the compiler makes vector code of it; other strides are bound by the loads. */
#define COPY_ROW(type)                                          \
    do {                                                        \
        type *flat_ = (type *)(void *)flat;                     \
        if (to_host) {                                          \
            for (size_t k = 0; k < n; k++, row += stride)       \
                *(type *)(void *)row = flat_[k];                \
        } else if (stride == 2 * (ptrdiff_t)sizeof(type)) {     \
            const type *row_ = (const type *)(const void *)row; \
            for (size_t k = 0; k < n; k++)                      \
                flat_[k] = row_[2 * k];                         \
        } else if (stride == -(ptrdiff_t)sizeof(type)) {        \
            const type *row_ = (const type *)(const void *)row; \
            for (size_t k = 0; k < n; k++)                      \
                flat_[k] = row_[-(ptrdiff_t)k];                 \
        } else {                                                \
            for (size_t k = 0; k < n; k++, row += stride)       \
                flat_[k] = *(const type *)(const void *)row;    \
        }                                                       \
    } while (0)

static inline void copy_row(char *row, ptrdiff_t stride, char *flat, size_t n, size_t run, const bool to_host)
{
    switch (run) {
    case 1:
        COPY_ROW(e1);
        return;
    case 2:
        COPY_ROW(e2);
        return;
    case 4:
        COPY_ROW(e4);
        return;
    case 8:
        COPY_ROW(e8);
        return;
    case 16:
        COPY_ROW(e16);
        return;
    default:
        break;
    }
    for (size_t k = 0; k < n; k++, row += stride, flat += run) {
        if (to_host)
            npux_copy_piece(row, flat, run);
        else
            npux_copy_piece(flat, row, run);
    }
}

/* Rows of n_columns elements in contiguous memory, where in the strided one a column has its elements side by
 * side: a transposition. It goes tile by tile through a buffer that fits the nearest cache, so that on both
 * sides memory is read and written in runs, also when a power of two lies between two of them. */
enum { TILE_ROWS_NBYTES = 256, TILE_COLUMNS = 64 };

#define COPY_COLUMNS(type, rows, stride)                                              \
    for (size_t c = 0; c < n_columns; c++) {                                          \
        char *column = at + (ptrdiff_t)c * column_stride;                             \
        type *row_ = (rows) + c;                                                      \
        for (size_t r = 0; r < n_rows; r++, column += row_stride, row_ += (stride)) { \
            if (to_host)                                                              \
                *(type *)(void *)column = *row_;                                      \
            else                                                                      \
                *row_ = *(const type *)(const void *)column;                          \
        }                                                                             \
    }

/* A few columns need no buffer: their rows lie together. */
#define COPY_TILE(type)                                                                         \
    do {                                                                                        \
        type *tile_ = (type *)(void *)tile;                                                     \
        if (n_columns < TILE_COLUMNS / 4) {                                                     \
            COPY_COLUMNS(type, (type *)(void *)flat, flat_stride / sizeof(type))                \
            return;                                                                             \
        }                                                                                       \
        for (size_t r = 0; to_host && r < n_rows; r++)                                          \
            memcpy(tile_ + r * TILE_COLUMNS, flat + r * flat_stride, n_columns * sizeof(type)); \
        COPY_COLUMNS(type, tile_, TILE_COLUMNS)                                                 \
        for (size_t r = 0; !to_host && r < n_rows; r++)                                         \
            memcpy(flat + r * flat_stride, tile_ + r * TILE_COLUMNS, n_columns * sizeof(type)); \
    } while (0)

static void copy_tile(char *at, ptrdiff_t row_stride, ptrdiff_t column_stride, char *flat, size_t flat_stride,
                      size_t n_rows, size_t n_columns, size_t run, const bool to_host)
{
    _Alignas(64) char tile[TILE_ROWS_NBYTES * TILE_COLUMNS];

    switch (run) {
    case 1:
        COPY_TILE(e1);
        break;
    case 2:
        COPY_TILE(e2);
        break;
    case 4:
        COPY_TILE(e4);
        break;
    case 8:
        COPY_TILE(e8);
        break;
    default:
        COPY_TILE(e16);
        break;
    }
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void copy_tiles(char *at, ptrdiff_t row_stride, ptrdiff_t column_stride, char *flat, size_t n_rows,
                       size_t n_columns, size_t run, const bool to_host)
{
    const size_t tile_rows = TILE_ROWS_NBYTES / run;

    for (size_t c = 0; c < n_columns; c += TILE_COLUMNS)
        for (size_t r = 0; r < n_rows; r += tile_rows)
            copy_tile(at + (ptrdiff_t)r * row_stride + (ptrdiff_t)c * column_stride, row_stride,
                      column_stride, flat + (r * n_columns + c) * run, n_columns * run,
                      smaller(tile_rows, n_rows - r), smaller(TILE_COLUMNS, n_columns - c), run, to_host);
}

/* The elements of the last dimension are far apart, those of the one before it are side by side. */
static bool is_transposed(const struct npux_nd *nd)
{
    ptrdiff_t run = (ptrdiff_t)nd->run, row;

    if (nd->ndim < 2 || nd->shape[nd->ndim - 1] < TILE_COLUMNS / 4 ||
        (run != 1 && run != 2 && run != 4 && run != 8 && run != 16))
        return false;
    row = nd->strides[nd->ndim - 2];
    return row == run || row == -run;
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

/* Moves n forward inside dimension i, those behind which are at 0 if it is not the last; the caller never
 * passes its end. */
static void cursor_advance(struct cursor *c, int i, size_t n)
{
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
    const size_t row_nbytes = nd->run * (size_t)nd->shape[last];
    const bool transposed = is_transposed(nd);
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
        cursor_advance(&c, last, 1);
    }
    while (nbytes >= nd->run) {
        size_t n_rows = transposed && c.index[last] == 0 ? nbytes / row_nbytes : 0;
        size_t n = (size_t)(nd->shape[last] - c.index[last]);
        if (n_rows > 1) {
            if (n_rows > (size_t)(nd->shape[last - 1] - c.index[last - 1]))
                n_rows = (size_t)(nd->shape[last - 1] - c.index[last - 1]);
            copy_tiles(c.at, nd->strides[last - 1], nd->strides[last], flat, n_rows, (size_t)nd->shape[last],
                       nd->run, to_host);
            flat += n_rows * row_nbytes;
            nbytes -= n_rows * row_nbytes;
            if (nbytes == 0)
                return;
            cursor_advance(&c, last - 1, n_rows);
            continue;
        }
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
        cursor_advance(&c, last, n);
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
