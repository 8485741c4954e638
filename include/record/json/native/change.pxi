# The parts of a change envelope.


cdef tuple change_of(Program program, bytes wire, int64_t op, int64_t before, int64_t after):
    cdef const Step *step = &program.steps[program.count - 1]
    cdef Bytes out = program.out
    cdef In r = <In> PyBytes_AS_STRING(wire) + 5
    cdef In end = <In> PyBytes_AS_STRING(wire) + PyBytes_GET_SIZE(wire)
    cdef bytes kind = None, old = None, new = None
    cdef int64_t i
    if step.code != RECORD or PyBytes_GET_SIZE(wire) < 5 or PyBytes_AS_STRING(wire)[0] != 0:
        return None
    program.empties = MOST_EMPTY
    for i in range(step.count):
        out.at = 0
        r = program._value(step.children[i], r, end)
        if r == NULL:
            return None
        if i == op:
            kind = out.taken()
        elif i == after or i == before:
            # Nothing else is written so: a text has quotes.
            if out.at == 4 and memcmp(out.data, b"null", 4) == 0:
                continue
            if i == after:
                new = out.taken()
            else:
                old = out.taken()
    if r != end or kind is None or b"\\" in kind:
        return None
    return kind[1 : len(kind) - 1].decode(), new, old
