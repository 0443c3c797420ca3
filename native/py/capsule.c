/* capsule.c - device memory of an engine as a DLPack capsule. */
#include "py/dlpack.h"
#include "py/native.h"

#include <stddef.h>
#include <stdlib.h>

/* The deleter runs on any thread, without the GIL, also when the interpreter has gone: nothing here is
 * Python. The block may be dead by then (its engine closed); letting go of it is allowed all the same. */
struct exported {
    union {
        struct npux_dl_managed plain;
        struct npux_dl_versioned versioned;
    };
    struct npux_block *block; /* NULL: no bytes */
    int forks;
    int64_t dims[]; /* extents, then strides */
};

static void exported_free(struct exported *self)
{
    if (self->block != NULL && self->forks == npux_py_forks())
        npux_block_unref(self->block);
    free(self);
}

static void delete_plain(struct npux_dl_managed *managed)
{
    exported_free(managed->context);
}

static void delete_versioned(struct npux_dl_versioned *managed)
{
    exported_free(managed->context);
}

/* Nobody consumed the capsule. */
static void destroy_plain(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor"))
        delete_plain(PyCapsule_GetPointer(capsule, "dltensor"));
}

static void destroy_versioned(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        delete_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
}

/* Fills extents and C-order strides. */
static int fill_dims(int64_t *dims, PyObject *shape, Py_ssize_t ndim)
{
    uint64_t stride = 1; /* may wrap where another extent is 0 and nobody strides */

    for (Py_ssize_t i = ndim - 1; i >= 0; i--) {
        long long extent = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
        if (extent == -1 && PyErr_Occurred())
            return -1;
        dims[i] = extent;
        dims[ndim + i] = (int64_t)stride;
        stride *= (uint64_t)extent;
    }
    return 0;
}

PyObject *npux_py_make_capsule(PyObject *module, PyObject *args)
{
    PyObject *block_object, *shape, *capsule;
    Py_ssize_t offset, ndim;
    int code, bits, device_type, device_id, versioned;
    struct exported *self;
    struct npux_block *block;
    struct npux_dl_tensor *tensor;

    if (!PyArg_ParseTuple(args, "OnO!iiiip", &block_object, &offset, &PyTuple_Type, &shape, &code, &bits,
                          &device_type, &device_id, &versioned))
        return NULL;
    if (block_object != Py_None && !PyObject_TypeCheck(block_object, npux_py_block_type)) {
        PyErr_SetString(PyExc_TypeError, "device memory is a Block or None");
        return NULL;
    }
    block = block_object == Py_None ? NULL : npux_py_block_get(block_object);
    ndim = PyTuple_Size(shape);
    self = calloc(1, sizeof(*self) + 2 * (size_t)ndim * sizeof(int64_t));
    if (self == NULL)
        return PyErr_NoMemory();
    if (fill_dims(self->dims, shape, ndim) < 0) {
        free(self);
        return NULL;
    }
    self->forks = npux_py_forks();
    if (versioned) {
        self->versioned.major = NPUX_DL_MAJOR;
        self->versioned.minor = NPUX_DL_MINOR;
        self->versioned.context = self;
        self->versioned.deleter = delete_versioned;
        tensor = &self->versioned.tensor;
    } else {
        self->plain.context = self;
        self->plain.deleter = delete_plain;
        tensor = &self->plain.tensor;
    }
    tensor->data = block == NULL ? NULL : block->address + offset;
    tensor->device_type = device_type;
    tensor->device_id = device_id;
    tensor->ndim = (int32_t)ndim;
    tensor->code = (uint8_t)code;
    tensor->bits = (uint8_t)bits;
    tensor->lanes = 1;
    tensor->shape = self->dims;
    tensor->strides = self->dims + ndim;
    capsule = PyCapsule_New(self, versioned ? "dltensor_versioned" : "dltensor",
                            versioned ? destroy_versioned : destroy_plain);
    if (capsule == NULL) {
        free(self);
        return NULL;
    }
    if (block != NULL) {
        npux_block_ref(block);
        self->block = block;
    }
    return capsule;
}
