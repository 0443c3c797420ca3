/* module.c - the extension module: symbols, forks, errors. */
#include "py/native.h"

#include <pthread.h>

static int n_forks;
static PyObject *error_factory;

static void after_fork_in_child(void)
{
    n_forks++;
}

int npux_py_forks(void)
{
    return n_forks;
}

PyObject *npux_py_set_error_factory(PyObject *module, PyObject *factory)
{
    PyObject *old = error_factory;

    Py_INCREF(factory);
    error_factory = factory;
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

PyObject *npux_py_make_error(const struct npux_err *err, const char *direction, Py_ssize_t nbytes,
                             int32_t stream, int32_t device)
{
    PyObject *text, *made;

    if (error_factory == NULL) {
        PyErr_SetString(PyExc_SystemError, "npu_xfer._native has no error factory");
        return NULL;
    }
    /* The runtime's text is in no promised encoding. */
    text = PyUnicode_DecodeUTF8(err->text, (Py_ssize_t)strlen(err->text), "replace");
    if (text == NULL)
        return NULL;
    made = PyObject_CallFunction(error_factory, "iisOznii", err->status, err->acl_code,
                                 err->call != NULL ? err->call : "", text, direction, nbytes, stream, device);
    Py_DECREF(text);
    return made;
}

PyObject *npux_py_raise(const struct npux_err *err)
{
    PyObject *error = npux_py_make_error(err, NULL, -1, -1, -1);

    if (error != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        Py_DECREF(error);
    }
    return NULL;
}

static PyObject *symbols(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New((Py_ssize_t)npux_n_symbols);

    for (size_t i = 0; list != NULL && i < npux_n_symbols; i++) {
        const struct npux_symbol *s = &npux_symbols[i];
        PyObject *row = Py_BuildValue("(sOsss)", s->name, s->need == NPUX_MUST ? Py_True : Py_False, s->since,
                                      s->result, s->parameters);
        if (row == NULL)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, (Py_ssize_t)i, row);
    }
    return list;
}

static PyMethodDef methods[] = {
    {"symbols", symbols, METH_NOARGS,
     "symbols() -> list[tuple[str, bool, str, str, str]]\n\n"
     "The ACL functions of the loader: name, required, first CANN release, result, parameters."},
    {"set_error_factory", npux_py_set_error_factory, METH_O,
     "set_error_factory(factory)\n\nThe callable that turns a native error into an exception."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_doc = "The transfer engine of npu_xfer. Private: use npu_xfer.Scheduler.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *module = PyModule_Create(&definition);

    if (module == NULL)
        return NULL;
    if (npux_py_add_engine(module) < 0 || npux_py_add_port(module) < 0 || npux_py_add_block(module) < 0 ||
        npux_py_add_after(module) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    pthread_atfork(NULL, NULL, after_fork_in_child);
    return module;
}
