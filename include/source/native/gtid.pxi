# The events that begin a group, as `gtid_event` reads them: the GTID's text, and what is known of the group. None: left
# to Python.

cdef inline char *put_number(char *w, uint64_t value) noexcept nogil:
    cdef char digits[20]
    cdef int n = 0
    while True:
        digits[n] = <char> (48 + value % 10)
        n += 1
        value //= 10
        if not value:
            break
    while n:
        n -= 1
        w[0] = digits[n]
        w += 1
    return w


cdef str mariadb_gtid(Group *group, const Raw *event):
    cdef In r = event.body, end = event.end
    cdef char text[64]
    cdef char *w = text
    cdef uint32_t flags, more = 0
    if end - r < 13:
        return None
    flags = r[12]
    if flags & (0x01 | 0x40 | 0x80):
        # Stands alone, or is of an XA transaction.
        return None
    r += 13
    if flags & 0x02:
        # Committed with others.
        r += 8
    if r > end:
        return None
    if r < end:
        more = r[0]
        r += 1
    if more & 0x01:
        r += 1
    if more & (0x02 | 0x04 | 0x08):
        return None
    if r > end or (more & 0x10 and end - r < 4):
        return None
    if more & 0x10:
        group.thread = <int64_t> little(r, 4)
    group.begun = True
    w = put_number(w, little(event.body + 8, 4))
    w[0] = 45
    w = put_number(w + 1, event.server_id)
    w[0] = 45
    w = put_number(w + 1, little(event.body, 8))
    return PyUnicode_FromStringAndSize(text, w - text)


cdef str mysql_gtid(Group *group, const Raw *event):
    cdef Py_ssize_t size = event.end - event.body
    cdef const char *digits = "0123456789abcdef"
    cdef char text[64]
    cdef char *w = text
    cdef uint64_t stamp, number
    cdef uint8_t each
    cdef int i
    if size < 25:
        return None
    if size > 42 and event.body[25] == 2:
        if size < 49:
            return None
        stamp = little(event.body + 42, 7)
        if stamp & HAS_ORIGINAL:
            if size < 56:
                return None
            stamp ^= HAS_ORIGINAL
        if stamp > <uint64_t> MOST_GTID_US:
            return None
        group.commit_us = <int64_t> stamp
    if event.code == ANONYMOUS_GTID_EVENT:
        return ""
    number = little(event.body + 17, 8)
    if not number:
        return None
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            w[0] = 45
            w += 1
        each = event.body[1 + i]
        w[0], w[1] = digits[each >> 4], digits[each & 15]
        w += 2
    w[0] = 58
    w = put_number(w + 1, number)
    return PyUnicode_FromStringAndSize(text, w - text)
