# What a stored row brings to outputs: `join.avro_rows._Plan`. A stored row is its version (8 bytes), the id of its schema
# (4 bytes), then its body; a key begins with five bytes of its own.

DEF HEAD = 12
DEF KEY_HEAD = 5


class Unread(Exception):
    """For the Python way, which says what is wrong."""


cdef class Cut:
    """Fields from `place` up to `until` of a row or of its key, with a head of their own for each branch of a union."""

    cdef bint of_key, union
    cdef Py_ssize_t place, until
    cdef list heads
    cdef bytes constant

    def __init__(self, bint of_key, Py_ssize_t place, Py_ssize_t until, bint union, list heads, bytes constant):
        self.of_key, self.place, self.until, self.union = of_key, place, until, union
        self.heads, self.constant = heads, constant

    cdef bytes of(self, bytes kept, const Step *rows, bytes key, const Step *keys):
        cdef const Step *step = keys if self.of_key else rows
        cdef bytes data = key if self.of_key else kept
        cdef Py_ssize_t begin, end, branch = 0
        if self.constant is not None:
            return self.constant
        begin, end = step.marks[self.place], step.marks[self.until]
        if self.heads is not None:
            if self.union:
                branch = <uint8_t> PyBytes_AS_STRING(data)[begin] >> 1
                begin += 1
            head = self.heads[branch] if branch < len(self.heads) else None
            if head is None:
                raise Unread
            if head:
                return head + PyBytes_FromStringAndSize(PyBytes_AS_STRING(data) + begin, end - begin)
        return PyBytes_FromStringAndSize(PyBytes_AS_STRING(data) + begin, end - begin)


cdef class Entry:
    """`join.algorithm.row.Entry`."""

    cdef object version
    cdef bytes key
    cdef tuple group
    cdef bytes part


cdef class Projector:
    """Rows of one schema under keys of one schema."""

    cdef Fields rows, keys
    cdef list shown, grouped, where, joined

    def __init__(self, list rows not None, list keys not None, list shown not None, list grouped not None,
                 list where not None, list joined):
        self.rows, self.keys = Fields(rows), Fields(keys)
        self.shown, self.grouped, self.where, self.joined = shown, grouped, where, joined

    def join_key(self, bytes key not None, bytes body not None):
        cdef const Step *rows
        cdef const Step *keys
        cdef bytes value
        cdef list values = []
        if self.joined is None or PyBytes_GET_SIZE(key) < KEY_HEAD:
            return NotImplemented
        rows = self.rows._walked(body, 0, PyBytes_GET_SIZE(body))
        keys = self.keys._walked(key, KEY_HEAD, PyBytes_GET_SIZE(key))
        if rows == NULL or keys == NULL:
            return NotImplemented
        try:
            for each in self.joined:
                value = (<Cut> each).of(body, rows, key, keys)
                if value == b"\x00":
                    return None
                values.append(value[1:])
        except Unread:
            return NotImplemented
        return values[0] if len(values) == 1 else b"".join(values)

    cdef Entry entry(self, bytes key, bytes kept):
        # None: `where` leaves it out.
        cdef const Step *rows = self.rows._walked(kept, HEAD, PyBytes_GET_SIZE(kept))
        cdef const Step *keys = self.keys._walked(key, KEY_HEAD, PyBytes_GET_SIZE(key))
        cdef Entry made
        cdef Cut cut
        if rows == NULL or keys == NULL:
            raise Unread
        for cut, wanted in self.where:
            if cut.of(kept, rows, key, keys) not in wanted:
                return None
        made = Entry.__new__(Entry)
        made.version, made.key = version_of(kept), key
        made.group = tuple([(<Cut> each).of(kept, rows, key, keys) for each in self.grouped])
        if len(self.shown) == 1:
            made.part = (<Cut> self.shown[0]).of(kept, rows, key, keys)
        else:
            made.part = b"".join([(<Cut> each).of(kept, rows, key, keys) for each in self.shown])
        return made


cdef inline uint64_t version_of(bytes kept):
    cdef In r = <In> PyBytes_AS_STRING(kept)
    cdef uint64_t found = 0
    cdef int i
    for i in range(8):
        found = found << 8 | r[i]
    return found
