# Rows of a SELECT, as the text protocol has them (`text.py` is the same in Python). NULL: for Python to read, or refuse.

cdef extern from "Python.h":
    bint PyTuple_Check(object)
    Py_ssize_t PyTuple_GET_SIZE(object)
    PyObject *PyTuple_GET_ITEM(object, Py_ssize_t)
    double PyOS_string_to_double(const char *, char **, PyObject *) except? -1.0

cdef extern from *:
    """
    #include <float.h>
    /* m * 10**e as the nearest double; 0 where this way is not sure of the last bit.
       64 bits of mantissa hold m and 10**27 exactly, so one operation rounds once, to 64 bits. The second rounding, to
       53, is right unless the first one may have come from the other side of a half. */
    #if LDBL_MANT_DIG == 64 && (defined(__x86_64__) || defined(__i386__))
    static inline int LB_SCALED(unsigned long long m, int e, double *found) {
        static const long double tens[28] = {
            1e0L, 1e1L, 1e2L, 1e3L, 1e4L, 1e5L, 1e6L, 1e7L, 1e8L, 1e9L, 1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L,
            1e16L, 1e17L, 1e18L, 1e19L, 1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
        long double v;
        unsigned long long bits;
        if (e < -27 || e > 27) return 0;
        v = e < 0 ? (long double) m / tens[-e] : (long double) m * tens[e];
        memcpy(&bits, &v, 8);
        *found = (double) v;
        return (bits & 0x7FF) != 0x400;
    }
    #else
    /* Both are exact in 53 bits. */
    static inline int LB_SCALED(unsigned long long m, int e, double *found) {
        static const double tens[23] = {
            1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
            1e19, 1e20, 1e21, 1e22};
        if (m >> 53 || e < -22 || e > 22) return 0;
        *found = e < 0 ? (double) m / tens[-e] : (double) m * tens[e];
        return 1;
    }
    #endif
    """
    bint scaled "LB_SCALED"(uint64_t m, int e, double *found) noexcept nogil

cdef enum:
    MOST_DIGITS = 19    # that surely fit 64 bits
    NOT_IN_TEXT = 255


cdef inline bint digits_of(In r, Py_ssize_t size, uint64_t *value) noexcept nogil:
    # The number that these digits, at most MOST_DIGITS, go on with; False of anything else.
    cdef Py_ssize_t i
    cdef uint8_t digit, wrong = 0
    cdef uint64_t found = value[0]
    for i in range(size):
        digit = r[i] - 48
        wrong |= digit > 9
        found = found * 10 + digit
    value[0] = found
    return not wrong


cdef inline Out put_text_int(Out w, In r, Py_ssize_t size) noexcept nogil:
    cdef uint64_t value = 0
    cdef bint minus = size > 1 and r[0] == 45
    if minus:
        r += 1
        size -= 1
    if not 0 < size <= MOST_DIGITS or not digits_of(r, size, &value) or value >> 63:
        return NULL
    return put_long_piece(w, -<int64_t> value if minus else <int64_t> value)


cdef inline Out put_text_unsigned(Out w, In r, Py_ssize_t size) noexcept nogil:
    # Of 64 bits: at most 20 digits.
    cdef uint64_t value = 0
    cdef uint8_t last
    if not 0 < size <= MOST_DIGITS + 1:
        return NULL
    if not digits_of(r, size if size <= MOST_DIGITS else MOST_DIGITS, &value):
        return NULL
    if size > MOST_DIGITS:
        last = r[MOST_DIGITS] - 48
        if last > 9 or value > 1844674407370955161ULL or (value == 1844674407370955161ULL and last > 5):
            return NULL
        value = value * 10 + last
    return put_unsigned_decimal_piece(w, value)


cdef inline Out put_text_decimal(Out w, Py_ssize_t scale, In r, Py_ssize_t size) noexcept nogil:
    # At most 18 digits, zeros at the front not counted.
    cdef uint64_t value = 0
    cdef bint minus = size > 1 and r[0] == 45
    cdef Py_ssize_t whole
    if minus:
        r += 1
        size -= 1
    whole = size - scale - 1 if scale else size
    if whole < 1 or whole + scale > MOST_DIGITS or not digits_of(r, whole, &value):
        return NULL
    if scale and (r[whole] != 46 or not digits_of(r + whole + 1, scale, &value)):
        return NULL
    if value >> 63:
        return NULL
    return put_decimal_piece(w, -<int64_t> value if minus else <int64_t> value)


cdef bint exact_double(In r, Py_ssize_t size, double *found) except -1:
    # By Python's own reader, which rounds right; `r` is a number as `double_of` takes it.
    cdef char room[64]
    if size >= 64:
        return False
    memcpy(room, r, size)
    room[size] = 0
    found[0] = PyOS_string_to_double(room, NULL, NULL)
    return True


