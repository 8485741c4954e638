# Bytes that grow, and texts and numbers written to them. Whoever writes has reserved the room.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdlib cimport malloc, qsort, realloc
from libc.string cimport memcmp, memmove

ctypedef uint8_t *Out

cdef enum:
    KEPT = 1 << 20

cdef uint64_t ONES = 0x0101010101010101ULL
cdef const char *HEX = "0123456789abcdef"
cdef const char *BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

cdef const char *PAIRS = (
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
    "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"
)


cdef class Bytes:
    """What is being written."""

    cdef Out data
    cdef size_t at, room

    def __cinit__(self):
        self.room = 4096
        self.data = <Out> malloc(self.room)
        if self.data == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.data)

    cdef inline int reserve(self, size_t more) except -1:
        if self.room - self.at < more:
            self.grow(more)
        return 0

    cdef int grow(self, size_t more) except -1:
        cdef size_t room = 2 * (self.at + more)
        cdef Out data = <Out> realloc(self.data, room)
        if data == NULL:
            raise MemoryError
        self.data, self.room = data, room
        return 0

    cdef int empty(self) except -1:
        # One long value is no reason to keep its room for ever.
        cdef Out data
        self.at = 0
        if self.room > KEPT:
            data = <Out> realloc(self.data, 4096)
            if data != NULL:
                self.data, self.room = data, 4096
        return 0

    cdef inline bytes taken(self):
        return PyBytes_FromStringAndSize(<const char *> self.data, self.at)

    cdef inline void byte(self, uint8_t value) noexcept:
        self.data[self.at] = value
        self.at += 1

    cdef inline void raw(self, const void *data, size_t size) noexcept:
        memcpy(self.data + self.at, data, size)
        self.at += size

    cdef inline int label(self, bytes text) except -1:
        self.reserve(PyBytes_GET_SIZE(text))
        self.raw(PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
        return 0

    cdef inline void pair(self, unsigned int value) noexcept:
        # Two digits.
        memcpy(self.data + self.at, PAIRS + 2 * value, 2)
        self.at += 2

    cdef inline void digits(self, uint64_t value) noexcept:
        # At most 20.
        cdef uint8_t found[24]
        cdef int begin = 24
        while value >= 100:
            begin -= 2
            memcpy(found + begin, PAIRS + 2 * (value % 100), 2)
            value = value // 100
        if value >= 10:
            begin -= 2
            memcpy(found + begin, PAIRS + 2 * value, 2)
        else:
            begin -= 1
            found[begin] = <uint8_t> (48 + value)
        self.raw(found + begin, 24 - begin)

    cdef inline void number(self, int64_t value) noexcept:
        # At most 20 bytes.
        if value < 0:
            self.byte(45)
            self.digits(~<uint64_t> value + 1)
        else:
            self.digits(<uint64_t> value)

    cdef inline void padded(self, uint64_t value, int size) noexcept:
        # So many digits, with zeros in front.
        cdef int i
        for i in range(size - 1, -1, -1):
            self.data[self.at + i] = <uint8_t> (48 + value % 10)
            value = value // 10
        self.at += size

    cdef int text(self, In r, size_t size) except -1:
        # A JSON string of UTF-8; 0 where that is none.
        cdef size_t i = 0
        cdef uint64_t eight, odd
        cdef uint8_t each, high = 0
        self.reserve(size + 32)
        self.byte(34)
        while True:
            while i + 8 <= size:
                memcpy(&eight, r + i, 8)
                # A byte below 0x20, a quote or a backslash makes its top bit appear; so may a neighbour of one.
                odd = (eight - ONES * 0x20) | ((eight ^ ONES * 0x22) - ONES) | ((eight ^ ONES * 0x5C) - ONES)
                if (odd & ~eight | eight) & TOP_BITS:
                    break
                memcpy(self.data + self.at, &eight, 8)
                self.at += 8
                i += 8
            if i == size:
                break
            each = r[i]
            high |= each
            i += 1
            if each >= 0x20 and each != 34 and each != 92:
                self.byte(each)
                continue
            self.reserve(size - i + 32)
            self.escaped(each)
        self.byte(34)
        # What is no UTF-8 Python says, as it would have.
        return 1 if high < 0x80 or is_utf8(r, size) else 0

    cdef inline void escaped(self, uint8_t each) noexcept:
        # At most 6 bytes.
        self.byte(92)
        if each == 34 or each == 92:
            self.byte(each)
        elif each == 8:
            self.byte(98)
        elif each == 9:
            self.byte(116)
        elif each == 10:
            self.byte(110)
        elif each == 12:
            self.byte(102)
        elif each == 13:
            self.byte(114)
        else:
            self.raw(b"u00", 3)
            self.byte(HEX[each >> 4])
            self.byte(HEX[each & 15])

    cdef int base64(self, In r, size_t size) except -1:
        cdef uint32_t three
        cdef size_t i = 0
        self.reserve(size // 3 * 4 + 16)
        self.byte(34)
        while i + 3 <= size:
            three = <uint32_t> r[i] << 16 | <uint32_t> r[i + 1] << 8 | r[i + 2]
            self.byte(BASE64[three >> 18])
            self.byte(BASE64[three >> 12 & 63])
            self.byte(BASE64[three >> 6 & 63])
            self.byte(BASE64[three & 63])
            i += 3
        if i < size:
            three = <uint32_t> r[i] << 16 | (<uint32_t> r[i + 1] << 8 if size - i == 2 else 0)
            self.byte(BASE64[three >> 18])
            self.byte(BASE64[three >> 12 & 63])
            self.byte(BASE64[three >> 6 & 63] if size - i == 2 else 61)
            self.byte(61)
        self.byte(34)
        return 0

    cdef int hex(self, In r, size_t size) except -1:
        cdef size_t i
        self.reserve(2 * size + 2)
        for i in range(size):
            self.byte(HEX[r[i] >> 4])
            self.byte(HEX[r[i] & 15])
        return 0
