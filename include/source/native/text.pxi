# Text, binary values, and those that Python reads. NULL without an exception: bytes that no server writes, or a value
# that Python refuses; the caller hands the event over, so that Python names what is wrong.


cdef inline size_t ascii_run(In r, size_t size) noexcept nogil:
    # How many bytes at the front are ASCII.
    cdef size_t at = 0
    while at + 8 <= size and not little(r + at, 8) & HIGH_BITS:
        at += 8
    # The last eight once more, rather than up to seven one by one.
    if at + 8 > size >= 8 and not little(r + size - 8, 8) & HIGH_BITS:
        return size
    while at < size and r[at] < 0x80:
        at += 1
    return at


cdef inline bint is_utf8(In r, size_t size, uint8_t highest) noexcept nogil:
    # As RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. `highest`: the greatest first byte.
    cdef size_t at = ascii_run(r, size)
    cdef uint8_t first, second
    while at < size:
        first = r[at]
        if first < 0x80:
            at += ascii_run(r + at, size - at)
            continue
        if first < 0xC2 or first > highest or size - at < 2:
            return False
        second = r[at + 1]
        if second & 0xC0 != 0x80:
            return False
        if first < 0xE0:
            at += 2
            continue
        if size - at < 3 or r[at + 2] & 0xC0 != 0x80:
            return False
        if first < 0xF0:
            if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F):
                return False
            at += 3
            continue
        if size - at < 4 or r[at + 3] & 0xC0 != 0x80:
            return False
        if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
            return False
        at += 4
    return True


cdef inline Out put_sized(Out w, In r, In end, size_t size) noexcept nogil:
    return put_short(put_length_piece(w, size), r, end, size)


cdef inline Out put_table(Out w, const Op *op, In r, size_t size) noexcept nogil:
    # A charset of one byte: four bytes of `data` for each, its UTF-8 and, in the last, how many (0: no character).
    cdef uint64_t total = 0
    cdef size_t i
    cdef In entry
    for i in range(size):
        if op.data[4 * r[i] + 3] == 0:
            return NULL
        total += op.data[4 * r[i] + 3]
    w = put_length_piece(w, total)
    for i in range(size):
        entry = op.data + 4 * r[i]
        memcpy(w, entry, 4)
        w += entry[3]
    return w


cdef inline Out put_uuid(Out w, In r, size_t size) noexcept nogil:
    cdef const char *digits = "0123456789abcdef"
    cdef uint8_t each
    cdef size_t i
    if size > 16:
        return NULL
    w = put_length_piece(w, 36)
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            w[0] = 45
            w += 1
        each = r[i] if i < size else 0
        w[0], w[1] = digits[each >> 4], digits[each & 15]
        w += 2
    return w


cdef inline Out put_inet4(Out w, In r, size_t size) noexcept nogil:
    cdef Out start = w + 2
    cdef uint8_t each
    cdef size_t i
    if size > 4:
        return NULL
    w[0] = 2
    w += 2
    for i in range(4):
        each = r[i] if i < size else 0
        if i:
            w[0] = 46
            w += 1
        if each >= 100:
            w[0] = 48 + each // 100
            w += 1
        if each >= 10:
            w[0] = 48 + each // 10 % 10
            w += 1
        w[0] = 48 + each % 10
        w += 1
    (start - 1)[0] = <uint8_t> (2 * (w - start))
    return w


cdef inline Out put_vector(Out w, In r, size_t size) noexcept nogil:
    w[0] = 2
    w += 1
    if size % 4:
        return NULL
    if size:
        w = put_bytes(put_long(w, size // 4), r, size)
    w[0] = 0
    return w + 1


cdef inline Out put_simple(Out w, const Op *op, In r, In end, size_t size) noexcept nogil:
    # The kinds of text and binary values that need no Python; room is there for `text_room`.
    if op.code == BINARY:
        w = put_length_piece(w, size if size > op.a else op.a)
        w = put_short(w, r, end, size)
        if size < op.a:
            memset(w, 0, op.a - size)
            w += op.a - size
        return w
    if op.code == UTF8:
        return put_sized(w, r, end, size) if is_utf8(r, size, 0xF4) else NULL
    if op.code == UTF8MB3:
        return put_sized(w, r, end, size) if is_utf8(r, size, 0xEF) else NULL
    if op.ascii and ascii_run(r, size) == size:
        return put_sized(w, r, end, size)
    return put_table(w, op, r, size)


cdef inline size_t text_room(const Op *op, size_t size) noexcept nogil:
    return 3 * size if op.code == TABLE else size


cdef inline bytes copied(In start, In stop):
    return PyBytes_FromStringAndSize(<const char *> start, stop - start)


cdef bytes called(PyObject *function, In r, Py_ssize_t size):
    # What a Python function makes of these bytes; None where it refuses.
    try:
        return (<object> function)(PyBytes_FromStringAndSize(<const char *> r, size))
    except Exception:
        # The event goes to the Python decoder, which meets the same error and tells it.
        return None


cdef Out put_called(Out w, Side *side, const Op *op, In r, Py_ssize_t size, Py_ssize_t later) except? NULL:
    # A value by Python, as it is (CALL) or as text; `later` is what the rest of the row needs.
    cdef bytes found = called(op.call, r, size)
    if found is None or (op.code == CALL and not found):
        return NULL
    w = reserve(side, w, len(found) + later)
    if w == NULL:
        return NULL
    if op.code == CALL:
        return put_bytes(w, <const char *> found, len(found))
    r = <In> <const char *> found
    return put_sized(w, r, r + len(found), len(found))


cdef Out put_document(Out w, Side *side, const Op *op, In r, Py_ssize_t size, Py_ssize_t later) except? NULL:
    cdef Out after = NULL
    if size <= MOST_JSON:
        w = reserve(side, w, JSON_WIDENS * size + 64 + later)
        if w == NULL:
            return NULL
        after = put_json(w, r, size)
    return put_called(w, side, op, r, size, later) if after == NULL else after


cdef Out put_text(Out w, Side *side, const Op *op, In r, In end, size_t size, Py_ssize_t later) except? NULL:
    # A text or binary value, opened first where it is compressed.
    cdef bytes opened = None
    if op.open != NULL:
        opened = called(op.open, r, size)
        if opened is None:
            return NULL
        r, size = <In> <const char *> opened, len(opened)
        end = r + size
    if op.code == JSON:
        return put_document(w, side, op, r, size, later)
    if op.code == CALL_TEXT and not (op.ascii and ascii_run(r, size) == size):
        return put_called(w, side, op, r, size, later)
    w = reserve(side, w, text_room(op, size) + later)
    if w == NULL:
        return NULL
    if op.code == CALL_TEXT:
        return put_sized(w, r, end, size)
    return put_simple(w, op, r, end, size)