cdef inline bint double_of(In r, Py_ssize_t size, double *found) except -1:
    cdef In start = r, end = r + size, from_
    cdef uint64_t mantissa = 0
    cdef int exponent = 0, written = 0
    cdef bint minus = size > 1 and r[0] == 45, down
    cdef Py_ssize_t digits
    if minus:
        r += 1
    from_ = r
    while r < end and <uint8_t> (r[0] - 48) <= 9:
        mantissa = mantissa * 10 + (r[0] - 48)
        r += 1
    digits = r - from_
    if digits == 0:
        return False
    if r < end and r[0] == 46:
        r += 1
        from_ = r
        while r < end and <uint8_t> (r[0] - 48) <= 9:
            mantissa = mantissa * 10 + (r[0] - 48)
            r += 1
        exponent = -<int> (r - from_)
        digits += r - from_
    if r < end and r[0] | 32 == 101:
        r += 1
        down = r < end and r[0] == 45
        if r < end and (r[0] == 45 or r[0] == 43):
            r += 1
        if not 0 < end - r <= 3:
            return False
        while r < end and <uint8_t> (r[0] - 48) <= 9:
            written = written * 10 + (r[0] - 48)
            r += 1
        exponent += -written if down else written
    if r != end:
        return False
    if digits > MOST_DIGITS or not scaled(mantissa, exponent, found):
        return exact_double(start, size, found)
    if minus:
        found[0] = -found[0]
    return True


cdef inline Out put_text_double(Out w, In r, Py_ssize_t size, bint single) except? NULL:
    cdef double value = 0
    cdef float narrow
    if not double_of(r, size, &value):
        return NULL
    w[0] = 2
    if single:
        narrow = <float> value
        # Too great for it, which is for Python to say.
        return NULL if narrow - narrow != 0 else put_bytes(w + 1, &narrow, 4)
    return NULL if value - value != 0 else put_bytes(w + 1, &value, 8)


cdef inline uint32_t two_of(In r) noexcept nogil:
    # Two digits; NOT_IN_TEXT of anything else.
    cdef uint8_t high = r[0] - 48, low = r[1] - 48
    return NOT_IN_TEXT if high > 9 or low > 9 else high * 10 + low


cdef inline bint fraction_of(In r, Py_ssize_t size, uint32_t *micros) noexcept nogil:
    # Microseconds of nothing, or of a point and one to six digits.
    cdef uint64_t part = 0
    if size == 0:
        micros[0] = 0
        return True
    if not 2 <= size <= 7 or r[0] != 46 or not digits_of(r + 1, size - 1, &part):
        return False
    micros[0] = <uint32_t> part * POWERS[7 - size]
    return True


cdef inline Out put_text_moment(Out w, Side *side, uint32_t op, In r, Py_ssize_t size, int digits) noexcept nogil:
    # A date (`digits` -1), datetime or timestamp.
    cdef uint32_t century, of_century, month, day, hour = 0, minute = 0, second = 0, micros = 0
    if size < 10 or r[4] != 45 or r[7] != 45 or (digits < 0 and size != 10):
        return NULL
    century, of_century, month, day = two_of(r), two_of(r + 2), two_of(r + 5), two_of(r + 8)
    if digits >= 0:
        if size < 19 or r[10] != 32 or r[13] != 58 or r[16] != 58:
            return NULL
        hour, minute, second = two_of(r + 11), two_of(r + 14), two_of(r + 17)
        if hour > 23 or minute > 59 or second > 59 or not fraction_of(r + 19, size - 19, &micros):
            return NULL
    if century > 99 or of_century > 99:
        return NULL
    return put_moment(w, side, op, century * 100 + of_century, month, day, (hour * 60 + minute) * 60 + second, micros,
                      digits)


cdef inline Out put_text_time(Out w, In r, Py_ssize_t size) noexcept nogil:
    cdef bint minus = size > 1 and r[0] == 45
    cdef uint64_t hours = 0
    cdef uint32_t minute, second, micros = 0
    cdef Py_ssize_t whole = 0
    cdef int64_t found
    if minus:
        r += 1
        size -= 1
    while whole < size and r[whole] != 58:
        whole += 1
    if not 1 <= whole <= 3 or not digits_of(r, whole, &hours) or size < whole + 6 or r[whole + 3] != 58:
        return NULL
    minute, second = two_of(r + whole + 1), two_of(r + whole + 4)
    if minute > 59 or second > 59 or not fraction_of(r + whole + 6, size - whole - 6, &micros):
        return NULL
    found = <int64_t> ((hours * 60 + minute) * 60 + second) * 1000000 + micros
    return put_signed_time(w, -found if minus else found)


cdef inline Out put_text_bit(Out w, const Op *op, In r, Py_ssize_t size) noexcept nogil:
    if size > 8:
        return NULL
    return put_bit(w, op, big(r, <int> size))


