/* port_type.c - Port: the doorbell of one event loop or one blocking thread. */
#include "py/native.h"

#include <errno.h>
#include <poll.h>

struct port_object {
    PyObject_HEAD struct npux_port *port;
    int forks;
};

PyTypeObject *npux_py_port_type;

struct npux_port *npux_py_port_get(PyObject *object)
{
    return ((struct port_object *)object)->port;
}

static PyObject *port_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct port_object *self = (struct port_object *)alloc(type, 0);
    static char *names[] = {"has_turns", NULL};
    int has_turns = 0;

    if (self == NULL)
        return NULL;
    npux_py_drain_graveyard(); /* threads that come and go leave their ports behind, and these a descriptor */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p", names, &has_turns)) {
        Py_DECREF(self);
        return NULL;
    }
    self->forks = npux_py_forks();
    self->port = npux_port_new();
    if (self->port == NULL) {
        Py_DECREF(self);
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    self->port->has_turns = has_turns != 0;
    return (PyObject *)self;
}

static void port_dealloc(PyObject *object)
{
    struct port_object *self = (struct port_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

    if (self->port != NULL && self->forks == npux_py_forks()) {
        npux_port_close(self->port);
        npux_port_unref(self->port);
    }
    free_object(self);
    Py_DECREF(type);
}

static PyObject *port_fileno(PyObject *object, PyObject *unused)
{
    return PyLong_FromLong(npux_py_port_get(object)->fd);
}

static const char *direction_name(const struct npux_op *op)
{
    if (op->from != NULL)
        return "d2d";
    return op->direction == NPUX_H2D ? "h2d" : "d2h";
}

/* What became of one op: an exception, the Block that was made for it, or None. */
static PyObject *op_outcome(struct npux_op *op, int32_t device)
{
    if (op->err != NULL)
        return npux_py_make_error(op->err, direction_name(op), (Py_ssize_t)op->host.nbytes, op->err_stream,
                                  device);
    if (op->fresh && op->device != NULL) {
        npux_block_ref(op->device);
        return npux_py_block_new(op->device);
    }
    Py_RETURN_NONE;
}

static PyObject *request_outcome(struct npux_request *request, int32_t device, bool *failed)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)request->n_ops);

    *failed = false;
    for (uint32_t i = 0; tuple != NULL && i < request->n_ops; i++) {
        PyObject *outcome = op_outcome(&request->ops[i], device);
        *failed |= request->ops[i].err != NULL;
        if (outcome == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SetItem(tuple, (Py_ssize_t)i, outcome);
    }
    return tuple;
}

/* The outcome of a request whose own could not be made (Ctrl-C in the factory, no memory): the exception that
 * is set, for every op, so that the waiting task gets it and nobody waits for ever. */
