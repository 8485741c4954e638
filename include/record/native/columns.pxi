# Many records' fields as columns: each field's values behind each other, as Arrow lays them out.

from libc.stdint cimport int32_t
from libc.stdlib cimport malloc

cdef int64_t MOST_BYTES = (<int64_t> 1 << 31) - 1


cdef struct Column:
    # Of the values; ARRAY stands for whatever is handed out as it is.
    Code code
    # The fields' own step, and that of its values: another one where it may be null.
    uint32_t field, index
    int64_t fixed
    int width
    int64_t nulls
    int64_t size
    uint8_t *valid
    uint8_t *data
    int32_t *offsets


cdef class Columnar(Steps):
    """See `_avro.pyi`."""

    cdef Column *columns
    cdef uint32_t width
    cdef readonly list codes

    def __init__(self, list steps):
        cdef Step *record = &self.steps[self.count - 1]
        cdef uint32_t i
        if record.code != RECORD:
            raise ValueError("columns of what is no record")
        self.width = record.count
        self.columns = <Column *> calloc(record.count + 1, sizeof(Column))
        if self.columns == NULL:
            raise MemoryError
        self.codes = []
        for i in range(record.count):
            self._plan(&self.columns[i], record.children[i])
            told = steps[self.columns[i].index]
            self.codes.append(None if self.columns[i].code == ARRAY else (told[0], told[1], told[4]))

    def __dealloc__(self):
        free(self.columns)

    cdef void _plan(self, Column *column, uint32_t field) noexcept:
        cdef Step *step = &self.steps[field]
        cdef uint32_t index = field
        cdef Code code = step.code
        if code == UNION and step.count == 2:
            if self.steps[step.children[0]].code == NULL_:
                index = step.children[1]
            elif self.steps[step.children[1]].code == NULL_:
                index = step.children[0]
            code = self.steps[index].code
        column.field, column.index = field, index
        column.fixed = self.steps[index].a if code == BYTES or code == DECIMAL else 0
        column.width = 0
        if code in (BOOLEAN, INT, LONG, DOUBLE, ENUM, DATE, TIME, TIMESTAMP):
            column.width = 8
        elif code == FLOAT:
            column.width = 4
        elif code == DECIMAL:
            column.width = 16
        elif code not in (STRING, UUID, BYTES):
            code = ARRAY
        column.code = code

    def columns_of(self, list rows not None):
        global empties_left
        cdef Py_ssize_t count = len(rows), i
        cdef int64_t total = 0
        cdef uint32_t j
        cdef Column *column
        cdef In r, after, end
        cdef bytes row
        cdef list raw = []
        for row in rows:
            total += len(row)
        if total > MOST_BYTES or count > MOST_BYTES:
            return None
        try:
            for j in range(self.width):
                raw.append([])
                self._open(&self.columns[j], count, total)
            for i in range(count):
                row = rows[i]
                r = <In> PyBytes_AS_STRING(row)
                end = r + PyBytes_GET_SIZE(row)
                empties_left = MOST_EMPTY
                for j in range(self.width):
                    column = &self.columns[j]
                    after = passed(self.steps, column.field, r, end)
                    if after == NULL:
                        return None
                    if column.code == ARRAY:
                        (<list> raw[j]).append(PyBytes_FromStringAndSize(<const char *> r, after - r))
                    elif not self._put(column, i, r, after):
                        return None
                    r = after
                if r != end:
                    return None
            for j in range(self.width):
                if self.columns[j].code != ARRAY:
                    raw[j] = self._told(&self.columns[j], count)
            return raw
        finally:
            for j in range(self.width):
                column = &self.columns[j]
                free(column.valid)
                free(column.data)
                free(column.offsets)
                column.valid, column.data, column.offsets = NULL, NULL, NULL

    cdef int _open(self, Column *column, Py_ssize_t count, int64_t total) except -1:
        column.nulls = column.size = 0
        if column.code == ARRAY:
            return 0
        column.valid = <uint8_t *> calloc(count // 8 + 1, 1)
        # As much as there can be: pages that nothing is written to are never there.
        column.data = <uint8_t *> malloc((column.width * count if column.width else total) + 1)
        if not column.width:
            column.offsets = <int32_t *> calloc(count + 1, sizeof(int32_t))
        if column.valid == NULL or column.data == NULL or (not column.width and column.offsets == NULL):
            raise MemoryError
        return 0

    cdef bint _put(self, Column *column, Py_ssize_t at, In r, In end) noexcept:
        # The value in r … end, which a walk has been over; false for a decimal of more than 16 bytes.
        cdef int64_t value = 0
        cdef uint8_t *to = column.data + column.width * at
        cdef int i
        if column.index != column.field:
            r = varint(r, end, &value)
            if self.steps[column.field].children[value] != column.index:
                column.nulls += 1
                if column.width:
                    for i in range(column.width):
                        to[i] = 0
                else:
                    column.offsets[at + 1] = <int32_t> column.size
                return True
        column.valid[at >> 3] |= <uint8_t> (1 << (at & 7))
        if column.code == DOUBLE or column.code == FLOAT:
            memcpy(to, r, column.width)
            return True
        if column.code == BOOLEAN:
            value = r[0]
            memcpy(to, &value, 8)
            return True
        if column.width == 8:
            varint(r, end, &value)
            memcpy(to, &value, 8)
            return True
        r = sized(r, end, column.fixed, &value)
        if column.code == DECIMAL:
            while value > 16:
                if r[0] != (0xFF if r[1] & 0x80 else 0):
                    return False
                # Nothing but the sign, once more.
                r += 1
                value -= 1
            for i in range(<int> value):
                to[i] = r[value - 1 - i]
            for i in range(<int> value, 16):
                to[i] = 0xFF if value and r[0] & 0x80 else 0
            return True
        memcpy(column.data + column.size, r, value)
        column.size += value
        column.offsets[at + 1] = <int32_t> column.size
        return True

    cdef tuple _told(self, Column *column, Py_ssize_t count):
        cdef bytes valid = None
        cdef bytes offsets = None
        if column.nulls:
            valid = PyBytes_FromStringAndSize(<const char *> column.valid, count // 8 + 1)
        if not column.width:
            offsets = PyBytes_FromStringAndSize(<const char *> column.offsets, (count + 1) * 4)
        return (valid, column.nulls, offsets,
                PyBytes_FromStringAndSize(<const char *> column.data,
                                          column.width * count if column.width else column.size))
