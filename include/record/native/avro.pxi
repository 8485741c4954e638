# Steps as C has them (`program.py`), and how the parts of Avro's bytes are found. NULL: bytes that the schema does not
# explain.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

ctypedef const uint8_t *In

cdef enum Code:
    NULL_, BOOLEAN, INT, LONG, FLOAT, DOUBLE, STRING, BYTES, ENUM, UUID, DATE, TIME, TIMESTAMP, DECIMAL
    ARRAY, MAP, UNION, RECORD

cdef dict CODES = {
    "null": NULL_, "boolean": BOOLEAN, "int": INT, "long": LONG, "float": FLOAT, "double": DOUBLE, "string": STRING,
    "bytes": BYTES, "enum": ENUM, "uuid": UUID, "date": DATE, "time": TIME, "timestamp": TIMESTAMP,
    "decimal": DECIMAL, "array": ARRAY, "map": MAP, "union": UNION, "record": RECORD,
}

cdef enum:
    # `extent.MOST_EMPTY`.
    MOST_EMPTY = 1 << 20

cdef uint64_t TOP_BITS = 0x8080808080808080ULL


cdef struct Step:
    Code code
    # Its meaning is that of `program.py`.
    int64_t a, b
    uint32_t count
    # The fewest bytes that a value takes; none: each value takes none.
    uint64_t least
    uint32_t *children
    uint32_t *order
    # Room for what a reader of a record notes of its fields, and one more.
    size_t *marks
    bint sorted


cdef inline In varint(In r, In end, int64_t *value) noexcept nogil:
    cdef uint64_t found = 0
    cdef int shift = 0
    cdef uint8_t each
    if r < end and r[0] < 0x80:
        value[0] = <int64_t> (r[0] >> 1) ^ -<int64_t> (r[0] & 1)
        return r + 1
    while r < end:
        each = r[0]
        r += 1
        if shift == 63 and each > 1:
            return NULL
        found |= <uint64_t> (each & 0x7F) << shift
        if each < 0x80:
            value[0] = <int64_t> (found >> 1) ^ -<int64_t> (found & 1)
            return r
        shift += 7
    return NULL


cdef inline In sized(In r, In end, int64_t fixed, int64_t *size) noexcept nogil:
    # Where bytes begin, and how many; `fixed`: their number plus 1, or 0.
    if fixed:
        size[0] = fixed - 1
    else:
        r = varint(r, end, size)
    return r if r != NULL and 0 <= size[0] <= end - r else NULL


cdef inline In block(In r, In end, int64_t *count, int64_t *size) noexcept nogil:
    # How many items come, and their bytes, -1 where those are not told.
    r = varint(r, end, count)
    size[0] = -1
    if r != NULL and count[0] < 0:
        count[0] = -count[0]
        r = varint(r, end, size)
        if r != NULL and not 0 <= size[0] <= end - r:
            return NULL
    return r if r != NULL and count[0] >= 0 else NULL


cdef bint is_utf8(In r, size_t size) noexcept nogil:
    # As Python judges: the shortest form, no surrogates, nothing above U+10FFFF.
    cdef size_t i = 0, more
    cdef uint64_t eight
    cdef uint8_t first, low, high
    while i < size:
        if r[i] < 0x80:
            if i + 8 <= size:
                memcpy(&eight, r + i, 8)
                if not eight & TOP_BITS:
                    i += 8
                    continue
            i += 1
            continue
        first = r[i]
        low, high = 0x80, 0xBF
        if first < 0xC2 or first > 0xF4:
            return False
        if first < 0xE0:
            more = 1
        elif first < 0xF0:
            more = 2
            if first == 0xE0:
                low = 0xA0
            elif first == 0xED:
                high = 0x9F
        else:
            more = 3
            if first == 0xF0:
                low = 0x90
            elif first == 0xF4:
                high = 0x8F
        if size - i <= more or not low <= r[i + 1] <= high:
            return False
        if more > 1 and r[i + 2] >> 6 != 2:
            return False
        if more > 2 and r[i + 3] >> 6 != 2:
            return False
        i += more + 1
    return True


cdef class Steps:
    """A program; the last step is the whole."""

    cdef Step *steps
    cdef uint32_t count

    def __cinit__(self, list steps not None):
        cdef uint32_t i
        if not steps:
            raise ValueError("a program without steps")
        self.steps = <Step *> calloc(len(steps), sizeof(Step))
        if self.steps == NULL:
            raise MemoryError
        for i, told in enumerate(steps):
            self.count = i + 1
            code, a, b, children, labels, order = told
            self._take(&self.steps[i], i, code, a, b, children, labels, order)

    def __dealloc__(self):
        cdef uint32_t i
        if self.steps != NULL:
            for i in range(self.count):
                free(self.steps[i].children)
                free(self.steps[i].order)
                free(self.steps[i].marks)
            free(self.steps)

    cdef int _take(self, Step *step, uint32_t own, str code, int64_t a, int64_t b, tuple children, tuple labels,
                   tuple order) except -1:
        cdef uint32_t i
        step.code = CODES[code]
        step.a, step.b = a, b
        step.count = len(children) if children else len(labels)
        step.children = <uint32_t *> calloc(len(children) + 1, sizeof(uint32_t))
        step.order = <uint32_t *> calloc(len(order) + 1, sizeof(uint32_t))
        step.marks = <size_t *> calloc(len(children) + 1, sizeof(size_t))
        if step.children == NULL or step.order == NULL or step.marks == NULL:
            raise MemoryError
        step.sorted = True
        for i in range(len(children)):
            step.children[i] = children[i]
            if step.children[i] >= own:
                raise ValueError("a step before its children")
        for i in range(len(order)):
            step.order[i] = order[i]
            step.sorted = step.sorted and step.order[i] == i
        if step.code == RECORD and not len(children) == len(labels) == len(order):
            raise ValueError("a record's fields, labels and order differ in number")
        if step.code in (ARRAY, MAP) and not children:
            raise ValueError("a list of nothing")
        step.least = 1
        if step.code == NULL_:
            step.least = 0
        elif step.code in (FLOAT, DOUBLE):
            step.least = 4 if step.code == FLOAT else 8
        elif (step.code == BYTES or step.code == DECIMAL) and a:
            step.least = a - 1
        elif step.code == RECORD:
            step.least = 0
            for i in range(step.count):
                step.least = min(step.least + self.steps[step.children[i]].least, <uint64_t> 1 << 40)
        return 0
