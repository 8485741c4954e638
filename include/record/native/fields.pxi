# Where a record's fields are: values are passed over, never read.


# What is left of the values without bytes that a record may have. Nobody gives the interpreter's lock away while one is
# walked over.
cdef int64_t empties_left = MOST_EMPTY


cdef In passed(const Step *steps, uint32_t index, In r, In end) noexcept nogil:
    # Behind the value; steps are no deeper than `program.py` lets them be.
    cdef const Step *step = &steps[index]
    cdef int64_t value = 0
    cdef uint32_t i
    if step.code == UNION:
        r = varint(r, end, &value)
        if r == NULL or not 0 <= value < step.count:
            return NULL
        return passed(steps, step.children[value], r, end)
    if step.code == STRING or step.code == UUID:
        r = sized(r, end, 0, &value)
        return r + value if r != NULL and is_utf8(r, value) else NULL
    if step.code == NULL_:
        return r
    if step.code == LONG or step.code == TIMESTAMP:
        return varint(r, end, &value)
    if step.code == INT or step.code == DATE:
        r = varint(r, end, &value)
        return r if r != NULL and value == <int64_t> <int> value else NULL
    if step.code == TIME:
        # Milliseconds are an int.
        r = varint(r, end, &value)
        return r if r != NULL and (step.a == 1 or value == <int64_t> <int> value) else NULL
    if step.code == RECORD:
        for i in range(step.count):
            r = passed(steps, step.children[i], r, end)
            if r == NULL:
                return NULL
        return r
    if step.code == BYTES or step.code == DECIMAL:
        r = sized(r, end, step.a, &value)
        return r + value if r != NULL else NULL
    if step.code == ENUM:
        r = varint(r, end, &value)
        return r if r != NULL and 0 <= value < step.count else NULL
    if step.code == BOOLEAN:
        return r + 1 if r < end and r[0] <= 1 else NULL
    if step.code == FLOAT or step.code == DOUBLE:
        value = 4 if step.code == FLOAT else 8
        return r + value if value <= end - r else NULL
    return items_passed(steps, step, r, end)


cdef In items_passed(const Step *steps, const Step *step, In r, In end) noexcept nogil:
    global empties_left
    cdef int64_t count = 0, size, key
    cdef In begin
    while True:
        r = block(r, end, &count, &size)
        if r == NULL or not count:
            return r
        begin = r
        if step.b:
            if count > empties_left // step.b:
                return NULL
            empties_left -= count * step.b
            if step.code == ARRAY and not steps[step.children[0]].least:
                # Each is the same nothing.
                count = 0
        if count > end - r:
            return NULL
        while count:
            count -= 1
            if step.code == MAP:
                r = sized(r, end, 0, &key)
                if r == NULL or not is_utf8(r, key):
                    return NULL
                r += key
            r = passed(steps, step.children[0], r, end)
            if r == NULL:
                return NULL
        if size >= 0 and r - begin != size:
            return NULL


cdef class Fields(Steps):
    """See `_avro.pyi`."""

    def __init__(self, list steps):
        if self.steps[self.count - 1].code != RECORD:
            raise ValueError("fields of what is no record")

    cdef const Step *_walked(self, bytes data, Py_ssize_t begin, Py_ssize_t end) noexcept:
        # The record's step, with where each field begins and the last one ends; NULL: no such record.
        cdef const Step *step = &self.steps[self.count - 1]
        cdef In whole = <In> PyBytes_AS_STRING(data)
        cdef In r = whole + begin
        cdef uint32_t i
        global empties_left
        empties_left = MOST_EMPTY
        if not 0 <= begin <= end <= PyBytes_GET_SIZE(data):
            return NULL
        for i in range(step.count):
            step.marks[i] = r - whole
            r = passed(self.steps, step.children[i], r, whole + end)
            if r == NULL:
                return NULL
        step.marks[step.count] = r - whole
        return step if r == whole + end else NULL

    def borders(self, bytes data not None, Py_ssize_t begin, Py_ssize_t end):
        cdef const Step *step = self._walked(data, begin, end)
        cdef uint32_t i
        return None if step == NULL else tuple([step.marks[i] for i in range(step.count + 1)])

    def cut(self, bytes data not None, tuple places not None, Py_ssize_t begin, Py_ssize_t end):
        cdef const Step *step = self._walked(data, begin, end)
        cdef list out = []
        cdef Py_ssize_t place
        if step == NULL:
            return None
        for each in places:
            place = each
            if not 0 <= place < step.count:
                raise IndexError("a record has no such field")
            out.append(self._between(data, step.marks[place], step.marks[place + 1]))
        return tuple(out)

    def images(self, bytes data not None, tuple places not None, Py_ssize_t begin):
        cdef const Step *step = self._walked(data, begin, PyBytes_GET_SIZE(data))
        cdef int64_t op, before, after, size
        cdef In r
        op, before, after = places
        if step == NULL or not (0 <= op < step.count and before < <int64_t> step.count and 0 <= after < step.count):
            return None
        if self.steps[step.children[op]].code != STRING:
            return None
        r = sized(<In> PyBytes_AS_STRING(data) + step.marks[op], <In> PyBytes_AS_STRING(data) + step.marks[op + 1],
                  0, &size)
        old = None if before < 0 else self._image(data, step, before)
        return (<const char *> r)[:size].decode("utf-8"), old, self._image(data, step, after)

    cdef Py_ssize_t _image_at(self, bytes data, const Step *record, int64_t place) noexcept:
        # Where the field's record begins, behind its branch; -1 where that is null. A walk has been over all of it.
        cdef const Step *step = &self.steps[record.children[place]]
        cdef In whole = <In> PyBytes_AS_STRING(data)
        cdef In r = whole + record.marks[place]
        cdef int64_t branch
        if step.code == UNION:
            r = varint(r, whole + record.marks[place + 1], &branch)
            if self.steps[step.children[branch]].code == NULL_:
                return -1
        return r - whole

    cdef bytes _image(self, bytes data, const Step *record, int64_t place):
        cdef Py_ssize_t begin = self._image_at(data, record, place)
        return None if begin < 0 else self._between(data, begin, record.marks[place + 1])

    cdef inline bytes _between(self, bytes data, Py_ssize_t begin, Py_ssize_t end):
        return PyBytes_FromStringAndSize(PyBytes_AS_STRING(data) + begin, end - begin)
