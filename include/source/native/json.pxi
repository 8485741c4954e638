# MySQL's binary JSON → the text that SELECT shows of it, as `rows/json_binary` makes it: format and checks stand there.
# What is not as it should be, decimals, moments and doubles with an exponent are handed over: -1, or NULL.

cdef extern from "Python.h":
    char *PyOS_double_to_string(double, char, int, int, int *) except NULL
    void PyMem_Free(void *)
    int Py_DTSF_ADD_DOT_0

cdef enum JsonKind:
    JSON_LARGE_ARRAY = 3
    JSON_LITERAL = 4
    JSON_INT16 = 5
    JSON_UINT16 = 6
    JSON_INT32 = 7
    JSON_UINT32 = 8
    JSON_INT64 = 9
    JSON_UINT64 = 10
    JSON_DOUBLE = 11
    JSON_STRING = 12

cdef enum:
    MOST_JSON = 1 << 16     # of larger documents the copying is the most of the work
    MOST_JSON_DEPTH = 100
    JSON_WIDENS = 6         # bytes of text that a byte of a document makes at most: \u0000

cdef struct Json:
    In data
    Out w


cdef inline Py_ssize_t json_sized(const Json *json, Py_ssize_t *at, Py_ssize_t end) noexcept nogil:
    # The size of what follows a variable length, which `at` moves behind; -1: it is not there.
    cdef uint64_t size = 0
    cdef int shift = 0
    cdef uint8_t each
    while shift < 35 and at[0] < end:
        each = json.data[at[0]]
        at[0] += 1
        size |= <uint64_t> (each & 0x7F) << shift
        if each < 0x80:
            return <Py_ssize_t> size if size <= <uint64_t> (end - at[0]) else -1
        shift += 7
    return -1


