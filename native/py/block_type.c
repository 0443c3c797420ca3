/* block_type.c - Block: memory of an engine as a Python object. Host blocks export their buffer. */
#include "py/native.h"

#include <structmember.h>

struct block_object {
    PyObject_HEAD struct npux_block *block;
    int forks;
};

PyTypeObject *npux_py_block_type;

PyObject *npux_py_block_new(struct npux_block *block)
{
    struct block_object *self = PyObject_New(struct block_object, npux_py_block_type);

    if (self == NULL) {
        npux_block_unref(block);
        return NULL;
    }
    self->block = block;
    self->forks = npux_py_forks();
    return (PyObject *)self;
}

struct npux_block *npux_py_block_get(PyObject *object)
{
    return ((struct block_object *)object)->block;
}

static void block_dealloc(PyObject *object)
{
    struct block_object *self = (struct block_object *)object;
    PyTypeObject *type = Py_TYPE(object);

    if (self->forks == npux_py_forks()) /* in a forked child the locks of the arena are in no known state */
        npux_block_unref(self->block);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int block_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    struct npux_block *block = npux_py_block_get(object);

    if (npux_block_side(block) == NPUX_DEVICE) {
        view->obj = NULL;
        PyErr_SetString(PyExc_BufferError, "device memory cannot be read by the host; use to_host");
        return -1;
    }
    return PyBuffer_FillInfo(view, object, block->address, (Py_ssize_t)block->nbytes, 0, flags);
}

static PyObject *block_address(PyObject *object, void *closure)
{
    return PyLong_FromVoidPtr(npux_py_block_get(object)->address);
}

static PyObject *block_nbytes(PyObject *object, void *closure)
{
    return PyLong_FromSize_t(npux_py_block_get(object)->nbytes);
}

static PyObject *block_side(PyObject *object, void *closure)
{
    static const char *const names[] = {"device", "pinned", "pageable"};
    return PyUnicode_FromString(names[npux_block_side(npux_py_block_get(object))]);
}

static PyObject *block_alive(PyObject *object, void *closure)
{
    return PyBool_FromLong(npux_block_alive(npux_py_block_get(object)));
}

static PyGetSetDef getset[] = {
    {"address", block_address, NULL, "First byte, as an integer.", NULL},
    {"nbytes", block_nbytes, NULL, "Length in bytes, as asked for.", NULL},
    {"side", block_side, NULL, "'device', 'pinned' or 'pageable'.", NULL},
    {"alive", block_alive, NULL, "False once the device that held the memory was closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, block_dealloc},
    {Py_tp_getset, getset},
    {Py_bf_getbuffer, block_getbuffer},
    {Py_tp_doc, "Memory of an engine; goes back when the last transfer and the last object let go."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "npu_xfer._native.Block",
    .basicsize = sizeof(struct block_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

int npux_py_add_block(PyObject *module)
{
    npux_py_block_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (npux_py_block_type == NULL)
        return -1;
    Py_INCREF(npux_py_block_type);
    return PyModule_AddObject(module, "Block", (PyObject *)npux_py_block_type);
}
