# Python objects without a call: instances of classes with slots, tuples.

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF

cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_alloc)(PyTypeObject *, Py_ssize_t)
    void PyObject_GC_UnTrack(void *)
    object PyTuple_New(Py_ssize_t)
    void PyTuple_SET_ITEM(object, Py_ssize_t, object)
    Py_ssize_t PyList_GET_SIZE(object)


cdef class Slots:
    """Makes objects of a class whose instances are their slots, without a call of its constructor."""

    cdef type kind
    cdef Py_ssize_t offsets[8]

    def __cinit__(self, type kind, tuple names):
        cdef Py_ssize_t i
        if len(names) > 8 or kind.__dictoffset__ or kind.__basicsize__ != 16 + 8 * len(names):
            raise ValueError(f"{kind.__name__} has other slots than {names}")
        self.kind = kind
        for i in range(len(names)):
            member = kind.__dict__[names[i]]
            if type(member).__name__ != "member_descriptor":
                raise ValueError(f"{names[i]} of {kind.__name__} is no slot")
            self.offsets[i] = (<PyMemberDescrObject *> member).d_member.offset

    cdef inline object make(self):
        # What it holds is in no cycle with it: the collector need not look at it.
        cdef object found = (<PyTypeObject *> self.kind).tp_alloc(<PyTypeObject *> self.kind, 0)
        PyObject_GC_UnTrack(<PyObject *> found)
        return found

    cdef inline void put(self, object made, int slot, object value):
        Py_INCREF(value)
        (<PyObject **> (<char *> <PyObject *> made + self.offsets[slot]))[0] = <PyObject *> value


cdef object tuple_of(list items):
    # Of objects that are in no cycle, so that the collector need not look at it.
    cdef object found = PyTuple_New(PyList_GET_SIZE(items)), item
    cdef Py_ssize_t i
    for i in range(PyList_GET_SIZE(items)):
        item = items[i]
        Py_INCREF(item)
        PyTuple_SET_ITEM(found, i, item)
    if PyList_GET_SIZE(items):
        PyObject_GC_UnTrack(<PyObject *> found)
    return found