static PyObject *exception_outcome(uint32_t n_ops)
{
    PyObject *type, *value, *trace, *tuple;

    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    tuple = PyTuple_New((Py_ssize_t)n_ops);
    for (uint32_t i = 0; tuple != NULL && i < n_ops; i++) {
        Py_INCREF(value);
        PyTuple_SetItem(tuple, (Py_ssize_t)i, value);
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return tuple;
}

/* Appends (handle, outcome, failed) for one note and frees what it ends. */
static int reap_note(const struct npux_note *note, PyObject *list)
{
    struct npux_request *request = note->request;
    struct npux_py_request *pr = request->user;
    PyObject *outcome, *news;
    bool failed = false;
    int rc = -1;

    if (pr == NULL) /* an abandoned request, whose user has been told */
        return 0;
    if (note->what == NPUX_FLUSH) {
        npux_py_engine_flush(pr->engine);
        return 0;
    }
    if (note->what == NPUX_RELEASED) { /* its handle has its outcome already */
        outcome = PyTuple_New(0);
    } else if (note->what == NPUX_CAPTURED) {
        npux_py_release_captured(request);
        Py_INCREF(Py_None);
        outcome = Py_None;
    } else {
        outcome = request_outcome(request, pr->device, &failed);
        if (outcome == NULL) {
            outcome = exception_outcome(request->n_ops);
            failed = true;
        }
    }
    if (outcome != NULL) {
        news = PyTuple_Pack(3, pr->handle, outcome, failed ? Py_True : Py_False);
        Py_DECREF(outcome);
        rc = news == NULL ? -1 : PyList_Append(list, news);
        Py_XDECREF(news);
    }
    if (note->what == NPUX_RELEASED || (note->what == NPUX_DONE && !npux_deadline_told(request))) {
        request->user = NULL;
        if (!request->abandoned) {
            npux_request_free(request);
            npux_py_request_free(pr);
        } /* else a DMA may still use the buffers: the exports, the handle and the engine are kept for good */
    }
    return rc;
}

static int reap_notes(struct npux_note *notes, PyObject *list)
{
    int rc = 0;

    while (notes != NULL) { /* all of them, also after a failure: each holds references */
        struct npux_note *next = notes->next;
        if (reap_note(notes, list) < 0)
            rc = -1;
        notes = next;
    }
    return rc;
}

void npux_py_drain_graveyard(void)
{
    struct npux_note *notes = npux_graveyard_drain();
    PyObject *buried = notes == NULL ? NULL : PyList_New(0);

    if (notes != NULL && (buried == NULL || reap_notes(notes, buried) < 0))
        PyErr_WriteUnraisable(NULL);
    Py_XDECREF(buried);
}

/* True with ForkedProcessError set in a child: nobody rings here, and a drain would take the parent's ring.
 */
static bool in_child(PyObject *object)
{
    struct npux_err err;

    if (((struct port_object *)object)->forks == npux_py_forks())
        return false;
    npux_fail(&err, -ECHILD, "fork", "this transfer was submitted by the parent process");
    npux_py_raise(&err);
    return true;
}

/* Into the caller's list and not a new one: an interrupt right after the call must lose nothing. */
static PyObject *port_reap(PyObject *object, PyObject *list)
{
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "reap(news: list)");
        return NULL;
    }
    if (in_child(object))
        return NULL;
    npux_py_drain_graveyard();
    if (reap_notes(npux_port_drain(npux_py_port_get(object)), list) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *port_wait(PyObject *object, PyObject *argument)
{
    struct pollfd fd = {.fd = npux_py_port_get(object)->fd, .events = POLLIN};
    double timeout_s = PyFloat_AsDouble(argument);
    int n, error;

    if ((timeout_s == -1.0 && PyErr_Occurred()) || in_child(object))
        return NULL;
    Py_BEGIN_ALLOW_THREADS n = poll(&fd, 1, timeout_s < 0 ? -1 : (int)(timeout_s * 1000.0 + 0.999));
    error = errno;
    Py_END_ALLOW_THREADS if (n < 0 && error != EINTR)
    {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    if (PyErr_CheckSignals() < 0)
        return NULL;
    return PyBool_FromLong(n > 0);
}

static PyMethodDef methods[] = {
    {"fileno", port_fileno, METH_NOARGS, "fileno() -> int\n\nReadable when reap has something to return."},
    {"reap", port_reap, METH_O,
     "reap(news: list[tuple[object, tuple | None, bool]])\n\n"
     "Appends what happened since the last call, oldest first: (handle, None, False) when the sources are\n"
     "captured, (handle, outcomes, failed) when the request is done. An outcome is a Block, None or an\n"
     "exception."},
    {"wait", port_wait, METH_O,
     "wait(timeout_s) -> bool\n\nBlocks until the doorbell rings; negative: without limit."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, port_new},
    {Py_tp_dealloc, port_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_doc,
     "Port(has_turns=False)\n\nWhere completions arrive. One per event loop or blocking thread. has_turns: "
     "reap is called in the\nnext turn of the loop after fileno() became readable."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "npu_xfer._native.Port",
    .basicsize = sizeof(struct port_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int npux_py_add_port(PyObject *module)
{
    npux_py_port_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (npux_py_port_type == NULL)
        return -1;
    Py_INCREF(npux_py_port_type);
    return PyModule_AddObject(module, "Port", (PyObject *)npux_py_port_type);
}
