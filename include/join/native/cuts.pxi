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


cdef class JoinKey:
    """Its fields in rows of one schema under keys of one schema; without `rows`, in the keys alone."""

    cdef Fields rows, keys
    cdef list cuts

    def __init__(self, list rows, list keys not None, list cuts not None):
        self.rows = None if rows is None else Fields(rows)
        self.keys, self.cuts = Fields(keys), cuts

    cdef bytes of(self, bytes key, bytes data, Py_ssize_t begin, Py_ssize_t end):
        # Of the row in `data[begin:end]`; None: one of its fields is null.
        cdef const Step *rows = NULL
        cdef const Step *keys
        cdef bytes value
        cdef list values = []
        if PyBytes_GET_SIZE(key) < KEY_HEAD:
            raise Unread
        keys = self.keys._walked(key, KEY_HEAD, PyBytes_GET_SIZE(key))
        if self.rows is not None:
            rows = self.rows._walked(data, begin, end)
        if keys == NULL or (rows == NULL and self.rows is not None):
            raise Unread
        for each in self.cuts:
            value = (<Cut> each).of(data, rows, key, keys)
            if value == b"\x00":
                return None
            values.append(value[1:])
        return values[0] if len(values) == 1 else b"".join(values)

    def values(self, bytes key not None, bytes body not None):
        try:
            return self.of(key, body, 0, PyBytes_GET_SIZE(body))
        except Unread:
            return NotImplemented


cdef class Projector:
    """Rows of one schema under keys of one schema."""

    cdef Fields rows, keys
    cdef list shown, grouped, where

    def __init__(self, list rows not None, list keys not None, list shown not None, list grouped not None,
                 list where not None):
        self.rows, self.keys = Fields(rows), Fields(keys)
        self.shown, self.grouped, self.where = shown, grouped, where

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
