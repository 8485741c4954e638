# Messages of change topics: `join.gathering.Gathering.take`. What they leave, the Python way takes, or refuses.

DEF MOST_VERSION = 1 << 53


cdef class Changes:
    """Change envelopes of one schema under keys of one schema."""

    cdef Fields envelope
    cdef JoinKey joined
    cdef Py_ssize_t op, before, after

    def __init__(self, list envelope not None, tuple places not None, JoinKey joined not None):
        cdef const Step *step
        self.envelope, self.joined = Fields(envelope), joined
        self.op, self.before, self.after = places
        step = &self.envelope.steps[self.envelope.count - 1]
        if not (0 <= self.op < step.count and self.before < <int64_t> step.count and 0 <= self.after < step.count):
            raise IndexError("an envelope has no such field")
        if self.envelope.steps[step.children[self.op]].code != STRING:
            raise ValueError("the field `op` is no text")

    cdef bint take(self, Source source, rank, uint64_t version, bytes key, bytes value, list touches):
        # False: nothing was done.
        cdef const Step *step = self.envelope._walked(value, 5, PyBytes_GET_SIZE(value))
        cdef In whole = <In> PyBytes_AS_STRING(value)
        cdef Py_ssize_t before = -1, after
        cdef bytes stood = None, stands = None, kept = None
        cdef uint8_t op
        # A text of one byte.
        if step == NULL or step.marks[self.op + 1] - step.marks[self.op] != 2:
            return False
        op = whole[step.marks[self.op] + 1]
        if self.before >= 0:
            before = self.envelope._image_at(value, step, self.before)
        after = self.envelope._image_at(value, step, self.after)
        if before >= 0:
            stood = self.joined.of(key, value, before, step.marks[self.before + 1])
            if stood is None:
                return False
        if op == b"d":
            if before < 0:
                return False
        elif (op != b"c" and op != b"u" and op != b"r") or after < 0:
            return False
        else:
            stands = self.joined.of(key, value, after, step.marks[self.after + 1])
            if stands is None:
                return False
            kept = kept_of(version, whole + 1, whole + after, step.marks[self.after + 1] - after)
        number = version
        if stood is not None and stood != stands:
            put(touches, stood, rank, source.slot, key, number, None)
        if stands is not None:
            put(touches, stands, rank, source.slot, key, number, kept)
        return True


cdef inline bytes kept_of(uint64_t version, In schema_id, In body, Py_ssize_t size):
    cdef bytes kept = PyBytes_FromStringAndSize(NULL, HEAD + size)
    cdef uint8_t *out = <uint8_t *> PyBytes_AS_STRING(kept)
    cdef int i
    for i in range(8):
        out[i] = version >> (56 - 8 * i)
    memcpy(out + 8, schema_id, 4)
    memcpy(out + HEAD, body, size)
    return kept


cdef inline put(list touches, bytes values, rank, slot, bytes key, version, bytes kept):
    cdef bytes join_key = b"\x01" + values
    cdef uint32_t found = murmur2_of(<In> PyBytes_AS_STRING(join_key), PyBytes_GET_SIZE(join_key)) & 0x7FFFFFFF
    (<list> touches[found % <uint32_t> len(touches)]).append((join_key, rank, slot, key, version, kept, False))


cdef class Source:
    """The change topic of one input; `plan_of(schema id, key)` gives what reads such records, None: the Python way."""

    cdef object slot, plan_of
    cdef dict plans

    def __init__(self, slot, plan_of):
        self.slot, self.plan_of, self.plans = slot, plan_of, {}

    cdef Changes plan(self, bytes key, bytes value):
        cdef bytes ident = value[1:5] + key[:KEY_HEAD]
        found = self.plans.get(ident)
        if found is None:
            found = self.plan_of(int.from_bytes(value[1:5], "big"), key)
            if found is not None:
                self.plans[ident] = found
        return found


cdef bint version_in(headers, uint64_t *version):
    # The last header of that name, in digits.
    cdef bytes digits = None
    cdef uint64_t found = 0
    cdef uint8_t each
    for name, told in headers or ():
        if name == "version":
            if type(told) is not bytes:
                return False
            digits = told
    if digits is None or not 0 < PyBytes_GET_SIZE(digits) <= 16:
        return False
    for each in digits:
        if not c"0" <= each <= c"9":
            return False
        found = 10 * found + (each - c"0")
    version[0] = found
    return found < MOST_VERSION


def gather(messages, dict sources not None, bases, floors, list touches not None):
    cdef list left = []
    cdef dict taken = {}
    cdef Source source = None
    cdef Changes plan
    cdef bytes key, value
    cdef uint64_t version = 0, floor = 0
    cdef Py_ssize_t count = 0
    topic = None
    for message in messages:
        other = message.topic()
        if other != topic:
            if count:
                taken[topic] = taken.get(topic, 0) + count
            topic, count = other, 0
            source, floor = sources.get(topic), floors.get(topic, 0)
        found, told = message.key(), message.value()
        if source is not None and type(found) is bytes and type(told) is bytes:
            key, value = found, told
            if (PyBytes_GET_SIZE(key) >= KEY_HEAD and PyBytes_GET_SIZE(value) >= 5 and PyBytes_AS_STRING(value)[0] == 0
                    and version_in(message.headers(), &version) and version >= floor):
                plan = source.plan(key, value)
                rank = bases[topic, message.partition()] + message.offset()
                try:
                    if plan is not None and plan.take(source, rank, version, key, value, touches):
                        count += 1
                        continue
                except Unread:
                    pass
        left.append(message)
    if count:
        taken[topic] = taken.get(topic, 0) + count
    return left, taken
