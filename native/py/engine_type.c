/* engine_type.c - Engine: submit, memory, close. The hot path of the Python face ends here. */
#include "core/before.h"
#include "py/native.h"

#include <errno.h>
#include <string.h>
#include <structmember.h>

struct engine_object {
    PyObject_HEAD struct npux_engine *engine; /* freed with the object */
    int forks;
    int32_t device;
    bool closed;
    PyObject *weakrefs;
};

PyTypeObject *npux_py_engine_type;

static const uint64_t ABANDONED_CLOSE_NS = 1000000000u;
static const uint64_t FOREVER_NS = 1000000000000000000u; /* 31 years; infinity has no integer */

/* True with ForkedProcessError set in a child of the process that opened the engine: its threads are not
 * there, and CANN's neither. */
static bool in_child(struct engine_object *self)
{
    struct npux_err err;

    if (self->forks == npux_py_forks())
        return false;
    npux_fail(&err, -ECHILD, "fork", "device %d was opened by the parent process", (int)self->device);
    npux_py_raise(&err);
    return true;
}

static struct npux_engine *engine_get(PyObject *object)
{
    struct engine_object *self = (struct engine_object *)object;
    struct npux_err err;

    if (in_child(self))
        return NULL;
    if (self->closed) {
        npux_fail(&err, -ESHUTDOWN, "submit", "the scheduler is closed");
        npux_py_raise(&err);
        return NULL;
    }
    return self->engine;
}

void npux_py_engine_flush(PyObject *object)
{
    npux_engine_flush(((struct engine_object *)object)->engine);
}

/* Where ACL was first opened: how many forks after the import. ACL cannot work in a child of that process. */
static int opened_forks = -1;

static bool acl_stayed_in_parent(int device)
{
    struct npux_err err;

    if (opened_forks == -1)
        opened_forks = npux_py_forks();
    if (opened_forks == npux_py_forks())
        return false;
    npux_fail(&err, -ECHILD, "fork", "device %d asked for in a child of a process that has used ACL", device);
    npux_py_raise(&err);
    return true;
}

static PyObject *engine_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {
        "library", "device",    "staging_nbytes", "chunk_nbytes", "inline_nbytes", "result_nbytes",
        "n_lanes", "n_stagers", "spin_ns",        "pageable",     "window_ops",    "window_nbytes",
        NULL};
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct npux_engine_opts opts = {0};
    struct npux_err err = {0};
    struct engine_object *self;
    Py_ssize_t staging, chunk, small, result;
    long long spin_ns, window_ops, window_nbytes;
    int lanes, stagers, pageable, rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sinnnniiLiLL", names, &opts.library, &opts.device,
                                     &staging, &chunk, &small, &result, &lanes, &stagers, &spin_ns, &pageable,
                                     &window_ops, &window_nbytes))
        return NULL;
    if (staging < 1 || chunk < 1 || chunk > staging || small < 0 || result < 0 || lanes < 1 || lanes > 32 ||
        stagers < 1 || stagers > 64 || spin_ns < 0 || pageable < 0 || pageable >= NPUX_N_PAGEABLE ||
        window_ops < 0 || window_nbytes < 0) {
        PyErr_SetString(PyExc_ValueError, "want 1 <= chunk_nbytes <= staging_nbytes, 1 <= n_lanes <= 32 and "
                                          "1 <= n_stagers <= 64");
        return NULL;
    }
    if (acl_stayed_in_parent(opts.device))
        return NULL;
    opts.staging_nbytes = (size_t)staging;
    opts.chunk_nbytes = (size_t)chunk;
    opts.inline_nbytes = (size_t)(small < chunk ? small : chunk);
    opts.result_nbytes = (size_t)result;
    opts.n_lanes = (unsigned)lanes;
    opts.n_stagers = (unsigned)stagers;
    opts.window_ops = (uint64_t)window_ops;
    opts.window_nbytes = (uint64_t)window_nbytes;
    opts.pageable = (enum npux_pageable)pageable;
    opts.spin_ns = (uint64_t)spin_ns;
    self = (struct engine_object *)alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->forks = npux_py_forks();
    self->device = opts.device;
    self->closed = true;
    Py_BEGIN_ALLOW_THREADS rc = npux_engine_open(&opts, &self->engine, &err);
    Py_END_ALLOW_THREADS if (rc != 0)
    {
        self->engine = NULL;
        Py_DECREF(self);
        return npux_py_raise(&err);
    }
    self->closed = false;
    return (PyObject *)self;
}

