# What is done with the bytes of one column: an `Op`. A program is an array of them, one for each column in order.

from cpython.object cimport PyObject
from libc.stdlib cimport calloc, free, malloc, realloc

cdef enum Code:
    # Bytes of a known size …
    PASS
    SIGNED
    UNSIGNED
    UNSIGNED_64
    FLOAT
    DOUBLE
    DECIMAL
    DECIMAL_LONG
    DECIMAL_WIDE
    DECIMAL_OLD
    YEAR
    DATE
    DATETIME
    DATETIME_OLD
    DATETIME_HIRES
    TIMESTAMP
    TIMESTAMP_OLD
    TIMESTAMP_HIRES
    TIME
    TIME_OLD
    TIME_HIRES
    BIT
    ENUM
    SET
    CALL
    # … and those that begin with their length.
    PASS_SIZED
    BINARY
    UTF8
    UTF8MB3
    TABLE
    CALL_TEXT
    JSON
    VECTOR
    UUID
    INET4
    # Values of a SELECT.
    TEXT
    TEXT_INT
    TEXT_UNSIGNED_64
    TEXT_DECIMAL
    TEXT_FLOAT
    TEXT_DOUBLE
    TEXT_DATE
    TEXT_DATETIME
    TEXT_TIME
    TEXT_BIT

_CODES = {
    "pass": PASS, "signed": SIGNED, "unsigned": UNSIGNED, "unsigned_64": UNSIGNED_64, "float": FLOAT, "double": DOUBLE,
    "decimal": DECIMAL, "decimal_long": DECIMAL_LONG,
    "decimal_wide": DECIMAL_WIDE, "decimal_old": DECIMAL_OLD, "year": YEAR, "date": DATE, "datetime": DATETIME,
    "datetime_old": DATETIME_OLD, "datetime_hires": DATETIME_HIRES, "timestamp": TIMESTAMP,
    "timestamp_old": TIMESTAMP_OLD, "timestamp_hires": TIMESTAMP_HIRES, "time": TIME, "time_old": TIME_OLD,
    "time_hires": TIME_HIRES, "bit": BIT, "enum": ENUM, "set": SET, "call": CALL, "pass_sized": PASS_SIZED,
    "binary": BINARY, "utf8": UTF8, "utf8mb3": UTF8MB3, "table": TABLE, "call_text": CALL_TEXT, "json": JSON, "vector": VECTOR,
    "uuid": UUID, "inet4": INET4, "text": TEXT, "text_int": TEXT_INT, "text_unsigned_64": TEXT_UNSIGNED_64,
    "text_decimal": TEXT_DECIMAL, "text_float": TEXT_FLOAT, "text_double": TEXT_DOUBLE, "text_date": TEXT_DATE,
    "text_datetime": TEXT_DATETIME, "text_time": TEXT_TIME, "text_bit": TEXT_BIT,
}

cdef struct Op:
    Code code
    uint32_t size           # bytes of a value, or of its length
    uint32_t a              # digits, bits, precision, or the size that a binary value is padded to
    uint32_t b              # scale
    uint32_t count          # groups, labels
    uint8_t sizes[16]       # of a decimal's groups
    uint32_t powers[16]     # ten to the digits of each
    bint ascii              # text: ASCII stays as it is
    In data                 # a table of characters; labels end to end
    uint32_t *places        # of the labels in `data`, and their end
    In name                 # of a column of dates
    uint32_t name_size
    PyObject *call          # bytes → piece (CALL), bytes → UTF-8 (CALL_TEXT, JSON)
    PyObject *open          # stored bytes → the value's, or NULL
    PyObject *mask          # piece → the piece that leaves, or NULL
    Py_ssize_t most         # bytes that a value may take in the row, of sized ones beside the value itself


cdef struct Part:
    # A column of the key (`union_`: with its branch), or one that chooses the partition.
    uint32_t index
    bint union_


cdef struct Invalid:
    # A date that no calendar has, and what the server shows of it; `digits` -1: a date without a time of day.
    uint32_t op, year, month, day, second, micros
    int digits


cdef struct Side:
    # One image that was read: the bytes of its row, and where in them each column's piece begins (and the last ends).
    Out data
    Py_ssize_t room
    Py_ssize_t size
    Py_ssize_t *starts
    Invalid *invalid
    int invalids


cdef inline Out reserve(Side *side, Out w, Py_ssize_t more) noexcept nogil:
    # `w` in a buffer that holds `more` bytes from there on; NULL when there is no memory (the buffer stays).
    cdef Py_ssize_t at = w - side.data, room
    cdef Out found
    if side.room - at >= more:
        return w
    room = 2 * (at + more)
    found = <Out> realloc(side.data, room)
    if found == NULL:
        return NULL
    side.data, side.room = found, room
    return found + at