cdef inline bint json_string(Json *json, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    cdef In r = json.data + at
    cdef Out w = json.w
    cdef const char *digits = "0123456789abcdef"
    cdef Py_ssize_t i
    cdef uint8_t each
    if not is_utf8(r, size, 0xF4):
        return False
    w[0] = b'"'
    w += 1
    for i in range(size):
        each = r[i]
        if each >= 0x20 and each != b'"' and each != b'\\':
            w[0] = each
            w += 1
            continue
        w[0] = b'\\'
        w[1] = (each if each >= 0x20 else b'n' if each == 10 else b'r' if each == 13 else b't' if each == 9
                else b'b' if each == 8 else b'f' if each == 12 else b'u')
        if w[1] == b'u':
            w[2] = w[3] = b'0'
            w[4], w[5] = digits[each >> 4], digits[each & 15]
            w += 4
        w += 2
    w[0] = b'"'
    json.w = w + 1
    return True


cdef inline bint json_literal(Json *json, uint64_t code) noexcept nogil:
    if code > 2:
        return False
    if code == 2:
        json.w = put_bytes(json.w, b"false", 5)
    else:
        json.w = put_bytes(json.w, b"true" if code else b"null", 4)
    return True


cdef inline void json_number(Json *json, uint64_t value, bint negative) noexcept nogil:
    # `value`, or two's complement of what is below zero.
    if negative:
        json.w[0] = b'-'
        json.w += 1
        value = -value
    json.w = <Out> put_number(<char *> json.w, value)


cdef bint json_double(Json *json, uint64_t raw) except -1:
    cdef double value
    cdef char *text
    cdef Py_ssize_t size = 0
    memcpy(&value, &raw, 8)
    text = PyOS_double_to_string(value, b'r', 0, Py_DTSF_ADD_DOT_0, NULL)
    try:
        while text[size]:
            if text[size] in b"enf":
                return False
            size += 1
        if size >= 18:
            return False
        json.w = put_bytes(json.w, text, size)
        return True
    finally:
        PyMem_Free(text)


cdef Py_ssize_t json_value(Json *json, int kind, Py_ssize_t at, Py_ssize_t end, int depth) except -2:
    # Where the value ends that begins at `at`, not beyond `end`; -1: to be handed over.
    cdef Py_ssize_t size
    cdef uint64_t raw
    if kind == JSON_STRING:
        size = json_sized(json, &at, end)
        return at + size if size >= 0 and json_string(json, at, size) else -1
    if kind <= JSON_LARGE_ARRAY:
        return json_container(json, kind, at, end, depth + 1)
    if kind > JSON_STRING:
        return -1
    size = 1 if kind == JSON_LITERAL else 2 if kind <= JSON_UINT16 else 4 if kind <= JSON_UINT32 else 8
    if size > end - at:
        return -1
    raw = little(json.data + at, <int> size)
    if kind == JSON_LITERAL:
        if not json_literal(json, raw):
            return -1
    elif kind == JSON_DOUBLE:
        if not json_double(json, raw):
            return -1
    elif kind & 1:
        raw = <uint64_t> signed_of(raw, <int> size)
        json_number(json, raw, raw >> 63)
    else:
        json_number(json, raw, False)
    return at + size


cdef Py_ssize_t json_container(Json *json, int kind, Py_ssize_t at, Py_ssize_t end, int depth) except -2:
    cdef In data = json.data
    cdef int wide = 4 if kind & 1 else 2
    cdef bint keyed = kind < 2
    cdef Py_ssize_t count, size, entries, names, low, i, key = 0, length = 0, before, before_length
    cdef int each
    cdef uint64_t value
    if depth > MOST_JSON_DEPTH or end - at < 2 * wide:
        return -1
    count, size = little(data + at, wide), little(data + at + wide, wide)
    names = at + 2 * wide
    entries = names + (count * (wide + 2) if keyed else 0)
    low = entries + count * (wide + 1)
    if size > end - at or low > at + size:
        return -1
    end = at + size
    if not count:
        json.w = put_bytes(json.w, b"{}" if keyed else b"[]", 2)
        return end
    if keyed:
        # All keys first: values begin behind the last.
        for i in range(count):
            before, before_length = key, length
            key = at + <Py_ssize_t> little(data + names + i * (wide + 2), wide)
            length = little(data + names + i * (wide + 2) + wide, 2)
            if key < low or length > end - key:
                return -1
            if i and (before_length > length or (before_length == length and
                                                 memcmp(data + before, data + key, length) >= 0)):
                return -1
            low = key + length
    for i in range(count):
        if i:
            json.w = put_bytes(json.w, b", ", 2)
        else:
            json.w[0] = b'{' if keyed else b'['
            json.w += 1
        if keyed:
            key = at + <Py_ssize_t> little(data + names + i * (wide + 2), wide)
            length = little(data + names + i * (wide + 2) + wide, 2)
            if not json_string(json, key, length):
                return -1
            json.w = put_bytes(json.w, b": ", 2)
        each = data[entries + i * (wide + 1)]
        value = little(data + entries + i * (wide + 1) + 1, wide)
        if each == JSON_LITERAL:
            if not json_literal(json, value & 0xFF):
                return -1
        elif each == JSON_INT16 or each == JSON_UINT16:
            value = <uint64_t> signed_of(value & 0xFFFF, 2) if each == JSON_INT16 else value & 0xFFFF
            json_number(json, value, value >> 63)
        elif wide == 4 and (each == JSON_INT32 or each == JSON_UINT32):
            value = <uint64_t> signed_of(value, 4) if each == JSON_INT32 else value
            json_number(json, value, value >> 63)
        else:
            if at + <Py_ssize_t> value < low:
                return -1
            low = json_value(json, each, at + <Py_ssize_t> value, end, depth)
            if low < 0:
                return -1
    json.w[0] = b'}' if keyed else b']'
    json.w += 1
    return end


cdef Out put_json(Out w, In r, Py_ssize_t size) except? NULL:
    # A document's text, sized; NULL: to be handed over. There is room for all that it may become.
    cdef Json json
    cdef Py_ssize_t text_size
    cdef Out text = w + 8
    json.data, json.w = r, text
    if not size:
        json.w = put_bytes(text, b"null", 4)
    elif json_value(&json, r[0], 1, size, 0) != size:
        return NULL
    text_size = json.w - text
    w = put_length_piece(w, text_size)
    memmove(w, text, text_size)
    return w + text_size


def json_utf8(bytes data not None):
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef bytes room
    cdef Json json
    if size > MOST_JSON:
        return None
    room = PyBytes_FromStringAndSize(NULL, JSON_WIDENS * size + 64)
    json.data, json.w = <In> PyBytes_AS_STRING(data), <Out> PyBytes_AS_STRING(room)
    if not size:
        return b"null"
    if json_value(&json, json.data[0], 1, size, 0) != size:
        return None
    return copied(<In> PyBytes_AS_STRING(room), json.w)
