# What the envelopes of one source transaction share (`encode.Stamp`).

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object, Py_ssize_t *) except NULL

cdef int64_t MOST_US = 9223372036854775


cdef Py_ssize_t text_size(str text) except -1:
    cdef Py_ssize_t size = 0
    if text is not None:
        PyUnicode_AsUTF8AndSize(text, &size)
    return size


cdef Out put_text_of(Out w, str text) except NULL:
    cdef Py_ssize_t size = 0
    cdef const char *data = PyUnicode_AsUTF8AndSize(text, &size)
    return put_bytes(put_varint(w, <uint64_t> size << 1), data, size)


cdef Out put_text_piece(Out w, str text) except NULL:
    w[0] = 0 if text is None else 2
    return w + 1 if text is None else put_text_of(w + 1, text)


cdef inline Out put_instant(Out w, int64_t us) noexcept nogil:
    # Nullable microseconds and nanoseconds.
    return put_long_piece(put_long_piece(w, us), us * 1000)


def stamp_pieces(int64_t server_id, str file not None, int64_t pos, int64_t commit_us, int64_t made_us, str gtid,
                 str snapshot, thread):
    cdef uint8_t room[512]
    cdef Out at = room, w
    cdef bytes times, place, asked, made
    if not (0 <= commit_us <= MOST_US and 0 <= made_us <= MOST_US):
        return None
    if text_size(snapshot) + text_size(gtid) + text_size(file) > 400:
        return None
    w = put_instant(put_long(at, commit_us // 1000), commit_us)
    times = copied(at, put_text_piece(w, snapshot))
    w = put_text_piece(put_long(at, server_id), gtid)
    place = copied(at, put_long(put_text_of(w, file), pos))
    asked = b"\0" if thread is None else copied(at, put_long_piece(at, thread))
    made = copied(at, put_instant(put_long_piece(at, made_us // 1000), made_us))
    return times, place, asked, made, None if gtid is None else copied(at, put_text_piece(at, gtid))
