# An event as images, and as records.

cdef inline char op_letter(str op) except? 0:
    return b"u" if op == "u" else b"c" if op == "c" else b"d"


cdef inline str op_text(char op):
    return "u" if op == b"u" else "c" if op == b"c" else "d"


cdef inline Out put_all(Out w, bytes data):
    return put_bytes(w, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef class Decoder(Program):
    """Reads events; see `_decoder.pyi`."""

    def rows(self, str op, bytes body not None):
        cdef list found = []
        if self.busy:
            return None
        self.busy = True
        try:
            return found if self._rows(op, body, found) else None
        finally:
            self.busy = False

    cdef bint _rows(self, str op, bytes body, list found) except -1:
        cdef In end = <In> PyBytes_AS_STRING(body) + PyBytes_GET_SIZE(body)
        cdef bint both = op == "u", create = op == "c"
        cdef In place = self.begin(<In> PyBytes_AS_STRING(body), end, 2 if both else 1)
        cdef object before, after
        if place == NULL:
            return False
        while place < end:
            if not self.read(&self.sides[0], &place, end):
                return False
            before = self.image(&self.sides[0])
            if before is None:
                return False
            if both:
                if not self.read(&self.sides[1], &place, end):
                    return False
                after = self.image(&self.sides[1])
                if after is None:
                    return False
                found.append(pair_of(before, after))
            else:
                found.append(pair_of(None, before) if create else pair_of(before, None))
        return True

    def records(self, str op, bytes body not None, Envelope envelope not None, tuple parts not None, int64_t row,
                int64_t of_table):
        cdef list found = []
        cdef int64_t rows
        if self.busy:
            return None
        self.busy = True
        try:
            envelope.share(parts)
            rows = self._records(op_letter(op), <In> PyBytes_AS_STRING(body),
                                 <In> PyBytes_AS_STRING(body) + PyBytes_GET_SIZE(body), envelope, None, row, of_table,
                                 found)
            return None if rows < 0 else (found, rows)
        finally:
            self.busy = False

    cdef int64_t _records(self, char op, In place, In end, Envelope envelope, Numbered numbered, int64_t row,
                          int64_t of_table, list found) except -2:
        # How many rows there are; -1: to be handed over. Records, or outputs where they are numbered.
        cdef bint both = op == b"u", create = op == b"c"
        cdef Side *old = &self.sides[0]
        cdef Side *new = &self.sides[1] if both else old
        cdef bytes key, by, old_key, old_by
        cdef int64_t first = row
        place = self.begin(place, end, 2 if both else 1)
        if place == NULL:
            return -1
        while place < end:
            if not self.read(old, &place, end) or (both and not self.read(new, &place, end)):
                return -1
            key = joined(new, self.keys, self.key_count, envelope.key_head)
            by = self._by(new, key)
            if key is None or by is None:
                return -1
            if both:
                old_key = joined(old, self.keys, self.key_count, envelope.key_head)
                old_by = self._by(old, old_key)
                if old_key is None or old_by is None:
                    return -1
                if old_key != key or old_by != by:
                    envelope.put(found, numbered, b"d", old_key, old_by, old, NULL, row, of_table)
                    envelope.put(found, numbered, b"c", key, by, NULL, new, row, of_table)
                else:
                    envelope.put(found, numbered, b"u", key, by, old, new, row, of_table)
            elif create:
                envelope.put(found, numbered, b"c", key, by, NULL, new, row, of_table)
            else:
                envelope.put(found, numbered, b"d", key, by, old, NULL, row, of_table)
            row += 1
            of_table += 1
        return row - first

    cdef bytes _by(self, const Side *side, bytes key):
        # What chooses the partition: the columns declared, else the key.
        if not self.by_count or key is None:
            return key
        return joined(side, self.keys + self.key_count, self.by_count, b"")


cdef struct Piece:
    const void *data
    Py_ssize_t size


cdef inline Out put_piece(Out w, const Piece *piece) noexcept nogil:
    return put_bytes(w, piece.data, piece.size)


cdef inline Piece piece_of(bytes data) noexcept:
    return piece_at(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef inline Piece piece_at(const void *data, Py_ssize_t size) noexcept nogil:
    cdef Piece piece
    piece.data, piece.size = data, size
    return piece


cdef class Envelope:
    """What the envelopes of one table share; see `_decoder.pyi`."""

    cdef bytes key_head, value_head
    cdef tuple parts
    cdef Piece middle, thread, made, transaction    # of size 0 without one
    cdef uint32_t partitions

    def __cinit__(self, bytes key_head not None, bytes value_head not None, uint32_t partitions):
        if not partitions:
            raise ValueError("a topic without partitions")
        self.key_head, self.value_head, self.partitions = key_head, value_head, partitions

    cdef share(self, tuple parts):
        # What the next records have in common; it is kept as long as they need it.
        middle, thread, made, transaction = parts
        if middle is None or thread is None or made is None:
            raise TypeError("an envelope without its parts")
        self.parts = parts
        self.middle, self.thread, self.made = piece_of(middle), piece_of(thread), piece_of(made)
        self.transaction = piece_of(b"" if transaction is None else transaction)

    cdef put(self, list found, Numbered numbered, char op, bytes key, bytes by, const Side *before, const Side *after,
             int64_t row, int64_t of_table):
        # One record more.
        cdef uint8_t ends[48]
        cdef Out ends_at = put_long(ends, row), counts = ends_at, w
        cdef Py_ssize_t size
        cdef bytes value
        if self.transaction.size:
            counts = put_long(put_long(counts, row + 1), of_table)
        size = PyBytes_GET_SIZE(self.value_head) + self.middle.size + self.thread.size
        size += 5 + self.made.size + (counts - ends)
        size += before.size if before != NULL else 0
        size += after.size if after != NULL else 0
        size += self.transaction.size - 1 if self.transaction.size else 0
        value = PyBytes_FromStringAndSize(NULL, size)
        w = put_all(<Out> PyBytes_AS_STRING(value), self.value_head)
        w = put_image(put_image(w, before), after)
        w = put_bytes(put_piece(w, &self.middle), ends, ends_at - ends)
        w = put_piece(w, &self.thread)
        w[0], w[1] = 2, <uint8_t> op
        w = put_piece(w + 2, &self.made)
        if not self.transaction.size:
            w[0] = 0
        else:
            put_bytes(put_piece(w, &self.transaction), ends_at, counts - ends_at)
        if numbered is None:
            found.append(record_of(op_text(op), key, self.partition(by), value))
        else:
            numbered.put(found, op, key, value, self.partition(by))

    cdef inline uint32_t partition(self, bytes by) noexcept:
        return (murmur2_of(<In> PyBytes_AS_STRING(by), PyBytes_GET_SIZE(by)) & 0x7FFFFFFF) % self.partitions


cdef inline Out put_image(Out w, const Side *side) noexcept:
    if side == NULL:
        w[0] = 0
        return w + 1
    w[0] = 2
    return put_bytes(w + 1, side.data, side.size)
