/* layout.h - the host side of a transfer: a base address and, when it is not contiguous, its strides.
 *
 * The bytes of a layout are numbered 0 .. nbytes-1 in C order of its elements, whatever the strides are.
 * That numbering is what lies on the device, so a chunk is always (offset, nbytes).
 *
 * Threads: read and write may run on several threads at once for disjoint ranges.
 * Locks:   none.
 * Owns:    its nd part (npux_host_init .. npux_host_clear); the memory itself is the caller's.
 * Invariant: nd == NULL means contiguous; otherwise the product of nd->shape times nd->run is nbytes.
 */
#ifndef NPUX_CORE_LAYOUT_H
#define NPUX_CORE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

struct npux_nd {
    int ndim;   /* dimensions left after merging, >= 1 */
    size_t run; /* bytes that lie together at each index */
    ptrdiff_t *shape;
    ptrdiff_t *strides; /* bytes */
};

struct npux_host {
    char *base;
    size_t nbytes;
    struct npux_nd *nd;
};

/* Describes ndim dimensions of itemsize bytes each. shape and strides are copied, and merged as far as
 * they go. Returns 0 or -ENOMEM. */
int npux_host_init(struct npux_host *host, void *base, size_t itemsize, int ndim, const ptrdiff_t *shape,
                   const ptrdiff_t *strides);
void npux_host_clear(struct npux_host *host);

/* The lowest byte of the layout and the one behind its highest. */
void npux_host_bounds(const struct npux_host *host, char **low, char **high);

/* Copies bytes [offset, offset + nbytes) between the layout and contiguous memory. */
void npux_host_read(const struct npux_host *host, size_t offset, void *dst, size_t nbytes);
void npux_host_write(const struct npux_host *host, size_t offset, const void *src, size_t nbytes);

#endif
