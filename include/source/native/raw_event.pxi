# One event as it stands in a file, or in a packet, up to its body; and how a whole group lies in what there is.

cdef enum Found:
    ODD             # something that is left to Python: it judges, and names what is wrong
    CUT             # all is plain as far as it goes, and it goes not far enough
    WHOLE

cdef enum:
    HEADER = 19
    CHECKSUM = 4
    PACKET = 5          # the packet's length and number, and the byte that says that an event follows
    ARTIFICIAL = 0x20

cdef enum Kind:
    QUERY_EVENT = 2
    XID_EVENT = 16
    MAP_EVENT = 19
    WRITE_V1 = 23
    UPDATE_V1 = 24
    DELETE_V1 = 25
    ROWS_QUERY_EVENT = 29
    WRITE_V2 = 30
    UPDATE_V2 = 31
    DELETE_V2 = 32
    MYSQL_GTID_EVENT = 33
    ANONYMOUS_GTID_EVENT = 34
    ANNOTATE_EVENT = 160
    MARIADB_GTID_EVENT = 162

cdef struct Raw:
    uint32_t code, timestamp, server_id, size, stated
    In body
    In end              # of the body
    In next             # the event behind it


cdef struct Wire:
    # How events come: each in a packet, with a checksum.
    bint framed
    bint checksum


cdef Found raw_event(Raw *event, In r, In stop, const Wire *wire) noexcept nogil:
    # The event at `r`; its checksum is not looked at.
    cdef uint32_t length, least = HEADER + (CHECKSUM if wire.checksum else 0)
    if wire.framed:
        if stop - r < PACKET + HEADER:
            return CUT
        length = r[0] | <uint32_t> r[1] << 8 | <uint32_t> r[2] << 16
        if length == 0xFFFFFF or r[4]:
            return ODD
        r += PACKET
    elif stop - r < HEADER:
        return CUT
    event.size = <uint32_t> little(r + 9, 4)
    if event.size < least or (wire.framed and event.size != length - 1):
        return ODD
    if little(r + 17, 2) & ARTIFICIAL:
        return ODD
    event.timestamp, event.code, event.server_id = <uint32_t> little(r, 4), r[4], <uint32_t> little(r + 5, 4)
    event.stated = <uint32_t> little(r + 13, 4)
    if <size_t> (stop - r) < event.size:
        return CUT
    event.body = r + HEADER
    event.next = r + event.size
    event.end = event.next - (CHECKSUM if wire.checksum else 0)
    return WHOLE


cdef bint fits(const Raw *event, const Wire *wire) noexcept nogil:
    if not wire.checksum:
        return True
    return crc_of(event.body - HEADER, event.end - event.body + HEADER, _ways) == <uint32_t> little(event.end, 4)


cdef In query_text(const Raw *event) noexcept nogil:
    # Where a QUERY's statement begins; NULL where its parts do not fit.
    cdef In text
    if event.end - event.body < 13:
        return NULL
    text = event.body + 13 + little(event.body + 11, 2) + event.body[8]
    return text + 1 if text < event.end and not text[0] else NULL


cdef bint says(In text, In end, const char *word, Py_ssize_t size) noexcept nogil:
    return end - text == size and memcmp(text, word, size) == 0


cdef Found group_at(In r, In stop, const Wire *wire) noexcept nogil:
    # Whether a whole group of known events lies there, by its events' headers alone.
    cdef Raw event
    cdef Found found
    cdef In text
    cdef bint first = True
    while True:
        found = raw_event(&event, r, stop, wire)
        if found == CUT and event_may_be_odd(r, stop, wire):
            return ODD
        if found != WHOLE:
            return found
        if event.code == QUERY_EVENT:
            text = query_text(&event)
            if text == NULL:
                return ODD
            if not says(text, event.end, b"BEGIN", 5):
                return ODD if first else WHOLE
        elif event.code == XID_EVENT:
            return ODD if first else WHOLE
        elif first != (event.code in (MARIADB_GTID_EVENT, MYSQL_GTID_EVENT, ANONYMOUS_GTID_EVENT)):
            return ODD
        elif not is_plain(event.code):
            return ODD
        first = False
        r = event.next


cdef inline bint is_plain(uint32_t code) noexcept nogil:
    return (WRITE_V1 <= code <= DELETE_V1 or WRITE_V2 <= code <= ANONYMOUS_GTID_EVENT or code == MAP_EVENT
            or code == ROWS_QUERY_EVENT or code == ANNOTATE_EVENT or code == MARIADB_GTID_EVENT
            or code == QUERY_EVENT or code == XID_EVENT)


cdef inline bint event_may_be_odd(In r, In stop, const Wire *wire) noexcept nogil:
    # Whether what there is of a cut event shows that more of it would not help.
    if wire.framed:
        if stop - r < PACKET:
            return False
        if r[4]:
            return True
        r += PACKET
    return stop - r > 4 and not is_plain(r[4])
