# One schema's values as canonical JSON, as the text of a key, or as the parts of a change.


cdef struct Entry:
    # A map's entry: its key, and where `"key":value` stands.
    In key
    size_t size, begin, stop


cdef int by_key(const void *one, const void *other) noexcept nogil:
    cdef const Entry *a = <const Entry *> one
    cdef const Entry *b = <const Entry *> other
    cdef int found = memcmp(a.key, b.key, min(a.size, b.size))
    return found if found else (a.size > b.size) - (a.size < b.size)


cdef class Program(Steps):
    """See `_avro_json.pyi`."""

    cdef list labels
    cdef Bytes out
    cdef bint busy
    # What is left of the values without bytes that a record may have.
    cdef int64_t empties

    def __cinit__(self, list steps not None):
        self.out, self.busy, self.labels = Bytes(), False, []
        for told in steps:
            for label in told[4]:
                if not isinstance(label, bytes):
                    raise TypeError("a label that is no bytes")
            self.labels.append(list(told[4]))

    def json(self, bytes wire not None):
        if self.busy:
            return None
        self.busy = True
        try:
            return self.out.taken() if self._whole(wire) else None
        finally:
            self.out.empty()
            self.busy = False

    cdef bint _whole(self, bytes wire) except -1:
        cdef In end = <In> PyBytes_AS_STRING(wire) + PyBytes_GET_SIZE(wire)
        cdef In r
        if PyBytes_GET_SIZE(wire) < 5 or PyBytes_AS_STRING(wire)[0] != 0:
            return False
        self.empties = MOST_EMPTY
        r = self._value(self.count - 1, <In> PyBytes_AS_STRING(wire) + 5, end)
        return r != NULL and r == end

    cdef In _value(self, uint32_t index, In r, In end) except? NULL:
        cdef const Step *step = &self.steps[index]
        cdef int64_t value
        cdef Bytes out = self.out
        if step.code == UNION:
            r = varint(r, end, &value)
            if r == NULL or not 0 <= value < step.count:
                return NULL
            return self._value(step.children[value], r, end)
        if step.code == STRING:
            r = sized(r, end, 0, &value)
            if r == NULL or not out.text(r, value):
                return NULL
            return r + value
        if step.code == NULL_:
            out.reserve(8)
            out.raw(b"null", 4)
            return r
        if step.code == INT or step.code == LONG:
            r = varint(r, end, &value)
            if r == NULL or (step.code == INT and value != <int64_t> <int> value):
                return NULL
            out.reserve(24)
            out.number(value)
            return r
        if step.code == RECORD:
            return self._record(step, self.labels[index], r, end)
        if step.code == ARRAY:
            return self._array(step, r, end)
        if step.code == MAP:
            return self._map(step, r, end)
        if step.code == BOOLEAN:
            if r == end or r[0] > 1:
                return NULL
            out.reserve(8)
            out.raw(b"true" if r[0] else b"false", 4 if r[0] else 5)
            return r + 1
        if step.code == ENUM:
            r = varint(r, end, &value)
            if r == NULL or not 0 <= value < step.count:
                return NULL
            out.label(<bytes> (<list> self.labels[index])[value])
            return r
        if step.code == DECIMAL:
            return put_decimal(out, step, r, end, True)
        if step.code == FLOAT or step.code == DOUBLE:
            return put_double(out, step, r, end)
        if step.code == UUID:
            return put_uuid(out, r, end, True)
        if step.code == BYTES:
            r = sized(r, end, step.a, &value)
            if r == NULL:
                return NULL
            out.base64(r, value)
            return r + value
        return put_temporal(out, step, r, end)

    cdef In _record(self, const Step *step, list labels, In r, In end) except? NULL:
        cdef Bytes out = self.out
        cdef size_t begin = out.at, size = 2, stop
        cdef uint32_t i, field
        out.reserve(8)
        if not step.count:
            out.raw(b"{}", 2)
            return r
        if step.sorted:
            for i in range(step.count):
                out.reserve(8)
                out.byte(44 if i else 123)
                out.label(<bytes> labels[i])
                r = self._value(step.children[i], r, end)
                if r == NULL:
                    return NULL
            out.reserve(8)
            out.byte(125)
            return r
        # Values as they come, then labels and values in order behind them, then these to the front.
        for i in range(step.count):
            step.marks[i] = out.at
            r = self._value(step.children[i], r, end)
            if r == NULL:
                return NULL
            size += PyBytes_GET_SIZE(<bytes> labels[i]) + 1
        stop = step.marks[step.count] = out.at
        out.reserve(stop - begin + size)
        for i in range(step.count):
            field = step.order[i]
            out.byte(44 if i else 123)
            out.label(<bytes> labels[field])
            out.raw(out.data + step.marks[field], step.marks[field + 1] - step.marks[field])
        out.byte(125)
        memmove(out.data + begin, out.data + stop, out.at - stop)
        out.at -= stop - begin
        return r

    cdef In _block(self, const Step *step, In r, In end, uint64_t least, int64_t *count) noexcept:
        # How many items come; more than bytes can hold, and more without bytes than there may be, are Python's.
        cdef int64_t size
        r = block(r, end, count, &size)
        if r != NULL and step.b:
            if count[0] > self.empties // step.b:
                return NULL
            self.empties -= count[0] * step.b
        return NULL if r != NULL and least and count[0] > end - r else r

    cdef In _array(self, const Step *step, In r, In end) except? NULL:
        cdef Bytes out = self.out
        cdef int64_t count = 0
        cdef bint first = True
        out.reserve(8)
        out.byte(91)
        while True:
            r = self._block(step, r, end, self.steps[step.children[0]].least, &count)
            if r == NULL:
                return NULL
            if not count:
                break
            while count:
                count -= 1
                out.reserve(8)
                if not first:
                    out.byte(44)
                first = False
                r = self._value(step.children[0], r, end)
                if r == NULL:
                    return NULL
        out.reserve(8)
        out.byte(93)
        return r

    cdef In _map(self, const Step *step, In r, In end) except? NULL:
        cdef Bytes out = self.out
        cdef Entry *entries = NULL
        cdef Entry *more
        cdef size_t used = 0, room = 0, begin = out.at, stop, i
        cdef int64_t count = 0, size
        try:
            while True:
                r = self._block(step, r, end, 1, &count)
                if r == NULL:
                    return NULL
                if not count:
                    break
                while count:
                    count -= 1
                    r = sized(r, end, 0, &size)
                    if r == NULL:
                        return NULL
                    if used == room:
                        room = 2 * room + 8
                        more = <Entry *> realloc(entries, room * sizeof(Entry))
                        if more == NULL:
                            raise MemoryError
                        entries = more
                    entries[used].key, entries[used].size, entries[used].begin = r, size, out.at
                    if not out.text(r, size):
                        return NULL
                    out.reserve(8)
                    out.byte(58)
                    r = self._value(step.children[0], r + size, end)
                    if r == NULL:
                        return NULL
                    entries[used].stop = out.at
                    used += 1
            stop = out.at
            out.reserve(stop - begin + used + 8)
            out.byte(123)
            if used:
                qsort(entries, used, sizeof(Entry), by_key)
            for i in range(used):
                if i:
                    # The last of equal keys would win: Python's work.
                    if not by_key(&entries[i - 1], &entries[i]):
                        return NULL
                    out.byte(44)
                out.raw(out.data + entries[i].begin, entries[i].stop - entries[i].begin)
            out.byte(125)
            memmove(out.data + begin, out.data + stop, out.at - stop)
            out.at -= stop - begin
            return r
        finally:
            free(entries)

    def doc_id(self, bytes wire not None):
        if self.busy:
            return None
        self.busy = True
        try:
            if not key_text(self, wire) or not 0 < self.out.at <= 512:
                return None
            return PyUnicode_DecodeUTF8(<const char *> self.out.data, self.out.at, "strict")
        except UnicodeDecodeError:
            return None
        finally:
            self.out.empty()
            self.busy = False

    def change(self, bytes wire not None, tuple places not None):
        if self.busy or self.steps[self.count - 1].code != RECORD:
            return None
        self.busy = True
        try:
            return change_of(self, wire, places[0], places[1], places[2])
        finally:
            self.out.empty()
            self.busy = False
