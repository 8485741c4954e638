# Reading and writing of bytes. Whoever calls has made sure that there is room: readers look at the bytes named, writers
# may touch as many as SLACK bytes beyond what they write.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memmove, memset

ctypedef const uint8_t *In
ctypedef uint8_t *Out

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define LB_BITS(v) ((v) ? 64 - __builtin_clzll(v) : 0)
    #else
    static inline int LB_BITS(unsigned long long v) { int n = 0; while (v) { n++; v >>= 1; } return n; }
    #endif
    """
    int bits_of "LB_BITS"(uint64_t v) noexcept nogil

cdef enum:
    SLACK = 32

cdef uint64_t HIGH_BITS = 0x8080808080808080ULL


cdef inline uint64_t little(In r, int size) noexcept nogil:
    cdef uint64_t found = 0
    cdef int i
    for i in range(size):
        found |= <uint64_t> r[i] << (8 * i)
    return found


cdef inline uint64_t big(In r, int size) noexcept nogil:
    cdef uint64_t found = 0
    cdef int i
    for i in range(size):
        found = found << 8 | r[i]
    return found


cdef inline int64_t signed_of(uint64_t value, int size) noexcept nogil:
    # `value` as a signed number of `size` bytes.
    cdef int unused = 64 - 8 * size
    return <int64_t> (value << unused) >> unused


cdef inline uint64_t loaded(In r, In end, int size) noexcept nogil:
    # As `little`, of 1 to 8 bytes: in one step, but near the end.
    if end - r >= 8:
        return little(r, 8) << (64 - 8 * size) >> (64 - 8 * size)
    return little(r, size)


cdef inline uint64_t loaded_big(In r, In end, int size) noexcept nogil:
    return big(r, 8) >> (64 - 8 * size) if end - r >= 8 else big(r, size)


cdef inline Out put_varint(Out w, uint64_t z) noexcept nogil:
    while z > 0x7F:
        w[0] = <uint8_t> (z | 0x80)
        w += 1
        z >>= 7
    w[0] = <uint8_t> z
    return w + 1


cdef inline Out put_long(Out w, int64_t value) noexcept nogil:
    return put_varint(w, (<uint64_t> value << 1) ^ <uint64_t> (value >> 63))


cdef inline Out put_long_piece(Out w, int64_t value) noexcept nogil:
    w[0] = 2
    return put_long(w + 1, value)


cdef inline Out put_length_piece(Out w, uint64_t length) noexcept nogil:
    w[0] = 2
    return put_varint(w + 1, length << 1)


cdef inline Out put_big(Out w, uint64_t value, int size) noexcept nogil:
    # The `size` lowest bytes, most significant first; eight are written.
    cdef int i
    value = value << (64 - 8 * size) if size else 0
    for i in range(8):
        w[i] = <uint8_t> (value >> (56 - 8 * i))
    return w + size


cdef inline Out put_decimal_piece(Out w, int64_t value) noexcept nogil:
    cdef uint64_t magnitude = <uint64_t> (value if value >= 0 else ~value)
    cdef int size = (bits_of(magnitude) + 8) >> 3
    w[0] = 2
    w[1] = <uint8_t> (size << 1)
    return put_big(w + 2, <uint64_t> value, size)


cdef inline Out put_unsigned_decimal_piece(Out w, uint64_t value) noexcept nogil:
    if not value >> 63:
        return put_decimal_piece(w, <int64_t> value)
    w[0] = 2
    w[1] = 18
    w[2] = 0
    return put_big(w + 3, value, 8)


cdef inline Out put_short(Out w, In r, In end, size_t size) noexcept nogil:
    # As `put_bytes`, of mostly few bytes; 32 may be written.
    if size <= 32 and end - r >= 32:
        memcpy(w, r, 32)
    else:
        memcpy(w, r, size)
    return w + size


cdef inline Out put_bytes(Out w, const void *data, size_t size) noexcept nogil:
    memcpy(w, data, size)
    return w + size
