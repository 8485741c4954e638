# Tuples for Python. What holds bytes, numbers and None alone is in no cycle: the collector need not look at it.

from cpython.ref cimport Py_INCREF

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_alloc)(PyTypeObject *, Py_ssize_t)
    object PyTuple_New(Py_ssize_t)
    void PyTuple_SET_ITEM(object, Py_ssize_t, object)
    void PyObject_GC_UnTrack(void *)


cdef inline void put_item(object found, Py_ssize_t index, object item):
    Py_INCREF(item)
    PyTuple_SET_ITEM(found, index, item)


cdef inline object image_of(type kind, bytes row, bytes key, object by):
    # An `EncodedImage`: a subclass of tuple, made without a call of its constructor.
    cdef object found = (<PyTypeObject *> kind).tp_alloc(<PyTypeObject *> kind, 3)
    put_item(found, 0, row)
    put_item(found, 1, key)
    put_item(found, 2, by)
    PyObject_GC_UnTrack(<PyObject *> found)
    return found


cdef inline object pair_of(object before, object after):
    cdef object found = PyTuple_New(2)
    put_item(found, 0, before)
    put_item(found, 1, after)
    PyObject_GC_UnTrack(<PyObject *> found)
    return found


cdef inline object record_of(str op, bytes key, object partition, bytes value):
    cdef object found = PyTuple_New(4)
    put_item(found, 0, op)
    put_item(found, 1, key)
    put_item(found, 2, partition)
    put_item(found, 3, value)
    PyObject_GC_UnTrack(<PyObject *> found)
    return found


cdef inline bytes joined(const Side *side, const Part *parts, uint32_t count, bytes head):
    # Values of the key, or of what chooses the partition, behind `head`; None: a null where none may be.
    cdef Py_ssize_t size = PyBytes_GET_SIZE(head), start
    cdef uint32_t i
    cdef bytes found
    cdef Out w
    for i in range(count):
        start = side.starts[parts[i].index]
        if not parts[i].union_:
            if side.data[start] == 0:
                return None
            start += 1
        size += side.starts[parts[i].index + 1] - start
    found = PyBytes_FromStringAndSize(NULL, size)
    w = put_bytes(<Out> PyBytes_AS_STRING(found), PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head))
    for i in range(count):
        start = side.starts[parts[i].index] + (not parts[i].union_)
        w = put_bytes(w, side.data + start, side.starts[parts[i].index + 1] - start)
    return found
