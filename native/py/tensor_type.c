/* tensor_type.c - Tensor: what somebody else's DLPack capsule described, held until the object dies. */
#include "py/dlpack.h"
#include "py/native.h"

struct tensor_object {
    PyObject_HEAD struct npux_dl_managed *plain; /* one of the two is set */
    struct npux_dl_versioned *versioned;
};

static PyTypeObject *tensor_type;

static const struct npux_dl_tensor *tensor_get(PyObject *object)
{
    struct tensor_object *self = (struct tensor_object *)object;

    return self->plain != NULL ? &self->plain->tensor : &self->versioned->tensor;
}

/* The owner of the memory may be a Python object that takes the GIL only if it does not have it, or one that
 * trusts its caller; with the GIL held, as here, both work. */
static void give_back(struct npux_dl_managed *plain, struct npux_dl_versioned *versioned)
{
    if (plain != NULL && plain->deleter != NULL)
        plain->deleter(plain);
    if (versioned != NULL && versioned->deleter != NULL)
        versioned->deleter(versioned);
}

PyObject *npux_py_open_capsule(PyObject *module, PyObject *capsule)
{
    struct npux_dl_managed *plain = NULL;
    struct npux_dl_versioned *versioned = NULL;
    struct tensor_object *self;

    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (versioned->major != NPUX_DL_MAJOR) {
            PyErr_Format(PyExc_BufferError, "DLPack %u.%u; version %d is understood",
                         (unsigned)versioned->major, (unsigned)versioned->minor, (int)NPUX_DL_MAJOR);
            return NULL; /* the capsule still owns it */
        }
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        plain = PyCapsule_GetPointer(capsule, "dltensor");
    } else {
        PyErr_SetString(PyExc_BufferError, "not a DLPack capsule, or one that was consumed before");
        return NULL;
    }
    self = PyObject_New(struct tensor_object, tensor_type);
    if (self == NULL)
        return NULL;
    if (PyCapsule_SetName(capsule, plain != NULL ? "used_dltensor" : "used_dltensor_versioned") < 0) {
        self->plain = NULL;
        self->versioned = NULL;
        Py_DECREF(self);
        return NULL;
    }
    self->plain = plain;
    self->versioned = versioned;
    return (PyObject *)self;
}

static void tensor_dealloc(PyObject *object)
{
    struct tensor_object *self = (struct tensor_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject *kind, *error,
        *trace; /* a deleter may run Python, which must not see or clear an error of ours */

    PyErr_Fetch(&kind, &error, &trace);
    give_back(self->plain, self->versioned);
    PyErr_Restore(kind, error, trace);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *tensor_address(PyObject *object, void *closure)
{
    const struct npux_dl_tensor *t = tensor_get(object);

    return PyLong_FromUnsignedLongLong((uint64_t)(uintptr_t)t->data + t->byte_offset);
}

static PyObject *tensor_device(PyObject *object, void *closure)
{
    const struct npux_dl_tensor *t = tensor_get(object);

    return Py_BuildValue("(ii)", (int)t->device_type, (int)t->device_id);
}

static PyObject *tensor_element(PyObject *object, void *closure)
{
    const struct npux_dl_tensor *t = tensor_get(object);

    return Py_BuildValue("(iii)", (int)t->code, (int)t->bits, (int)t->lanes);
}

static PyObject *numbers(const int64_t *values, int32_t n)
{
    PyObject *tuple = PyTuple_New(n);

    for (int32_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *number = PyLong_FromLongLong(values[i]);
        if (number == NULL || PyTuple_SetItem(tuple, i, number) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *tensor_shape(PyObject *object, void *closure)
{
    const struct npux_dl_tensor *t = tensor_get(object);

    return numbers(t->shape, t->ndim);
}

static PyObject *tensor_strides(PyObject *object, void *closure)
{
    const struct npux_dl_tensor *t = tensor_get(object);

    if (t->strides == NULL)
        Py_RETURN_NONE;
    return numbers(t->strides, t->ndim);
}

static PyObject *tensor_flags(PyObject *object, void *closure)
{
    struct tensor_object *self = (struct tensor_object *)object;

    return PyLong_FromUnsignedLongLong(self->versioned != NULL ? self->versioned->flags : 0);
}

static PyGetSetDef getset[] = {
    {"address", tensor_address, NULL, "First byte, as an integer.", NULL},
    {"device", tensor_device, NULL, "Type and number of the device.", NULL},
    {"element", tensor_element, NULL, "Type code, bits and lanes of an element.", NULL},
    {"shape", tensor_shape, NULL, "Extents.", NULL},
    {"strides", tensor_strides, NULL, "Strides in elements; None in C order.", NULL},
    {"flags", tensor_flags, NULL, "1: read-only, 2: a copy, 4: elements below a byte are padded.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_getset, getset},
    {Py_tp_doc, "Memory of another library; given back to it with this object."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "npu_xfer._native.Tensor",
    .basicsize = sizeof(struct tensor_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

int npux_py_add_tensor(PyObject *module)
{
    tensor_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (tensor_type == NULL)
        return -1;
    Py_INCREF(tensor_type);
    return PyModule_AddObject(module, "Tensor", (PyObject *)tensor_type);
}
