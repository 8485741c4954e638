# The events that begin a group, as `gtid_event` reads them: the GTID's parts, and what is known of the group. False: left
# to Python.

cdef bint mariadb_gtid(Group *group, const Raw *event) noexcept nogil:
    cdef In r = event.body, end = event.end
    cdef char *w = group.prefix
    cdef uint32_t flags, more = 0
    if end - r < 13:
        return False
    flags = r[12]
    if flags & (0x01 | 0x40 | 0x80):
        # Stands alone, or is of an XA transaction.
        return False
    r += 13
    if flags & 0x02:
        # Committed with others.
        r += 8
    if r > end:
        return False
    if r < end:
        more = r[0]
        r += 1
    if more & 0x01:
        r += 1
    if more & (0x02 | 0x04 | 0x08):
        return False
    if r > end or (more & 0x10 and end - r < 4):
        return False
    if more & 0x10:
        group.thread = <int64_t> little(r, 4)
    group.begun = True
    w = put_number(w, little(event.body + 8, 4))
    w[0] = 45
    w = put_number(w + 1, event.server_id)
    w[0] = 45
    group.prefix_size, group.number = <int> (w + 1 - group.prefix), little(event.body, 8)
    return True


cdef bint mysql_gtid(Group *group, const Raw *event) noexcept nogil:
    cdef Py_ssize_t size = event.end - event.body
    cdef const char *digits = "0123456789abcdef"
    cdef char *w = group.prefix
    cdef uint64_t stamp, number
    cdef uint8_t each
    cdef int i
    if size < 25:
        return False
    if size > 42 and event.body[25] == 2:
        if size < 49:
            return False
        stamp = little(event.body + 42, 7)
        if stamp & HAS_ORIGINAL:
            if size < 56:
                return False
            stamp ^= HAS_ORIGINAL
        if stamp > <uint64_t> MOST_GTID_US:
            return False
        group.commit_us = <int64_t> stamp
    if event.code == ANONYMOUS_GTID_EVENT:
        return True
    number = little(event.body + 17, 8)
    if not number:
        return False
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            w[0] = 45
            w += 1
        each = event.body[1 + i]
        w[0], w[1] = digits[each >> 4], digits[each & 15]
        w += 2
    w[0] = 58
    group.prefix_size, group.number = <int> (w + 1 - group.prefix), number
    return True
