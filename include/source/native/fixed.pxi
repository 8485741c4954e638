# Values whose size the column alone tells.

cdef inline Out put_fixed(Out w, Side *side, const Op *op, uint32_t i, In r, In end) noexcept nogil:
    # A value of a known size; NULL for bytes that no server writes.
    if op.code == SIGNED:
        return put_long_piece(w, signed_of(loaded(r, end, op.size), op.size))
    elif op.code == UNSIGNED:
        return put_long_piece(w, <int64_t> loaded(r, end, op.size))
    elif op.code == UNSIGNED_64:
        return put_unsigned_decimal_piece(w, little(r, 8))
    elif op.code == FLOAT:
        w[0] = 2
        return put_bytes(w + 1, r, 4)
    elif op.code == DOUBLE:
        w[0] = 2
        return put_bytes(w + 1, r, 8)
    elif op.code == DECIMAL:
        return put_decimal(w, op, loaded_big(r, end, op.size))
    elif op.code == DECIMAL_LONG:
        return put_decimal_long(w, op, r)
    elif op.code == DECIMAL_WIDE:
        return put_decimal_wide(w, op, r)
    elif op.code == DECIMAL_OLD:
        return put_decimal_old(w, op, r)
    elif op.code == YEAR:
        return put_long_piece(w, r[0] + 1900 if r[0] else 0)
    elif op.code == DATE:
        return put_date(w, side, i, <uint32_t> loaded(r, end, 3))
    elif op.code == DATETIME:
        return put_datetime(w, side, i, op.a, loaded_big(r, end, op.size))
    elif op.code == DATETIME_OLD:
        return put_datetime_old(w, side, i, little(r, 8))
    elif op.code == DATETIME_HIRES:
        return put_datetime_hires(w, side, i, op.a, loaded_big(r, end, op.size))
    elif op.code == TIMESTAMP:
        return put_timestamp(w, side, i, op.a, loaded_big(r, end, op.size))
    elif op.code == TIMESTAMP_OLD:
        return put_stamp(w, side, i, <uint32_t> little(r, 4), 0, 0)
    elif op.code == TIMESTAMP_HIRES:
        return put_timestamp_hires(w, side, i, op.size, op.a, loaded_big(r, end, op.size))
    elif op.code == TIME:
        return put_time(w, op.a, loaded_big(r, end, op.size))
    elif op.code == TIME_OLD:
        return put_time_old(w, signed_of(loaded(r, end, 3), 3))
    elif op.code == TIME_HIRES:
        return put_time_hires(w, op.a, loaded_big(r, end, op.size))
    elif op.code == BIT:
        return put_bit(w, op, loaded_big(r, end, op.size))
    elif op.code == ENUM:
        return put_enum(w, op, loaded(r, end, op.size))
    else:
        return put_set(w, op, loaded(r, end, op.size))
