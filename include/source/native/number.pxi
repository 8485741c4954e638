# Numbers (`number.py` is the same in Python). NULL: bytes that no server writes.


cdef inline Out put_decimal(Out w, const Op *op, uint64_t value) noexcept nogil:
    # At most 18 digits in 8 bytes; `value`: these, big-endian.
    cdef uint64_t every = ~<uint64_t> 0 >> (64 - 8 * op.size), found = 0, group
    cdef uint64_t sign = every ^ every >> 1, minus = 0 if value & sign else every
    cdef uint32_t i, shift = 8 * op.size
    value ^= sign ^ minus
    for i in range(op.count):
        shift -= 8 * op.sizes[i]
        group = value >> shift & (~<uint64_t> 0 >> (64 - 8 * op.sizes[i]))
        if group >= op.powers[i]:
            return NULL
        found = found * op.powers[i] + group
    return put_decimal_piece(w, -<int64_t> found if minus else <int64_t> found)


cdef inline Out put_decimal_long(Out w, const Op *op, In r) noexcept nogil:
    # At most 18 digits.
    cdef uint8_t flip = 0 if r[0] & 0x80 else 0xFF
    cdef uint64_t value = 0, group
    cdef uint32_t i
    cdef int k
    for i in range(op.count):
        group = 0
        for k in range(op.sizes[i]):
            group = group << 8 | (r[k] ^ flip)
        if i == 0:
            group ^= <uint64_t> 0x80 << (8 * (op.sizes[0] - 1))
        if group >= op.powers[i]:
            return NULL
        value = value * op.powers[i] + group
        r += op.sizes[i]
    return put_decimal_piece(w, -<int64_t> value if flip else <int64_t> value)


cdef inline Out put_decimal_wide(Out w, const Op *op, In r) noexcept nogil:
    # At most 65 digits: eight limbs of 32 bits, the lowest first.
    cdef uint8_t flip = 0 if r[0] & 0x80 else 0xFF
    cdef uint32_t limbs[8]
    cdef uint64_t group, carry
    cdef uint32_t i, highest
    cdef int k, bits, size
    memset(limbs, 0, sizeof(limbs))
    for i in range(op.count):
        group = 0
        for k in range(op.sizes[i]):
            group = group << 8 | (r[k] ^ flip)
        if i == 0:
            group ^= <uint64_t> 0x80 << (8 * (op.sizes[0] - 1))
        if group >= op.powers[i]:
            return NULL
        carry = group
        for k in range(8):
            carry += <uint64_t> limbs[k] * op.powers[i]
            limbs[k] = <uint32_t> carry
            carry >>= 32
        r += op.sizes[i]
    # The bytes of a negative number n are those of ~(|n| - 1): so -128 takes one.
    if flip:
        k = 0
        while k < 8 and limbs[k] == 0:
            k += 1
        if k == 8:
            flip = 0
        else:
            limbs[k] -= 1
            while k > 0:
                k -= 1
                limbs[k] = 0xFFFFFFFF
    highest = 7
    while highest > 0 and limbs[highest] == 0:
        highest -= 1
    bits = 32 * highest + bits_of(limbs[highest])
    size = (bits + 8) >> 3
    w[0] = 2
    w[1] = <uint8_t> (size << 1)
    w += 2
    for k in range(size - 1, -1, -1):
        w[0] = <uint8_t> (limbs[k >> 2] >> (8 * (k & 3))) ^ flip
        w += 1
    return w


cdef inline Out put_decimal_old(Out w, const Op *op, In r) noexcept nogil:
    # Text of at most 18 characters.
    cdef uint32_t at = 0, width = op.size, scale = op.b, digits = 0
    cdef uint32_t dot = width - scale - 1 if scale else width
    cdef bint minus = False
    cdef uint64_t value = 0
    while at < width and r[at] == 32:
        at += 1
    if at < width and (r[at] == 45 or r[at] == 43):
        minus = r[at] == 45
        at += 1
    # The point may not stand before or in the sign.
    if at > dot:
        return NULL
    while at < width:
        if at == dot:
            if r[at] != 46:
                return NULL
        else:
            if not 48 <= r[at] <= 57:
                return NULL
            value = value * 10 + (r[at] - 48)
            digits += 1
        at += 1
    if not digits:
        return NULL
    return put_decimal_piece(w, -<int64_t> value if minus else <int64_t> value)


cdef inline Out put_bit(Out w, const Op *op, uint64_t value) noexcept nogil:
    if op.a == 64:
        return put_unsigned_decimal_piece(w, value)
    return NULL if value >> op.a else put_long_piece(w, <int64_t> value)


cdef inline Out put_enum(Out w, const Op *op, uint64_t index) noexcept nogil:
    if index >= op.count:
        return NULL
    return put_short(w, op.data + op.places[index], op.data + op.places[op.count],
                     op.places[index + 1] - op.places[index])


cdef inline Out put_set(Out w, const Op *op, uint64_t bits) noexcept nogil:
    cdef uint64_t size = 0
    cdef uint32_t i
    cdef bint more = False
    if op.count < 64 and bits >> op.count:
        return NULL
    for i in range(op.count):
        if bits >> i & 1:
            size += op.places[i + 1] - op.places[i] + 1
    w = put_length_piece(w, size - 1 if size else 0)
    for i in range(op.count):
        if bits >> i & 1:
            if more:
                w[0] = 44
                w += 1
            more = True
            w = put_bytes(w, op.data + op.places[i], op.places[i + 1] - op.places[i])
    return w
