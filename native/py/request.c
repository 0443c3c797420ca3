/* request.c - Python objects behind a request: buffer exports in, references out. */
#include "py/native.h"

int npux_py_describe(PyObject *object, int writable, Py_buffer *view, struct npux_host *host)
{
    ptrdiff_t shape[64], strides[64];

    if (PyObject_GetBuffer(object, view, writable ? PyBUF_STRIDED : PyBUF_STRIDED_RO) < 0)
        return -1;
    if (PyBuffer_IsContiguous(view, 'C')) {
        host->base = view->buf;
        host->nbytes = (size_t)view->len;
        host->nd = NULL;
        return 0;
    }
    if (view->ndim > 64) {
        PyErr_Format(PyExc_ValueError, "an array of %d dimensions; at most 64 are supported", view->ndim);
        PyBuffer_Release(view);
        return -1;
    }
    for (int i = 0; i < view->ndim; i++) {
        shape[i] = view->shape[i];
        strides[i] = view->strides[i];
    }
    if (npux_host_init(host, view->buf, (size_t)view->itemsize, view->ndim, shape, strides) < 0) {
        PyBuffer_Release(view);
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

int npux_py_describe_device(struct npux_py_request *pr, PyObject *tuple, int direction, struct npux_op *op)
{
    PyObject *object;
    Py_ssize_t offset, nbytes;
    struct npux_block *block;

    if (!PyArg_ParseTuple(tuple, "O!nn", npux_py_block_type, &object, &offset, &nbytes))
        return -1;
    block = npux_py_block_get(object);
    if (direction != NPUX_H2D || npux_block_side(block) != NPUX_DEVICE || offset < 0 || nbytes < 1 ||
        (size_t)offset > block->nbytes || (size_t)nbytes > block->nbytes - (size_t)offset) {
        PyErr_Format(PyExc_ValueError, "%zd bytes at offset %zd are no device memory to copy from", nbytes,
                     offset);
        return -1;
    }
    if (npux_py_request_keep(pr, object) < 0)
        return -1;
    npux_block_ref(block);
    op->from = block;
    op->host.base = block->address + offset;
    op->host.nbytes = (size_t)nbytes;
    return 0;
}

void npux_py_release_captured(struct npux_request *request)
{
    struct npux_py_request *pr = request->user;

    for (uint32_t i = 0; i < pr->n_views; i++)
        if (request->ops[i].direction == NPUX_H2D && request->ops[i].path != NPUX_DIRECT &&
            pr->views[i].obj != NULL)
            PyBuffer_Release(&pr->views[i]);
}

void npux_py_request_free(struct npux_py_request *pr)
{
    for (uint32_t i = 0; i < pr->n_views; i++)
        if (pr->views[i].obj != NULL)
            PyBuffer_Release(&pr->views[i]);
    Py_XDECREF(pr->lent);
    Py_XDECREF(pr->handle);
    Py_XDECREF(pr->engine);
    PyMem_Free(pr);
}
