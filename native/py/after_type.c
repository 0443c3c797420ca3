/* after_type.c - Wait: what a request is to wait for on the device, or which requests it is to follow. */
#include "core/after.h"

#include <string.h>

#include "py/native.h"

struct wait_object {
    PyObject_HEAD struct npux_after *after;
    PyObject *engine;  /* whose events these are */
    PyObject *handles; /* of the requests that are named: their addresses must not be used again */
};

PyTypeObject *npux_py_after_type;

static void wait_dealloc(PyObject *object)
{
    struct wait_object *self = (struct wait_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

    if (self->after != NULL)
        npux_after_unref(self->after);
    Py_XDECREF(self->handles);
    Py_XDECREF(self->engine);
    free_object(self);
    Py_DECREF(type);
}

/* The addresses in a list, or NULL with an exception; at least one byte, so that NULL is an error. */
static void **addresses_of(PyObject *list, Py_ssize_t *n)
{
    void **addresses;

    *n = PyList_Size(list);
    addresses = PyMem_Calloc((size_t)*n + 1, sizeof(*addresses));
    if (addresses == NULL)
        return (void **)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < *n; i++)
        addresses[i] = PyLong_AsVoidPtr(PyList_GetItem(list, i));
    if (PyErr_Occurred()) {
        PyMem_Free(addresses);
        return NULL;
    }
    return addresses;
}

static const void **keys_of(PyObject *list, Py_ssize_t *n)
{
    const void **keys;

    *n = PyList_Size(list);
    keys = PyMem_Calloc((size_t)*n + 1, sizeof(*keys));
    if (keys == NULL)
        return (const void **)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < *n; i++)
        keys[i] = PyList_GetItem(list, i);
    return keys;
}

PyObject *npux_py_after_new(PyObject *engine_object, struct npux_engine *e, PyObject *args)
{
    PyObject *stream_list, *event_list, *handles;
    Py_ssize_t n_streams = 0, n_events = 0, n_keys = 0;
    void **streams = NULL, **events = NULL;
    const void **keys = NULL;
    struct wait_object *self = NULL;
    struct npux_err err;
    allocfunc alloc = (allocfunc)PyType_GetSlot(npux_py_after_type, Py_tp_alloc);
    int rc = -1;

    if (!PyArg_ParseTuple(args, "O!O!O!", &PyList_Type, &stream_list, &PyList_Type, &event_list, &PyList_Type,
                          &handles))
        return NULL;
    streams = addresses_of(stream_list, &n_streams);
    events = streams == NULL ? NULL : addresses_of(event_list, &n_events);
    keys = events == NULL ? NULL : keys_of(handles, &n_keys);
    self = keys == NULL ? NULL : (struct wait_object *)alloc(npux_py_after_type, 0);
    if (self != NULL) {
        Py_INCREF(engine_object);
        self->engine = engine_object;
        self->handles = PyList_AsTuple(handles);
        Py_BEGIN_ALLOW_THREADS rc =
            npux_after_new(e, streams, (unsigned)n_streams, events, (unsigned)n_events, keys,
                           (unsigned)n_keys, &self->after, &err);
        Py_END_ALLOW_THREADS if (rc != 0)
        {
            self->after = NULL;
            npux_py_raise(&err);
        }
    }
    PyMem_Free(streams);
    PyMem_Free(events);
    PyMem_Free(keys);
    if (self != NULL && (rc != 0 || self->handles == NULL)) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

int npux_py_after_bind(PyObject *object, PyObject *engine_object, struct npux_request *request)
{
    struct wait_object *self = (struct wait_object *)object;

    if (object == Py_None)
        return 0;
    if (!PyObject_TypeCheck(object, npux_py_after_type) || self->engine != engine_object) {
        PyErr_SetString(PyExc_TypeError, "after is None or a Wait of this engine");
        return -1;
    }
    npux_after_ref(self->after);
    request->after = self->after;
    return 0;
}

static PyType_Slot wait_slots[] = {
    {Py_tp_dealloc, wait_dealloc},
    {Py_tp_doc, "What a request is to wait for; made by Engine.after, for one request."},
    {0, NULL},
};

static PyType_Spec wait_spec = {"npu_xfer._native.Wait", sizeof(struct wait_object), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, wait_slots};

int npux_py_add_after(PyObject *module)
{
    npux_py_after_type = (PyTypeObject *)PyType_FromSpec(&wait_spec);
    if (npux_py_after_type == NULL)
        return -1;
    return PyModule_AddObject(module, "Wait", (PyObject *)npux_py_after_type);
}
