/* report.c - the report of pending transfers as Python values. */
#include "core/report.h"
#include "py/native.h"

#include <stdlib.h>

enum { MOST_ROWS = 10000 };

static PyObject *row_value(const struct npux_report_row *r)
{
    return Py_BuildValue("(iiiinndOi)", (int)r->direction, (int)r->path, (int)r->priority, (int)r->stage,
                         (Py_ssize_t)r->nbytes, (Py_ssize_t)r->planned, (double)r->age_ns * 1e-9,
                         r->withdrawn ? Py_True : Py_False, (int)r->stream);
}

PyObject *npux_py_report(struct npux_engine *e, PyObject *args)
{
    PyObject *handle = Py_None, *list;
    struct npux_report_row *rows;
    int most;
    size_t n, n_filled;

    if (!PyArg_ParseTuple(args, "iO", &most, &handle))
        return NULL;
    if (most < 1 || most > MOST_ROWS) {
        PyErr_Format(PyExc_ValueError, "report: %d rows; accepted: 1 to %d", most, MOST_ROWS);
        return NULL;
    }
    rows = calloc((size_t)most, sizeof(*rows));
    if (rows == NULL)
        return PyErr_NoMemory();
    n = npux_engine_report(e, handle == Py_None ? NULL : handle, rows, (size_t)most);
    n_filled = n < (size_t)most ? n : (size_t)most;
    list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < n_filled; i++) {
        PyObject *value = row_value(&rows[i]);
        if (value == NULL || PyList_Append(list, value) < 0)
            Py_CLEAR(list);
        Py_XDECREF(value);
    }
    free(rows);
    return list == NULL ? NULL : Py_BuildValue("(nN)", (Py_ssize_t)n, list);
}
