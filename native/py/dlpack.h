/* dlpack.h - the two capsules of DLPack, as other libraries lay them out: ABI facts only.
 *
 * Threads: none. Locks: none.
 * Owns:    nothing; whoever holds a managed tensor calls its deleter, once, on any thread.
 * Invariant: the layouts are those of DLPack 0.x ("dltensor") and 1.x ("dltensor_versioned").
 */
#ifndef NPUX_PY_DLPACK_H
#define NPUX_PY_DLPACK_H

#include <stdint.h>

enum { NPUX_DL_MAJOR = 1, NPUX_DL_MINOR = 0 };
enum { NPUX_DL_READ_ONLY = 1, NPUX_DL_COPIED = 2, NPUX_DL_PADDED = 4 }; /* bits of flags */

struct npux_dl_tensor {
    void *data;
    int32_t device_type;
    int32_t device_id;
    int32_t ndim;
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides;     /* in elements; NULL means C order */
    uint64_t byte_offset; /* of the first element from data */
};

struct npux_dl_managed { /* in a capsule named "dltensor" */
    struct npux_dl_tensor tensor;
    void *context;
    void (*deleter)(struct npux_dl_managed *self);
};

struct npux_dl_versioned { /* in a capsule named "dltensor_versioned" */
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct npux_dl_versioned *self);
    uint64_t flags;
    struct npux_dl_tensor tensor;
};

#endif
