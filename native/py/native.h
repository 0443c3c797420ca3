/* native.h - what the files of the extension module share. Everything here runs with the GIL held.
 *
 * Threads: Python threads only. Locks: the GIL, above every native lock.
 * Owns:    struct npux_py_request owns the handle, the engine object and the buffer exports of a request.
 * Invariant: Python references are taken at submit and given back while draining a port, never by a native
 *            thread.
 */
#ifndef NPUX_PY_NATIVE_H
#define NPUX_PY_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/engine.h"

/* request->user: one buffer export per op. */
struct npux_py_request {
    PyObject *handle; /* what reap returns with the outcome */
    PyObject *engine; /* keeps the engine while the request is out */
    PyObject *lent;   /* list of the Blocks with an owner among its device memory, or NULL */
    int32_t device;
    uint32_t n_views;
    Py_buffer views[]; /* .obj == NULL once released */
};

extern PyTypeObject *npux_py_engine_type;
extern PyTypeObject *npux_py_port_type;
extern PyTypeObject *npux_py_block_type;
extern PyTypeObject *npux_py_after_type;

int npux_py_add_engine(PyObject *module);
int npux_py_add_port(PyObject *module);
int npux_py_add_block(PyObject *module);
int npux_py_add_tensor(PyObject *module);
int npux_py_add_after(PyObject *module);

/* How many forks lie between this process and the one that loaded the module. */
int npux_py_forks(void);

/* The one place where exceptions are made. details says what failed; nbytes and stream are -1 when they do
 * not apply. Returns a new exception object, or NULL with another exception set. */
PyObject *npux_py_make_error(const struct npux_err *err, const char *direction, Py_ssize_t nbytes,
                             int32_t stream, int32_t device);
/* Makes it and raises it; returns NULL. */
PyObject *npux_py_raise(const struct npux_err *err);
PyObject *npux_py_set_error_factory(PyObject *module, PyObject *factory);

/* A Block object that takes over one reference to the block. */
PyObject *npux_py_block_new(struct npux_block *block);
/* The block of a Block object, borrowed. */
struct npux_block *npux_py_block_get(PyObject *object);
/* What Engine.lend does. */
PyObject *npux_py_lend(struct npux_engine *e, PyObject *args);
/* Keeps the Block object, if it has an owner, until the request is freed. 0 or -1. */
int npux_py_request_keep(struct npux_py_request *pr, PyObject *block_object);
/* The port of a Port object, borrowed. */
struct npux_port *npux_py_port_get(PyObject *object);

/* Functions of the module, see there. */
PyObject *npux_py_open_capsule(PyObject *module, PyObject *capsule);
PyObject *npux_py_make_capsule(PyObject *module, PyObject *args);

/* What Engine.after does: (streams, events, handles), lists of addresses and of the handles of requests. */
PyObject *npux_py_after_new(PyObject *engine_object, struct npux_engine *e, PyObject *args);
/* Gives the request a reference to what a Wait object stands for, unless that is None. 0 or -1. */
int npux_py_after_bind(PyObject *object, PyObject *engine_object, struct npux_request *request);

/* npux_engine_flush of an Engine object. */
void npux_py_engine_flush(PyObject *object);

/* Fills op->host from an object's buffer and keeps the export in *view. writable: for D2H. 0 or -1. */
int npux_py_describe(PyObject *object, int writable, Py_buffer *view, struct npux_host *host);

/* The same for a source in device memory: a tuple (Block, offset, nbytes). Fills op->from too. */
int npux_py_describe_device(struct npux_py_request *pr, PyObject *tuple, int direction, struct npux_op *op);

/* Lets go of what arrived for ports that nobody drains any more. */
void npux_py_drain_graveyard(void);

/* Lets go of everything Python that the request holds, and of the struct itself. */
void npux_py_request_free(struct npux_py_request *pr);
/* Lets go of the exports of sources that were captured into staging memory. */
void npux_py_release_captured(struct npux_request *request);

/* What is pending, see core/report.h; args: most rows, handle or None. */
PyObject *npux_py_report(struct npux_engine *e, PyObject *args);

#endif
