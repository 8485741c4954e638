# Dates and times (`temporal.py` is the same in Python). NULL: bytes that no server writes.
#
# Days: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil.

cdef enum:
    NO_DAY = -2147483647

cdef int64_t LONGEST_TIME_US = (838 * 3600 + 59 * 60 + 59) * <int64_t> 1000000 + 999999
cdef uint32_t[7] FRACTION_BYTES = [0, 1, 1, 2, 2, 3, 3]
cdef uint32_t[4] FRACTION_MOST = [1, 100, 10000, 1000000]
cdef uint32_t[4] FRACTION_UNIT = [1000000, 10000, 100, 1]
cdef uint32_t[7] POWERS = [1, 10, 100, 1000, 10000, 100000, 1000000]
cdef uint8_t[13] MONTH_DAYS = [0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


cdef inline int days_of(uint32_t year, uint32_t month, uint32_t day) noexcept nogil:
    # Days since 1970, NO_DAY for a day that no calendar has; month <= 12.
    cdef uint32_t era, of_era, of_year, last
    if year == 0 or month == 0 or day == 0:
        return NO_DAY
    last = MONTH_DAYS[month]
    if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        last = 29
    if day > last:
        return NO_DAY
    if month <= 2:
        year -= 1
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return <int> (era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year) - 719468


cdef inline void note(Side *side, uint32_t op, uint32_t year, uint32_t month, uint32_t day, uint32_t second,
                      uint32_t micros, int digits) noexcept nogil:
    cdef Invalid *found = &side.invalid[side.invalids]
    side.invalids += 1
    found.op, found.year, found.month, found.day = op, year, month, day
    found.second, found.micros, found.digits = second, micros, digits


cdef inline Out put_moment(Out w, Side *side, uint32_t op, uint64_t year, uint32_t month, uint32_t day,
                           uint32_t second, uint32_t micros, int digits) noexcept nogil:
    # A date (`digits` -1) or datetime of its parts.
    cdef int days
    if year > 9999 or month > 12 or day > 31:
        return NULL
    days = days_of(<uint32_t> year, month, day)
    if days == NO_DAY:
        note(side, op, <uint32_t> year, month, day, second, micros, digits)
        w[0] = 0
        return w + 1
    if digits < 0:
        return put_long_piece(w, days)
    return put_long_piece(w, (days * <int64_t> 86400 + second) * 1000000 + micros)


cdef inline Out put_date(Out w, Side *side, uint32_t op, uint32_t raw) noexcept nogil:
    return put_moment(w, side, op, raw >> 9, raw >> 5 & 15, raw & 31, 0, 0, -1)


cdef inline Out put_datetime(Out w, Side *side, uint32_t op, uint32_t digits, uint64_t raw) noexcept nogil:
    cdef uint32_t bytes_ = FRACTION_BYTES[digits], part = <uint32_t> (raw & ((1ULL << 8 * bytes_) - 1))
    cdef uint32_t months, hour, minute, second
    raw >>= 8 * bytes_
    if raw < 0x8000000000ULL or part >= FRACTION_MOST[bytes_]:
        return NULL
    raw -= 0x8000000000ULL
    months, hour, minute, second = <uint32_t> (raw >> 22), raw >> 12 & 31, raw >> 6 & 63, raw & 63
    if hour > 23 or minute > 59 or second > 59:
        return NULL
    return put_moment(w, side, op, months // 13, months % 13, raw >> 17 & 31, (hour * 60 + minute) * 60 + second,
                      part * FRACTION_UNIT[bytes_], <int> digits)


cdef inline Out put_datetime_old(Out w, Side *side, uint32_t op, uint64_t raw) noexcept nogil:
    cdef uint64_t day = raw // 1000000
    cdef uint32_t clock = <uint32_t> (raw % 1000000)
    cdef uint32_t hour = clock // 10000, minute = clock // 100 % 100, second = clock % 100
    if hour > 23 or minute > 59 or second > 59:
        return NULL
    return put_moment(w, side, op, day // 10000, day // 100 % 100, day % 100, (hour * 60 + minute) * 60 + second, 0, 0)


cdef inline Out put_datetime_hires(Out w, Side *side, uint32_t op, uint32_t digits,
                                   uint64_t raw) noexcept nogil:
    cdef uint64_t days
    cdef uint32_t part = <uint32_t> (raw % POWERS[digits]), clock
    raw //= POWERS[digits]
    clock = <uint32_t> (raw % 86400)
    days = raw // 86400
    return put_moment(w, side, op, days // 416, <uint32_t> (days // 32 % 13), days % 32, clock,
                      part * POWERS[6 - digits], <int> digits)


cdef inline Out put_stamp(Out w, Side *side, uint32_t op, uint32_t seconds, uint32_t micros, int digits) noexcept nogil:
    if seconds:
        return put_long_piece(w, seconds * <int64_t> 1000000 + micros)
    # The server keeps 0 for the zero date alone.
    note(side, op, 0, 0, 0, 0, micros, digits)
    w[0] = 0
    return w + 1


cdef inline Out put_timestamp(Out w, Side *side, uint32_t op, uint32_t digits, uint64_t raw) noexcept nogil:
    cdef uint32_t bytes_ = FRACTION_BYTES[digits], part = <uint32_t> (raw & ((1ULL << 8 * bytes_) - 1))
    if part >= FRACTION_MOST[bytes_]:
        return NULL
    return put_stamp(w, side, op, <uint32_t> (raw >> 8 * bytes_), part * FRACTION_UNIT[bytes_], <int> digits)


cdef inline Out put_timestamp_hires(Out w, Side *side, uint32_t op, uint32_t size, uint32_t digits,
                                    uint64_t raw) noexcept nogil:
    cdef uint64_t part = raw & ((1ULL << 8 * (size - 4)) - 1)
    if part >= POWERS[digits]:
        return NULL
    return put_stamp(w, side, op, <uint32_t> (raw >> 8 * (size - 4)), <uint32_t> part * POWERS[6 - digits], <int> digits)


cdef inline Out put_signed_time(Out w, int64_t micros) noexcept nogil:
    if micros > LONGEST_TIME_US or micros < -LONGEST_TIME_US:
        return NULL
    return put_long_piece(w, micros)


cdef inline Out put_time(Out w, uint32_t digits, uint64_t value) noexcept nogil:
    cdef uint32_t bytes_ = FRACTION_BYTES[digits], shift = 8 * bytes_, part, clock
    cdef int64_t raw = <int64_t> value - (<int64_t> 0x800000 << shift), micros
    cdef bint minus = raw < 0
    if minus:
        raw = -raw
    clock, part = <uint32_t> (raw >> shift), <uint32_t> (raw & ((<int64_t> 1 << shift) - 1))
    if clock >> 22 or part >= FRACTION_MOST[bytes_]:
        return NULL
    if clock >> 12 > 838 or (clock >> 6 & 63) > 59 or (clock & 63) > 59:
        return NULL
    micros = (((clock >> 12) * 60 + (clock >> 6 & 63)) * 60 + (clock & 63)) * <int64_t> 1000000
    micros += part * FRACTION_UNIT[bytes_]
    return put_signed_time(w, -micros if minus else micros)


cdef inline Out put_time_old(Out w, int64_t raw) noexcept nogil:
    cdef uint32_t clock = <uint32_t> (raw if raw >= 0 else -raw)
    cdef uint32_t hour = clock // 10000, minute = clock // 100 % 100, second = clock % 100
    cdef int64_t micros
    if hour > 838 or minute > 59 or second > 59:
        return NULL
    micros = ((hour * 60 + minute) * 60 + second) * <int64_t> 1000000
    return put_signed_time(w, -micros if raw < 0 else micros)


cdef inline Out put_time_hires(Out w, uint32_t digits, uint64_t value) noexcept nogil:
    # 6 bytes times 10^6 fit 64 bits: a finer unit goes with a smaller factor.
    cdef int64_t raw = <int64_t> value - 3020400 * <int64_t> POWERS[digits]
    return put_signed_time(w, raw * POWERS[6 - digits])


cdef inline Out put_two(Out w, uint32_t value) noexcept nogil:
    w[0] = <uint8_t> (48 + value // 10)
    w[1] = <uint8_t> (48 + value % 10)
    return w + 2


cdef inline Out put_shown(Out w, const Invalid *bad) noexcept nogil:
    # `YYYY-MM-DD[ hh:mm:ss[.ffffff]]`, cut to the digits declared.
    cdef uint32_t micros = bad.micros
    cdef int i
    w = put_two(put_two(w, bad.year // 100), bad.year % 100)
    w[0] = 45
    w = put_two(w + 1, bad.month)
    w[0] = 45
    w = put_two(w + 1, bad.day)
    if bad.digits < 0:
        return w
    w[0] = 32
    w = put_two(w + 1, bad.second // 3600)
    w[0] = 58
    w = put_two(w + 1, bad.second // 60 % 60)
    w[0] = 58
    w = put_two(w + 1, bad.second % 60)
    if bad.digits == 0:
        return w
    w[0] = 46
    for i in range(5, -1, -1):
        w[1 + i] = <uint8_t> (48 + micros % 10)
        micros //= 10
    return w + 1 + bad.digits


cdef inline Out put_invalid(Out w, const Side *side, const Op *ops) noexcept nogil:
    # The field of invalid dates: a map of names and texts.
    cdef const Invalid *bad
    cdef const Op *op
    cdef Out start
    cdef uint8_t size
    cdef int i
    if not side.invalids:
        w[0] = 0
        return w + 1
    w = put_length_piece(w, side.invalids)
    for i in range(side.invalids):
        bad = &side.invalid[i]
        op = &ops[bad.op]
        w = put_varint(w, <uint64_t> op.name_size << 1)
        w = put_bytes(w, op.name, op.name_size)
        # At most 26 characters: the length takes one byte.
        start = w
        w = put_shown(w + 1, bad)
        size = <uint8_t> (w - start - 1)
        start[0] = size << 1
    w[0] = 0
    return w + 1