cdef class TextRows(Program):
    """Reads packets of rows; see `_decoder.pyi`."""

    def feed(self, const uint8_t[::1] data not None, Py_ssize_t start, Py_ssize_t stop, int sequence,
             list found not None):
        if self.busy or not 0 <= start < stop <= data.shape[0]:
            return start, sequence
        self.busy = True
        try:
            return self._feed(&data[0], start, stop, sequence, found)
        finally:
            self.busy = False

    cdef tuple _feed(self, In data, Py_ssize_t start, Py_ssize_t stop, int sequence, list found):
        cdef In r = data + start, limit = data + stop
        cdef uint32_t size
        cdef object image
        # What begins with 0xFE and is short ends the rows; 0xFF begins an error.
        while limit - r > 4:
            size = <uint32_t> little(r, 3)
            if r[3] != sequence or size == 0xFFFFFF or limit - r - 4 < size:
                break
            if size == 0 or r[4] == 0xFF or (r[4] == 0xFE and size < 9):
                break
            if not self.row(&self.sides[0], r + 4, r + 4 + size, limit):
                break
            image = self.image(&self.sides[0])
            if image is None:
                break
            found.append(image)
            r += 4 + size
            sequence = (sequence + 1) & 0xFF
        return r - data, sequence

    cdef int row(self, Side *side, In r, In end, In limit) except -1:
        # One row, of a packet that ends at `end`; bytes may be looked at up to `limit`. 0: to be handed over.
        cdef Out w
        cdef Op *op
        cdef uint32_t i
        cdef Py_ssize_t size
        side.invalids = 0
        w = reserve(side, side.data, self.most)
        if w == NULL:
            return 0
        for i in range(self.width):
            op = &self.ops[i]
            side.starts[i] = w - side.data
            if r >= end:
                return 0
            size = r[0]
            r += 1
            if size == 0xFB:
                w[0] = 0
                w += 1
                continue
            if size > 0xFB:
                if size > 0xFD or end - r < size - 0xFA:
                    return 0
                size -= 0xFA
                r, size = r + size, <Py_ssize_t> little(r, <int> size)
            if end - r < size:
                return 0
            w = self.value(w, side, op, i, r, size, limit)
            if w == NULL:
                return 0
            r += size
        if r != end:
            return 0
        side.starts[self.width] = w - side.data
        if self.masked:
            w = self._masked(side)
            if w == NULL:
                return 0
        if self.dates:
            w = put_invalid(w, side, self.ops)
        side.size = w - side.data
        return 1

    cdef inline Out value(self, Out w, Side *side, const Op *op, uint32_t i, In r, Py_ssize_t size,
                          In limit) except? NULL:
        if op.code == TEXT:
            w = reserve(side, w, size + self.most)
            return NULL if w == NULL else put_sized(w, r, limit, size)
        elif op.code == TEXT_INT:
            return put_text_int(w, r, size)
        elif op.code == TEXT_DECIMAL:
            return put_text_decimal(w, op.b, r, size)
        elif op.code == TEXT_DATETIME:
            return put_text_moment(w, side, i, r, size, <int> op.a)
        elif op.code == TEXT_DATE:
            return put_text_moment(w, side, i, r, size, -1)
        elif op.code == TEXT_DOUBLE:
            return put_text_double(w, r, size, False)
        elif op.code == TEXT_FLOAT:
            return put_text_double(w, r, size, True)
        elif op.code == TEXT_UNSIGNED_64:
            return put_text_unsigned(w, r, size)
        elif op.code == TEXT_TIME:
            return put_text_time(w, r, size)
        elif op.code == TEXT_BIT:
            return put_text_bit(w, op, r, size)
        elif op.code == VECTOR:
            w = reserve(side, w, size + self.most)
            return NULL if w == NULL else put_vector(w, r, size)
        elif op.code == UTF8 or op.code == TABLE or op.code == CALL_TEXT:
            return put_text(w, side, op, r, limit, size, self.most)
        elif op.code == CALL:
            return put_called(w, side, op, r, size, self.most)
        return NULL


def snapshot_records(Envelope envelope not None, list images not None, bytes head not None, bytes tail not None):
    cdef list found = []
    cdef object image, item
    cdef bytes row, key, by, framed, value
    cdef Out w
    cdef Py_ssize_t before = PyBytes_GET_SIZE(envelope.key_head)
    cdef Py_ssize_t around = PyBytes_GET_SIZE(head) + PyBytes_GET_SIZE(tail)
    for image in images:
        if not PyTuple_Check(image) or PyTuple_GET_SIZE(image) != 3:
            raise TypeError("an image is a tuple of three")
        row, key, by = <object> PyTuple_GET_ITEM(image, 0), <object> PyTuple_GET_ITEM(image, 1), \
            <object> PyTuple_GET_ITEM(image, 2)
        if row is None or key is None:
            raise TypeError("an image has a row and a key")
        framed = PyBytes_FromStringAndSize(NULL, before + PyBytes_GET_SIZE(key))
        put_all(put_all(<Out> PyBytes_AS_STRING(framed), envelope.key_head), key)
        if by is None:
            by = framed
        value = PyBytes_FromStringAndSize(NULL, around + PyBytes_GET_SIZE(row))
        w = put_all(put_all(<Out> PyBytes_AS_STRING(value), head), row)
        put_all(w, tail)
        item = PyTuple_New(3)
        put_item(item, 0, framed)
        put_item(item, 1, envelope.partition(by))
        put_item(item, 2, value)
        PyObject_GC_UnTrack(<PyObject *> item)
        found.append(item)
    return found
