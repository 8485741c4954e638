# Kafka's partitioner's hash, `record.key.murmur2`. https://github.com/apache/kafka,
# `org.apache.kafka.common.utils.Utils.murmur2`.


cdef inline uint32_t murmur2_of(const uint8_t *data, Py_ssize_t length) noexcept nogil:
    cdef uint32_t m = 0x5BD1E995, h = 0x9747B28CU ^ <uint32_t> length, k
    cdef Py_ssize_t i = 0, whole = length & ~3
    while i < whole:
        k = <uint32_t> data[i] | <uint32_t> data[i + 1] << 8 | <uint32_t> data[i + 2] << 16 | <uint32_t> data[i + 3] << 24
        k *= m
        k = (k ^ k >> 24) * m
        h = h * m ^ k
        i += 4
    if whole < length:
        k = 0
        for i in range(length - whole):
            k |= <uint32_t> data[whole + i] << (8 * i)
        h = (h ^ k) * m
    h = (h ^ h >> 13) * m
    return h ^ h >> 15
