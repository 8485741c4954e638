# An event as images, and as records.

cdef inline uint32_t murmur2(In data, Py_ssize_t length) noexcept nogil:
    # As Kafka's Java client has it (`org.apache.kafka.common.utils.Utils.murmur2`).
    cdef uint32_t m = 0x5BD1E995, h = 0x9747B28CU ^ <uint32_t> length, k
    cdef Py_ssize_t i = 0, whole = length & ~3
    while i < whole:
        k = <uint32_t> little(data + i, 4) * m
        k = (k ^ k >> 24) * m
        h = h * m ^ k
        i += 4
    if whole < length:
        h = (h ^ <uint32_t> little(data + whole, <int> (length - whole))) * m
    h = (h ^ h >> 13) * m
    return h ^ h >> 15


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
            envelope.middle, envelope.thread, envelope.made, envelope.transaction = parts
            if envelope.middle is None or envelope.thread is None or envelope.made is None:
                raise TypeError("an envelope without its parts")
            rows = self._records(op, body, envelope, row, of_table, found)
            return None if rows < 0 else (found, rows)
        finally:
            self.busy = False

    cdef int64_t _records(self, str op, bytes body, Envelope envelope, int64_t row, int64_t of_table,
                          list found) except -2:
        # How many rows there are; -1: to be handed over.
        cdef In end = <In> PyBytes_AS_STRING(body) + PyBytes_GET_SIZE(body)
        cdef bint both = op == "u", create = op == "c"
        cdef In place = self.begin(<In> PyBytes_AS_STRING(body), end, 2 if both else 1)
        cdef Side *old = &self.sides[0]
        cdef Side *new = &self.sides[1] if both else old
        cdef bytes key, by, old_key, old_by
        cdef int64_t first = row
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
                    found.append(envelope.record("d", old_key, old_by, old, NULL, row, of_table))
                    found.append(envelope.record("c", key, by, NULL, new, row, of_table))
                else:
                    found.append(envelope.record("u", key, by, old, new, row, of_table))
            elif create:
                found.append(envelope.record("c", key, by, NULL, new, row, of_table))
            else:
                found.append(envelope.record("d", key, by, old, NULL, row, of_table))
            row += 1
            of_table += 1
        return row - first

    cdef bytes _by(self, const Side *side, bytes key):
        # What chooses the partition: the columns declared, else the key.
        if not self.by_count or key is None:
            return key
        return joined(side, self.keys + self.key_count, self.by_count, b"")


cdef class Envelope:
    """What the envelopes of one table share; see `_decoder.pyi`."""

    cdef bytes key_head, value_head, middle, thread, made, transaction
    cdef uint32_t partitions

    def __cinit__(self, bytes key_head not None, bytes value_head not None, uint32_t partitions):
        if not partitions:
            raise ValueError("a topic without partitions")
        self.key_head, self.value_head, self.partitions = key_head, value_head, partitions
        self.middle = self.thread = self.made = b""

    cdef object record(self, str op, bytes key, bytes by, const Side *before, const Side *after, int64_t row,
                       int64_t of_table):
        cdef uint8_t ends[48]
        cdef Out ends_at = put_long(ends, row), counts = ends_at, w
        cdef Py_ssize_t size
        cdef bytes value
        if self.transaction is not None:
            counts = put_long(put_long(counts, row + 1), of_table)
        size = PyBytes_GET_SIZE(self.value_head) + PyBytes_GET_SIZE(self.middle) + PyBytes_GET_SIZE(self.thread)
        size += 5 + PyBytes_GET_SIZE(self.made) + (counts - ends)
        size += before.size if before != NULL else 0
        size += after.size if after != NULL else 0
        size += PyBytes_GET_SIZE(self.transaction) - 1 if self.transaction is not None else 0
        value = PyBytes_FromStringAndSize(NULL, size)
        w = put_all(<Out> PyBytes_AS_STRING(value), self.value_head)
        w = put_image(put_image(w, before), after)
        w = put_bytes(put_all(w, self.middle), ends, ends_at - ends)
        w = put_all(w, self.thread)
        w[0], w[1] = 2, <uint8_t> op[0]
        w = put_all(w + 2, self.made)
        if self.transaction is None:
            w[0] = 0
        else:
            put_bytes(put_all(w, self.transaction), ends_at, counts - ends_at)
        return record_of(op, key, self.partition(by), value)

    cdef inline uint32_t partition(self, bytes by) noexcept:
        return (murmur2(<In> PyBytes_AS_STRING(by), PyBytes_GET_SIZE(by)) & 0x7FFFFFFF) % self.partitions


cdef inline Out put_image(Out w, const Side *side) noexcept:
    if side == NULL:
        w[0] = 0
        return w + 1
    w[0] = 2
    return put_bytes(w + 1, side.data, side.size)
