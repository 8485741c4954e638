# How scalars are read and written. NULL without an exception: bytes that the schema does not
# explain, or a value that Python reads in a way of its own; the caller leaves the record to the Python way.

import orjson

from libc.math cimport isfinite, rint

cdef int64_t FIRST_DAY = -719162
cdef int64_t LAST_DAY = 2932896
cdef int64_t DAY_US = 86400000000

cdef object dumps = orjson.dumps


cdef inline void put_day(Bytes out, int64_t day) noexcept:
    # https://howardhinnant.github.io/date_algorithms.html, civil_from_days.
    cdef int64_t z = day + 719468
    cdef int64_t era = z // 146097
    cdef int64_t of_era = z - era * 146097
    cdef int64_t year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    cdef int64_t of_year = of_era - (365 * year + year // 4 - year // 100)
    cdef int64_t shifted = (5 * of_year + 2) // 153
    cdef int64_t month = shifted + 3 if shifted < 10 else shifted - 9
    year += era * 400 + (month <= 2)
    out.pair(<unsigned int> (year // 100))
    out.pair(<unsigned int> (year % 100))
    out.byte(45)
    out.pair(<unsigned int> month)
    out.byte(45)
    out.pair(<unsigned int> (of_year - (153 * shifted + 2) // 5 + 1))


cdef inline void put_time(Bytes out, int64_t us) noexcept:
    cdef int64_t seconds = us // 1000000
    out.pair(<unsigned int> (seconds // 3600))
    out.byte(58)
    out.pair(<unsigned int> (seconds // 60 % 60))
    out.byte(58)
    out.pair(<unsigned int> (seconds % 60))
    out.byte(46)
    out.padded(<uint64_t> (us % 1000000), 6)


cdef In put_temporal(Bytes out, const Step *step, In r, In end) except? NULL:
    cdef int64_t value, day
    r = varint(r, end, &value)
    if r == NULL:
        return NULL
    out.reserve(48)
    out.byte(34)
    if step.code == DATE:
        if not FIRST_DAY <= value <= LAST_DAY:
            return NULL
        put_day(out, value)
    elif step.code == TIME:
        if not 0 <= value < DAY_US // step.a:
            return NULL
        put_time(out, value * step.a)
    else:
        if not FIRST_DAY * (DAY_US // step.a) <= value < (LAST_DAY + 1) * (DAY_US // step.a):
            return NULL
        value *= step.a
        # Towards the past, as C divides towards zero.
        day = (value if value >= 0 else value - DAY_US + 1) // DAY_US
        put_day(out, day)
        out.byte(84)
        put_time(out, value - day * DAY_US)
        if step.b:
            out.byte(90)
    out.byte(34)
    return r


cdef inline bint put_short_double(Bytes out, double value) noexcept:
    # At most six digits behind the point and fifteen in all: no other double has them, so they are the shortest.
    cdef double size = -value if value < 0 else value
    cdef uint64_t whole, part
    cdef double scaled
    if not 1e-3 <= size < 1e9:
        return False
    scaled = rint(size * 1e6)
    if scaled / 1e6 != size:
        return False
    whole, part = <uint64_t> scaled // 1000000, <uint64_t> scaled % 1000000
    if value < 0:
        out.byte(45)
    out.digits(whole)
    out.byte(46)
    out.padded(part, 6)
    while out.data[out.at - 1] == 48 and out.data[out.at - 2] != 46:
        out.at -= 1
    return True


cdef In put_double(Bytes out, const Step *step, In r, In end) except? NULL:
    cdef double value
    cdef float single
    cdef bytes found
    if end - r < (4 if step.code == FLOAT else 8):
        return NULL
    if step.code == FLOAT:
        memcpy(&single, r, 4)
        value = single
        r += 4
    else:
        memcpy(&value, r, 8)
        r += 8
    if not isfinite(value):
        return NULL
    out.reserve(32)
    if not put_short_double(out, value):
        found = dumps(value)
        out.label(found)
    return r


cdef In put_decimal(Bytes out, const Step *step, In r, In end, bint quoted) except? NULL:
    # At most 8 bytes are read here, longer ones by Python.
    cdef int64_t size, i, scale = step.b, count
    cdef uint64_t value = 0
    cdef uint8_t found[24]
    cdef bint minus
    cdef str digits
    cdef bytes encoded
    r = sized(r, end, step.a, &size)
    if r == NULL or size > 100:
        return NULL
    minus = size > 0 and r[0] >> 7 == 1
    if size <= 8:
        value = ~<uint64_t> 0 if minus else 0
        for i in range(size):
            value = value << 8 | r[i]
        if minus:
            value = ~value + 1
        count = 0
        while value or not count:
            count += 1
            found[24 - count] = <uint8_t> (48 + value % 10)
            value = value // 10
        if count > step.order[0]:
            return NULL
        put_digits(out, found + 24 - count, count, scale, minus, quoted)
    else:
        digits = str(int.from_bytes(PyBytes_FromStringAndSize(<const char *> r, size), "big", signed=True))
        encoded = digits.encode()
        count = PyBytes_GET_SIZE(encoded) - minus
        if count > step.order[0]:
            return NULL
        put_digits(out, <In> PyBytes_AS_STRING(encoded) + minus, count, scale, minus, quoted)
    return r + size


cdef int put_digits(Bytes out, In digits, int64_t count, int64_t scale, bint minus, bint quoted) except -1:
    cdef int64_t i
    out.reserve(count + scale + 8)
    if quoted:
        out.byte(34)
    if minus:
        out.byte(45)
    if count > scale:
        out.raw(digits, count - scale)
        digits, count = digits + count - scale, scale
    else:
        out.byte(48)
    if scale:
        out.byte(46)
        for i in range(scale - count):
            out.byte(48)
        out.raw(digits, count)
    if quoted:
        out.byte(34)
    return 0


cdef In put_uuid(Bytes out, In r, In end, bint quoted) except? NULL:
    # As everybody writes one; another text is Python's.
    cdef int64_t size
    cdef int i
    cdef uint8_t each
    r = sized(r, end, 0, &size)
    if r == NULL or size != 36:
        return NULL
    out.reserve(40)
    if quoted:
        out.byte(34)
    for i in range(36):
        each = r[i]
        if i == 8 or i == 13 or i == 18 or i == 23:
            if each != 45:
                return NULL
        elif 65 <= each <= 70:
            each += 32
        elif not (48 <= each <= 57 or 97 <= each <= 102):
            return NULL
        out.byte(each)
    if quoted:
        out.byte(34)
    return r + 36
