# The text of a key (`record.key.doc_id`).


cdef bint key_text(Program program, bytes wire) except -1:
    cdef const Step *step = &program.steps[program.count - 1]
    cdef Bytes out = program.out
    cdef In r = <In> PyBytes_AS_STRING(wire) + 5
    cdef In end = <In> PyBytes_AS_STRING(wire) + PyBytes_GET_SIZE(wire)
    cdef bint several = step.count > 1
    cdef uint32_t i
    if step.code != RECORD or PyBytes_GET_SIZE(wire) < 5 or PyBytes_AS_STRING(wire)[0] != 0:
        return False
    program.empties = MOST_EMPTY
    for i in range(step.count):
        out.reserve(8)
        if several:
            out.byte(44 if i else 91)
        r = key_part(program, step.children[i], r, end, several)
        if r == NULL:
            return False
    out.reserve(8)
    if several:
        out.byte(93)
    return r == end


cdef In key_part(Program program, uint32_t index, In r, In end, bint quoted) except? NULL:
    # As JSON, but bytes in hex; without quotes where it stands alone.
    cdef const Step *step = &program.steps[index]
    cdef Bytes out = program.out
    cdef int64_t size
    cdef bytes label
    if step.code == UNION:
        r = varint(r, end, &size)
        if r == NULL or not 0 <= size < step.count:
            return NULL
        return key_part(program, step.children[size], r, end, quoted)
    if step.code == DECIMAL:
        return put_decimal(out, step, r, end, quoted)
    if step.code == UUID:
        return put_uuid(out, r, end, quoted)
    if step.code == BYTES:
        r = sized(r, end, step.a, &size)
        if r == NULL:
            return NULL
        out.reserve(8)
        if quoted:
            out.byte(34)
        out.hex(r, size)
        out.reserve(8)
        if quoted:
            out.byte(34)
        return r + size
    if quoted:
        return program._value(index, r, end)
    if step.code == NULL_:
        out.reserve(8)
        out.raw(b"None", 4)
        return r
    if step.code == STRING:
        r = sized(r, end, 0, &size)
        if r == NULL:
            return NULL
        out.reserve(size)
        out.raw(r, size)
        return r + size
    if step.code == ENUM:
        r = varint(r, end, &size)
        if r == NULL or not 0 <= size < step.count:
            return NULL
        label = <bytes> (<list> program.labels[index])[size]
        if b"\\" in label:
            return NULL
        out.reserve(PyBytes_GET_SIZE(label))
        out.raw(PyBytes_AS_STRING(label) + 1, PyBytes_GET_SIZE(label) - 2)
        return r
    return program._value(index, r, end)
