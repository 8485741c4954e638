# A record straight to the lines of a bulk request: `metadata.Metadata` and `bulk.line_bytes` say what stands in them.


cdef class Lines:
    """See `_avro_json.pyi`."""

    cdef object key_programs, value_programs
    cdef Program key_program, value_program
    cdef bytes key_head, value_head, entity, metadata
    cdef tuple places
    cdef uint64_t first_view, second_view
    cdef Bytes out

    def __cinit__(self, object key_programs, object value_programs, bytes entity not None, bytes metadata not None,
                  tuple views not None):
        self.key_programs, self.value_programs = key_programs, value_programs
        self.key_program = self.value_program = None
        self.key_head = self.value_head = b""
        self.entity, self.metadata = entity, metadata
        self.first_view, self.second_view = views
        self.out = Bytes()

    def line(self, bytes key, bytes value, headers, int64_t partition, int64_t offset):
        return self._made(key, value, headers, partition, offset)

    def enter(self, list raws, Py_ssize_t begin, dict window, dict counts, set met, int64_t epoch, int64_t floor,
              int64_t room):
        cdef Py_ssize_t i = begin
        cdef int64_t left = room, more
        cdef tuple raw, found, there
        cdef object topic, partition
        cdef bytes value
        cdef bytes fit = b""
        if not 0 <= begin < len(raws):
            return begin, 0
        topic, partition = (<tuple> raws[begin])[0], (<tuple> raws[begin])[1]
        while i < len(raws):
            raw = <tuple> raws[i]
            if (raw[0] is not topic and raw[0] != topic) or raw[1] != partition:
                break
            value = raw[4]
            if value is not None and not begins(value, fit):
                # The first value of each schema goes the long way, as the index may have to be made fit for it.
                if value[:5] not in met:
                    break
                fit = value[:5]
            found = self._made(raw[3], value, raw[5], partition, raw[2])
            if found is None or (<int64_t> found[1]) >> 44 != epoch or <int64_t> found[1] < floor:
                break
            more = PyBytes_GET_SIZE(<bytes> found[2])
            there = window.get(found[0])
            if there is not None:
                if there[0] > found[1]:
                    counts["folded"] += 1
                    i += 1
                    continue
                more -= PyBytes_GET_SIZE(<bytes> there[3])
            if more > left:
                break
            if there is not None:
                there[2]["folded"] += 1
            window[found[0]] = (found[1], raw, counts, found[2], found[3])
            left -= more
            i += 1
        return i, room - left

    cdef tuple _made(self, bytes key, bytes value, headers, int64_t partition, int64_t offset):
        cdef int64_t version = version_of(headers)
        if key is None or version < 0 or not self._programs(key, value):
            return None
        if self.key_program.busy or (value is not None and self.value_program.busy):
            return None
        self.key_program.busy = True
        if value is not None:
            self.value_program.busy = True
        try:
            return self._line(key, value, version, partition, offset)
        except UnicodeDecodeError:
            return None
        finally:
            self.key_program.out.empty()
            self.key_program.busy = False
            if value is not None:
                self.value_program.out.empty()
                self.value_program.busy = False
            self.out.empty()

    cdef bint _programs(self, bytes key, bytes value) except -1:
        # Those of these two schemas; False where there are none.
        if not begins(key, self.key_head):
            self.key_head, self.key_program = key[:5], self.key_programs(key)
        if value is not None and not begins(value, self.value_head):
            self.value_head, found = value[:5], self.value_programs(value)
            self.value_program, self.places = found if isinstance(found, tuple) else (found, None)
        return self.key_program is not None and (value is None or self.value_program is not None)

    cdef tuple _line(self, bytes key, bytes value, int64_t version, int64_t partition, int64_t offset):
        cdef Bytes out = self.out, name, body
        cdef uint64_t state
        cdef tuple parts
        cdef bytes after = None
        cdef bint deleted = value is None
        if not key_text(self.key_program, key):
            return None
        name = self.key_program.out
        if not 0 < name.at <= 512:
            return None
        out.reserve(64)
        out.raw(b'{"index":{"_id":', 16)
        if not out.text(name.data, name.at):
            return None
        out.reserve(96)
        out.raw(b',"version":', 11)
        out.number(version)
        out.raw(b',"version_type":"external"}}\n{', 30)
        if not deleted:
            body = self.value_program.out
            if self.places is None:
                if not self.value_program._whole(value):
                    return None
            else:
                parts = change_of(self.value_program, value, self.places[0], self.places[1], self.places[2])
                if parts is None or parts[0] not in ("c", "u", "r", "d"):
                    return None
                deleted = parts[0] == "d"
                after = parts[1]
                if not deleted and after is None:
                    return None
                body.at = 0
                if not deleted:
                    body.label(after)
        if not deleted:
            state = state_of(name, version, body)
            out.label(self.entity)
            out.reserve(body.at + 16)
            out.byte(58)
            out.raw(body.data, body.at)
            out.byte(44)
        out.reserve(16)
        out.raw(b'"metadata":', 11)
        out.label(self.metadata)
        out.reserve(128)
        out.raw(b',"partition":', 13)
        out.number(partition)
        out.raw(b',"offset":', 10)
        out.number(offset)
        out.raw(b',"doc_id":', 10)
        out.text(name.data, name.at)
        out.reserve(200)
        out.raw(b',"version":', 11)
        out.number(version)
        if deleted:
            out.raw(b',"deleted":true', 15)
        else:
            out.raw(b',"deleted":false,"d0":', 22)
            out.digits(state & 0xFFFFFFFF)
            out.raw(b',"d1":', 6)
            out.digits(state >> 32)
            out.raw(b',"s0":', 6)
            out.digits(mixed(state ^ self.first_view))
            out.raw(b',"s1":', 6)
            out.digits(mixed(state ^ self.second_view))
        out.raw(b"}}\n", 3)
        return PyUnicode_DecodeUTF8(<const char *> name.data, name.at, "strict"), version, out.taken(), deleted


