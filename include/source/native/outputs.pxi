# Records as what a group holds of them (`group.OutgoingRecord`), numbered on.


cdef inline object output_of(type kind, str topic, object key, object value, object version, object partition):
    # A subclass of tuple, made without a call of its constructor.
    cdef object found = (<PyTypeObject *> kind).tp_alloc(<PyTypeObject *> kind, 5)
    put_item(found, 0, topic)
    put_item(found, 1, key)
    put_item(found, 2, value)
    put_item(found, 3, version)
    put_item(found, 4, partition)
    PyObject_GC_UnTrack(<PyObject *> found)
    return found


cdef class Numbered:
    # Gives the outputs of one topic their versions, one after another; `largest`: bytes of key and value.
    cdef type kind
    cdef str topic
    cdef int64_t version, size, largest

    cdef put(self, list found, char op, bytes key, bytes value, uint32_t partition):
        cdef object number, by = partition
        self.version += 1
        self.size += PyBytes_GET_SIZE(value)
        self.largest = max(self.largest, PyBytes_GET_SIZE(key) + PyBytes_GET_SIZE(value))
        number = self.version
        found.append(output_of(self.kind, self.topic, key, value, number, by))
        if op == b"d":
            found.append(output_of(self.kind, self.topic, key, None, number, by))


def outputs_of(list records not None, str topic not None, int64_t version, type kind not None):
    cdef list found = []
    cdef object record, number, key, partition, op
    cdef bytes value
    cdef int64_t size = 0
    cdef Py_ssize_t at
    if not issubclass(kind, tuple):
        raise TypeError("an output is a tuple")
    for record in records:
        if not PyTuple_Check(record) or not 3 <= PyTuple_GET_SIZE(record) <= 4:
            raise TypeError("a record is a tuple of three, or of four with its operation")
        at = PyTuple_GET_SIZE(record) - 3
        op = <object> PyTuple_GET_ITEM(record, 0) if at else None
        key, partition = <object> PyTuple_GET_ITEM(record, at), <object> PyTuple_GET_ITEM(record, at + 1)
        value = <object> PyTuple_GET_ITEM(record, at + 2)
        if value is None:
            raise TypeError("a record has a value")
        version += 1
        number = version
        size += PyBytes_GET_SIZE(value)
        found.append(output_of(kind, topic, key, value, number, partition))
        if at and <str?> op == "d":
            found.append(output_of(kind, topic, key, None, number, partition))
    return found, version, size