static void engine_dealloc(PyObject *object)
{
    struct engine_object *self = (struct engine_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    struct npux_close_report report;

    if (self->weakrefs != NULL)
        PyObject_ClearWeakRefs(object);
    if (self->engine != NULL && self->forks == npux_py_forks()) {
        Py_BEGIN_ALLOW_THREADS if (!self->closed)
            npux_engine_close(self->engine, ABANDONED_CLOSE_NS, &report);
        npux_engine_free(self->engine);
        Py_END_ALLOW_THREADS
    }
    free_object(self);
    Py_DECREF(type);
}

/* Fills one op. On failure nothing of it is kept. */
static int fill_op(struct npux_py_request *pr, struct npux_op *op, uint32_t index, int direction,
                   PyObject *array, PyObject *block_object, Py_ssize_t offset)
{
    Py_buffer *view = &pr->views[index];
    struct npux_block *block = NULL;

    if (block_object != Py_None) {
        if (!PyObject_TypeCheck(block_object, npux_py_block_type)) {
            PyErr_SetString(PyExc_TypeError, "device memory is a Block or None");
            return -1;
        }
        block = npux_py_block_get(block_object);
        if (npux_block_side(block) != NPUX_DEVICE) {
            PyErr_SetString(PyExc_ValueError, "the block is host memory, device memory is needed");
            return -1;
        }
    } else if (direction == NPUX_D2H) {
        PyErr_SetString(PyExc_TypeError, "a copy to the host needs a device block");
        return -1;
    }
    if (PyTuple_Check(array)) {
        if (npux_py_describe_device(pr, array, direction, op) < 0)
            return -1;
    } else if (npux_py_describe(array, direction == NPUX_D2H, view, &op->host) < 0) {
        view->obj = NULL;
        return -1;
    }
    pr->n_views = index + 1;
    if (block != NULL &&
        (offset < 0 || (size_t)offset > block->nbytes || op->host.nbytes > block->nbytes - (size_t)offset)) {
        PyErr_Format(PyExc_ValueError, "%zu bytes at offset %zd do not fit the %zu bytes of device memory",
                     op->host.nbytes, offset, block->nbytes);
        return -1;
    }
    op->direction = (uint8_t)direction;
    if (block != NULL && npux_py_request_keep(pr, block_object) < 0)
        return -1;
    if (block != NULL) {
        npux_block_ref(block);
        op->device = block;
        op->device_offset = (size_t)offset;
    }
    return 0;
}

static struct npux_request *request_new(PyObject *engine_object, PyObject *port_object, PyObject *handle,
                                        uint32_t n, long priority)
{
    struct npux_py_request *pr;
    struct npux_request *request;

    if (!PyObject_TypeCheck(port_object, npux_py_port_type)) {
        PyErr_SetString(PyExc_TypeError, "port is a Port");
        return NULL;
    }
    if (priority < 0 || priority >= NPUX_N_PRIORITIES) {
        PyErr_Format(PyExc_ValueError, "priority=%ld is not valid; accepted: a member of npu_xfer.Priority",
                     priority);
        return NULL;
    }
    pr = PyMem_Calloc(1, sizeof(*pr) + n * sizeof(Py_buffer));
    request = pr == NULL ? NULL : npux_request_new(npux_py_port_get(port_object), n);
    if (request == NULL) {
        PyMem_Free(pr);
        PyErr_NoMemory();
        return NULL;
    }
    Py_INCREF(handle);
    pr->handle = handle;
    request->key = handle;
    Py_INCREF(engine_object);
    pr->engine = engine_object;
    pr->device = ((struct engine_object *)engine_object)->device;
    request->priority = (uint8_t)priority;
    request->user = pr;
    return request;
}

static void request_discard(struct npux_request *request)
{
    struct npux_py_request *pr = request->user;

    npux_request_free(request);
    npux_py_request_free(pr);
}

/* Hands the filled request to the engine. Returns True when every source is captured. */
static PyObject *request_submit(struct npux_engine *e, struct npux_request *request)
{
    struct npux_err err;
    bool captured;

    if (npux_engine_submit(e, request, &captured, &err) != 0) {
        request_discard(request);
        return npux_py_raise(&err);
    }
    /* The GIL is held since before the submit, so nobody has reaped and freed the request. */
    if (captured)
        npux_py_release_captured(request);
    return PyBool_FromLong(captured);
}

static PyObject *engine_submit(PyObject *object, PyObject *const *args, Py_ssize_t n_args)
{
    struct npux_engine *e = engine_get(object);
    struct npux_request *request;
    Py_ssize_t offset;
    long direction, priority;

    if (e == NULL)
        return NULL;
    if (n_args != 8 && n_args != 9) {
        PyErr_SetString(
            PyExc_TypeError,
            "submit(port, handle, direction, array, block, offset, priority, awaits_end[, after])");
        return NULL;
    }
    direction = PyLong_AsLong(args[2]);
    offset = PyLong_AsSsize_t(args[5]);
    priority = PyLong_AsLong(args[6]);
    if (PyErr_Occurred())
        return NULL;
    request = request_new(object, args[0], args[1], 1, priority);
    if (request == NULL)
        return NULL;
    request->awaits_end = args[7] == Py_True;
    if (fill_op(request->user, &request->ops[0], 0, direction == NPUX_D2H ? NPUX_D2H : NPUX_H2D, args[3],
                args[4], offset) < 0 ||
        (n_args == 9 && npux_py_after_bind(args[8], object, request) < 0)) {
        request_discard(request);
        return NULL;
    }
    return request_submit(e, request);
}

/* An item of submit_many: an array, which goes to new memory, or (array, block, offset). */
static int item_parse(PyObject *item, PyObject **array, PyObject **block, Py_ssize_t *offset)
{
    if (!PyTuple_Check(item)) {
        *array = item;
        *block = Py_None;
        *offset = 0;
        return 0;
    }
    if (PyTuple_Size(item) != 3) {
        PyErr_SetString(PyExc_TypeError, "an item is an array or a tuple (array, block, offset)");
        return -1;
    }
    *array = PyTuple_GetItem(item, 0);
    *block = PyTuple_GetItem(item, 1);
    *offset = PyLong_AsSsize_t(PyTuple_GetItem(item, 2));
    return *offset == -1 && PyErr_Occurred() ? -1 : 0;
}

static PyObject *engine_submit_many(PyObject *object, PyObject *args)
{
    struct npux_engine *e = engine_get(object);
    PyObject *port, *handle, *items, *after = Py_None;
    struct npux_request *request;
    int direction, priority;

    if (e == NULL || !PyArg_ParseTuple(args, "OOiO!i|O", &port, &handle, &direction, &PyList_Type, &items,
                                       &priority, &after))
        return NULL;
    request = request_new(object, port, handle, (uint32_t)PyList_Size(items), priority);
    if (request == NULL)
        return NULL;
    if (npux_py_after_bind(after, object, request) < 0) {
        request_discard(request);
        return NULL;
    }
    for (uint32_t i = 0; i < request->n_ops; i++) {
        PyObject *array, *block;
        Py_ssize_t offset;
        PyObject *item = PyList_GetItem(items, (Py_ssize_t)i);
        if (item == NULL || item_parse(item, &array, &block, &offset) < 0 ||
            fill_op(request->user, &request->ops[i], i, direction == NPUX_D2H ? NPUX_D2H : NPUX_H2D, array,
                    block, offset) < 0) {
            request_discard(request);
            return NULL;
        }
    }
    return request_submit(e, request);
}

static PyObject *engine_after(PyObject *object, PyObject *args)
{
    struct npux_engine *e = engine_get(object);

    return e == NULL ? NULL : npux_py_after_new(object, e, args);
}

/* Never raises: the caller is on its way out, and after close there is nothing left to withdraw. */
static PyObject *engine_withdraw(PyObject *object, PyObject *handle)
{
    struct engine_object *self = (struct engine_object *)object;

    if (!self->closed && self->forks == npux_py_forks())
        npux_engine_withdraw(self->engine, handle);
    Py_RETURN_NONE;
}

static PyObject *engine_report(PyObject *object, PyObject *args)
{
    struct npux_engine *e = engine_get(object);

    return e == NULL ? NULL : npux_py_report(e, args);
}

static PyObject *engine_order_before(PyObject *object, PyObject *args)
{
    struct npux_engine *e = engine_get(object);
    PyObject *handle, *address;
    struct npux_err err;
    void *stream;
    int rc;

    if (e == NULL || !PyArg_ParseTuple(args, "OO", &handle, &address))
        return NULL;
    stream = PyLong_AsVoidPtr(address);
    if (PyErr_Occurred())
        return NULL;
    Py_INCREF(object); /* a close in another thread must not free what we use */
    Py_INCREF(handle); /* nor may another request get this address */
    Py_BEGIN_ALLOW_THREADS rc = npux_engine_order_before(e, handle, stream, &err);
    Py_END_ALLOW_THREADS Py_DECREF(handle);
    Py_DECREF(object);
    if (rc == -ENOTSUP)
        Py_RETURN_FALSE;
    if (rc != 0)
        return npux_py_raise(&err);
    Py_RETURN_TRUE;
}

/* A host block of nbytes from get, called without the GIL. */
static PyObject *host_block(PyObject *object, PyObject *argument,
                            int (*get)(struct npux_engine *, size_t, struct npux_block **, struct npux_err *))
{
    struct npux_engine *e = engine_get(object);
    Py_ssize_t nbytes = PyLong_AsSsize_t(argument);
    struct npux_block *block = NULL;
    struct npux_err err;
    int rc;

    if (e == NULL || (nbytes == -1 && PyErr_Occurred()))
        return NULL;
    if (nbytes < 1) {
        PyErr_Format(PyExc_ValueError, "a block of %zd bytes; at least 1 is needed", nbytes);
        return NULL;
    }
    Py_INCREF(object); /* a close in another thread must not free what we use */
    Py_BEGIN_ALLOW_THREADS rc = get(e, (size_t)nbytes, &block, &err);
    Py_END_ALLOW_THREADS Py_DECREF(object);
    return rc == 0 ? npux_py_block_new(block) : npux_py_raise(&err);
}

static PyObject *engine_pinned(PyObject *object, PyObject *argument)
{
    return host_block(object, argument, npux_engine_get_pinned);
}

static PyObject *engine_result(PyObject *object, PyObject *argument)
{
    return host_block(object, argument, npux_engine_get_result);
}

static PyObject *engine_lend(PyObject *object, PyObject *args)
{
    struct npux_engine *e = engine_get(object);

    return e == NULL ? NULL : npux_py_lend(e, args);
}

static PyObject *engine_wait_room(PyObject *object, PyObject *argument)
{
    struct npux_engine *e = engine_get(object);
    double timeout_s = PyFloat_AsDouble(argument);

    if (e == NULL || (timeout_s == -1.0 && PyErr_Occurred()))
        return NULL;
    if (!(timeout_s >= 0 && timeout_s < 1e6)) {
        PyErr_SetString(PyExc_ValueError, "wait_room(timeout_s): seconds, 0 to 1e6");
        return NULL;
    }
    Py_INCREF(object);
    Py_BEGIN_ALLOW_THREADS npux_engine_wait_room(e, (uint64_t)(timeout_s * 1e9));
    Py_END_ALLOW_THREADS Py_DECREF(object);
    if (PyErr_CheckSignals() < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *engine_close(PyObject *object, PyObject *argument)
{
    struct engine_object *self = (struct engine_object *)object;
    double timeout_s = PyFloat_AsDouble(argument);
    struct npux_close_report report = {0};
    uint64_t timeout_ns = timeout_s > 0 ? FOREVER_NS : 0; /* 0 for NaN too */

    if (timeout_s > 0 && timeout_s < 1e9)
        timeout_ns = (uint64_t)(timeout_s * 1e9);
    if (timeout_s == -1.0 && PyErr_Occurred())
        return NULL;
    if (!self->closed && self->forks == npux_py_forks()) { /* in a forked child there is nothing to close */
        self->closed = true;
        Py_BEGIN_ALLOW_THREADS npux_engine_close(self->engine, timeout_ns, &report);
        Py_END_ALLOW_THREADS npux_py_drain_graveyard();
    }
    return Py_BuildValue("(KnIis)", (unsigned long long)report.n_abandoned, (Py_ssize_t)report.pinned_nbytes,
                         report.n_stuck, report.acl_code, report.acl_call != NULL ? report.acl_call : "");
}

static int add_arena(PyObject *dict, const char *name, const struct npux_arena_stats *stats)
{
    PyObject *value = Py_BuildValue("(nnnn)", (Py_ssize_t)stats->held_nbytes, (Py_ssize_t)stats->used_nbytes,
                                    (Py_ssize_t)stats->peak_nbytes, (Py_ssize_t)stats->n_maps);
    int rc = value == NULL ? -1 : PyDict_SetItemString(dict, name, value);
    Py_XDECREF(value);
    return rc;
}

static int add_direction(PyObject *dict, const char *name, const struct npux_counters *c, int d)
{
    PyObject *value = Py_BuildValue(
        "{sKsKsKsKsKsKsKsKsKsKsKsKsK}", "withdrawn", (unsigned long long)c->withdrawn[d],
        "on_device_transfers", (unsigned long long)c->transfers[d][NPUX_ON_DEVICE], "on_device_nbytes",
        (unsigned long long)c->nbytes[d][NPUX_ON_DEVICE], "sync_transfers",
        (unsigned long long)c->transfers[d][NPUX_SYNC], "sync_nbytes",
        (unsigned long long)c->nbytes[d][NPUX_SYNC], "direct_transfers",
        (unsigned long long)c->transfers[d][NPUX_DIRECT], "direct_nbytes",
        (unsigned long long)c->nbytes[d][NPUX_DIRECT], "staged_transfers",
        (unsigned long long)c->transfers[d][NPUX_STAGED], "staged_nbytes",
        (unsigned long long)c->nbytes[d][NPUX_STAGED], "empty_transfers",
        (unsigned long long)c->transfers[d][NPUX_NOTHING], "failed", (unsigned long long)c->failed[d],
        "copies", (unsigned long long)c->copies[d], "reissued", (unsigned long long)c->reissued[d]);
    int rc = value == NULL ? -1 : PyDict_SetItemString(dict, name, value);
    Py_XDECREF(value);
    return rc;
}

static PyObject *engine_stats(PyObject *object, PyObject *unused)
{
    struct engine_object *self = (struct engine_object *)object;
    struct npux_engine_stats stats;
    PyObject *dict, *value;

    if (in_child(self))
        return NULL;
    npux_engine_stats(self->engine, &stats);
    dict = PyDict_New();
    value = PyLong_FromUnsignedLongLong(stats.n_pending);
    if (dict == NULL || value == NULL || PyDict_SetItemString(dict, "pending", value) < 0 ||
        add_direction(dict, "h2d", &stats.counters, NPUX_H2D) < 0 ||
        add_direction(dict, "d2h", &stats.counters, NPUX_D2H) < 0 ||
        add_arena(dict, "device", &stats.device) < 0 || add_arena(dict, "pinned", &stats.pinned) < 0 ||
        add_arena(dict, "staging_h2d", &stats.staging[NPUX_H2D]) < 0 ||
        add_arena(dict, "staging_d2h", &stats.staging[NPUX_D2H]) < 0 ||
        add_arena(dict, "results", &stats.results) < 0)
        Py_CLEAR(dict);
    Py_XDECREF(value);
    return dict;
}

static PyObject *engine_pending(PyObject *object, void *closure)
{
    struct engine_object *self = (struct engine_object *)object;
    if (self->closed || self->forks != npux_py_forks())
        return PyLong_FromLong(0);
    return PyLong_FromUnsignedLongLong(npux_engine_pending(self->engine));
}

static PyObject *engine_closed(PyObject *object, void *closure)
{
    struct engine_object *self = (struct engine_object *)object;
    return PyBool_FromLong(self->closed || self->forks != npux_py_forks());
}

static PyObject *engine_faults_known(PyObject *object, void *closure)
{
    struct npux_engine *e = engine_get(object);
    return e == NULL ? NULL : PyBool_FromLong(e->runtime->faults_known);
}

static PyMethodDef methods[] = {
    {"submit", (PyCFunction)(void (*)(void))engine_submit, METH_FASTCALL,
     "submit(port, handle, direction, array, block, offset, priority, awaits_end) -> bool\n\n"
     "One transfer: direction 0 to the device, 1 to the host. True when the source is captured."},
    {"submit_many", engine_submit_many, METH_VARARGS,
     "submit_many(port, handle, direction, [array or (array, block, offset), ...], priority) -> bool\n\n"
     "Several transfers as one request with one completion."},
    {"lend", engine_lend, METH_VARARGS,
     "lend(address, nbytes, owner) -> (Block, int)\n\n"
     "A block that stands for device memory of somebody else, who is kept alive by it and by every transfer "
     "on it; and where in the block that memory begins."},
    {"after", engine_after, METH_VARARGS,
     "after(streams, events, handles, deadline_ns) -> Wait\n\nWhat one submit is to wait for, and until "
     "when: on "
     "CLOCK_MONOTONIC, or 0."},
    {"withdraw", engine_withdraw, METH_O,
     "withdraw(handle)\n\nDrops what is not issued of that request; nothing if it is over."},
    {"report", engine_report, METH_VARARGS,
     "report(most, handle) -> tuple[int, list]\n\nWhat is pending, oldest first; None: of every request."},
    {"order_before", engine_order_before, METH_VARARGS,
     "order_before(handle, stream) -> bool\n\nThe stream waits for that request. False: this library "
     "cannot."},
    {"wait_room", engine_wait_room, METH_O,
     "wait_room(timeout_s)\n\nSleeps until there are fewer transfers than now, or close begins."},
    {"pinned", engine_pinned, METH_O, "pinned(nbytes) -> Block\n\nPage-locked host memory."},
    {"result", engine_result, METH_O, "result(nbytes) -> Block\n\nOrdinary host memory for a result."},
    {"stats", engine_stats, METH_NOARGS, "stats() -> dict\n\nCounters and memory, as of now."},
    {"close", engine_close, METH_O,
     "close(timeout_s) -> tuple[int, int, int, int, str]\n\n"
     "Drains and tears down: abandoned transfers, pinned bytes still in use, stuck threads, first error."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"pending", engine_pending, NULL, "Transfers submitted and not finished.", NULL},
    {"closed", engine_closed, NULL,
     "Whether close was called; true in a forked child, where it cannot be used.", NULL},
    {"faults_known", engine_faults_known, NULL, "The runtime reports which asynchronous copy failed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct engine_object, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, engine_new},
    {Py_tp_dealloc, engine_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_members, members},
    {Py_tp_doc, "Engine(library, device, staging_nbytes, chunk_nbytes, inline_nbytes, result_nbytes, "
                "n_lanes, n_stagers, spin_ns, pageable, window_ops,\nwindow_nbytes)\n\nOne device with its "
                "threads and memory."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "npu_xfer._native.Engine",
    .basicsize = sizeof(struct engine_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int npux_py_add_engine(PyObject *module)
{
    npux_py_engine_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (npux_py_engine_type == NULL)
        return -1;
    Py_INCREF(npux_py_engine_type);
    return PyModule_AddObject(module, "Engine", (PyObject *)npux_py_engine_type);
}