cdef inline bint begins(bytes wire, bytes head) noexcept:
    return PyBytes_GET_SIZE(wire) >= 5 and PyBytes_GET_SIZE(head) == 5 and memcmp(
        PyBytes_AS_STRING(wire), PyBytes_AS_STRING(head), 5) == 0


cdef int64_t version_of(object headers) except -2:
    # That of the last header of this name; -1 where Python has to say what is wrong.
    cdef int64_t found = -1
    cdef const char *digits
    cdef Py_ssize_t i, size
    if headers is None:
        return -1
    for name, value in headers:
        if name == "version":
            if not isinstance(value, bytes):
                return -1
            size, digits = PyBytes_GET_SIZE(value), PyBytes_AS_STRING(value)
            if not 0 < size <= 16:
                return -1
            found = 0
            for i in range(size):
                if not 48 <= digits[i] <= 57:
                    return -1
                found = found * 10 + digits[i] - 48
    return found if found < <int64_t> 1 << 53 else -1


cdef uint64_t state_of(Bytes name, int64_t version, Bytes body) noexcept:
    # `digest.state_hash`.
    cdef Blake2 state
    cdef uint8_t head[12]
    cdef int i
    for i in range(4):
        head[i] = <uint8_t> (name.at >> (24 - 8 * i))
    for i in range(8):
        head[4 + i] = <uint8_t> (<uint64_t> version >> (56 - 8 * i))
    blake2_begin(&state)
    blake2_more(&state, head, 4)
    blake2_more(&state, name.data, name.at)
    blake2_more(&state, head + 4, 8)
    blake2_more(&state, body.data, body.at)
    return blake2_end(&state)


def state_hash(str doc_id not None, int64_t version, bytes body not None):
    cdef Bytes name = Bytes(), text = Bytes()
    name.label(doc_id.encode())
    text.label(body)
    return state_of(name, version, text)
