/* block_type.c - Block: memory of an engine as a Python object. Host blocks export their buffer. */
#include "core/lend.h"
#include "py/native.h"

#include <structmember.h>

struct block_object {
    PyObject_HEAD struct npux_block *block;
    PyObject *owner; /* of lent memory, else NULL */
    PyObject *weakrefs;
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
    self->owner = NULL;
    self->weakrefs = NULL;
    self->forks = npux_py_forks();
    return (PyObject *)self;
}

PyObject *npux_py_lend(struct npux_engine *e, PyObject *args)
{
    unsigned long long address;
    struct npux_block *block;
    Py_ssize_t nbytes;
    PyObject *owner, *object;
    struct npux_err err;
    size_t offset;

    if (!PyArg_ParseTuple(args, "KnO", &address, &nbytes, &owner))
        return NULL;
    if (address == 0 || nbytes < 1 || address > UINTPTR_MAX - (size_t)nbytes) {
        PyErr_Format(PyExc_ValueError, "no memory has %zd bytes at address %llu", nbytes, address);
        return NULL;
    }
    if (npux_engine_lend(e, (char *)(uintptr_t)address, (size_t)nbytes, &block, &offset, &err) != 0)
        return npux_py_raise(&err);
    object = npux_py_block_new(block);
    if (object == NULL)
        return NULL;
    Py_INCREF(owner);
    ((struct block_object *)object)->owner = owner;
    return Py_BuildValue("(Nn)", object, (Py_ssize_t)offset);
}

int npux_py_request_keep(struct npux_py_request *pr, PyObject *block_object)
{
    if (((struct block_object *)block_object)->owner == NULL)
        return 0;
    if (pr->lent == NULL && (pr->lent = PyList_New(0)) == NULL)
        return -1;
    return PyList_Append(pr->lent, block_object);
}

struct npux_block *npux_py_block_get(PyObject *object)
{
    return ((struct block_object *)object)->block;
}

static void block_dealloc(PyObject *object)
{
    struct block_object *self = (struct block_object *)object;
    PyTypeObject *type = Py_TYPE(object);

    if (self->weakrefs != NULL)
        PyObject_ClearWeakRefs(object);
    Py_CLEAR(self->owner);
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

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct block_object, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_members, members},
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
