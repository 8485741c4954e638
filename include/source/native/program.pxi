# A table's rows as a program of `Op`s, and what one image does with it.


cdef bint _fits(const Op *op):
    # What reading and writing of a value take for granted about its sizes.
    if op.code in (PASS, CALL):
        return True
    if op.code == TEXT_DECIMAL and not op.b <= op.a <= 18:
        return False
    if op.code == TEXT_DATETIME and op.a > 6:
        return False
    if op.code == TEXT_BIT and op.a > 64:
        return False
    if op.code >= PASS_SIZED:
        return 1 <= op.size <= 4
    if op.code in (DATETIME, DATETIME_HIRES, TIMESTAMP, TIMESTAMP_HIRES, TIME, TIME_HIRES) and op.a > 6:
        return False
    if op.code in (DATETIME, TIMESTAMP, TIME):
        return op.size == FRACTION_BYTES[op.a] + (5 if op.code == DATETIME else 4 if op.code == TIMESTAMP else 3)
    if op.code in (DECIMAL_LONG, DECIMAL_WIDE):
        return op.a <= (18 if op.code == DECIMAL_LONG else 65)
    if op.code == DECIMAL:
        return op.a <= 18 and 1 <= op.size <= 8
    if op.code == DECIMAL_OLD:
        return 1 <= op.size <= 18 and op.b < op.size
    if op.code == BIT and op.a > 64:
        return False
    if op.code == TIMESTAMP_HIRES and op.size < 4:
        return False
    least = {UNSIGNED_64: 8, FLOAT: 4, DOUBLE: 8, DATE: 3, DATETIME_OLD: 8, TIMESTAMP_OLD: 4, TIME_OLD: 3}
    return least.get(op.code, 1) <= op.size <= 8


cdef class Program:
    """The rows of one layout; see `_decoder.pyi`."""

    cdef Op *ops
    cdef uint32_t width
    cdef uint32_t null_size
    cdef Py_ssize_t most        # bytes that a row takes at most, beside its sized values
    cdef bint dates
    cdef bint masked
    cdef bint busy
    cdef Side sides[2]
    cdef Part *keys             # the key's columns, then those that choose the partition
    cdef uint32_t key_count
    cdef uint32_t by_count
    cdef type image_type
    cdef list kept              # what the ops point at

    def __cinit__(self, list ops, list keys, list by, bint dates, type image_type):
        cdef uint32_t i
        cdef Side *side
        if not issubclass(image_type, tuple) or not ops:
            raise ValueError("a program needs columns, and tuples for its images")
        self.kept, self.image_type, self.dates = [ops], image_type, dates
        self.null_size = (len(ops) + 7) // 8
        self.ops = <Op *> calloc(len(ops), sizeof(Op))
        if self.ops == NULL:
            raise MemoryError
        self.width = len(ops)
        self._parts(keys, by)
        self.most = 16 + SLACK
        for i in range(self.width):
            self._compile(&self.ops[i], ops[i])
            self.most += self.ops[i].most
        for i in range(2):
            side = &self.sides[i]
            side.room = self.most + 1024
            side.data = <Out> malloc(side.room)
            side.starts = <Py_ssize_t *> calloc(self.width + 1, sizeof(Py_ssize_t))
            side.invalid = <Invalid *> calloc(self.width, sizeof(Invalid))
            if side.data == NULL or side.starts == NULL or side.invalid == NULL:
                raise MemoryError

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.width):
            free(self.ops[i].places)
        free(self.ops)
        free(self.keys)
        for i in range(2):
            free(self.sides[i].data)
            free(self.sides[i].starts)
            free(self.sides[i].invalid)

    cdef _compile(self, Op *op, tuple told):
        # (code, size, a, b, data, open, mask); what `data` is depends on the code.
        cdef bytes name, blob
        code, size, a, b, data, opener, mask = told
        op.code, op.size, op.a, op.b = _CODES[code], size, a, b
        if not _fits(op):
            raise ValueError(f"no {code} has {size} bytes with {a}, {b}")
        op.most = 48
        if op.code in (DECIMAL, DECIMAL_LONG, DECIMAL_WIDE):
            sizes, powers = data
            if not sizes or len(sizes) > 16 or len(sizes) != len(powers) or sum(sizes) != size:
                raise ValueError("a decimal of no or too many groups")
            op.count = len(sizes)
            for i in range(op.count):
                if not 1 <= sizes[i] <= 4:
                    raise ValueError(f"a group of {sizes[i]} bytes")
                op.sizes[i], op.powers[i] = sizes[i], powers[i]
        elif op.code in (DATE, DATETIME, DATETIME_OLD, DATETIME_HIRES, TIMESTAMP, TIMESTAMP_OLD, TIMESTAMP_HIRES,
                         TEXT_DATE, TEXT_DATETIME):
            name = data
            self.kept.append(name)
            op.name, op.name_size = <In> <const char *> name, len(name)
            op.most += len(name) + 48
        elif op.code in (ENUM, SET):
            self._labels(op, data)
        elif op.code == TABLE:
            blob, op.ascii = data
            if len(blob) != 1024:
                raise ValueError("a table of other than 256 characters")
            self.kept.append(blob)
            op.data = <In> <const char *> blob
        elif op.code in (CALL, JSON):
            op.call = <PyObject *> data
        elif op.code == CALL_TEXT:
            function, op.ascii = data
            op.call = <PyObject *> function
        elif op.code == BINARY:
            op.most += op.a
        if opener is not None:
            op.open = <PyObject *> opener
        if mask is not None:
            op.mask = <PyObject *> mask
            self.masked = True

    cdef _parts(self, list keys, list by):
        cdef uint32_t i = 0
        self.keys = <Part *> calloc(len(keys) + len(by) + 1, sizeof(Part))
        if self.keys == NULL:
            raise MemoryError
        self.key_count, self.by_count = len(keys), len(by)
        for index, union in keys + [(index, False) for index in by]:
            if not 0 <= index < self.width:
                raise ValueError(f"no column {index}")
            self.keys[i].index, self.keys[i].union_ = index, bool(union)
            i += 1

    cdef _labels(self, Op *op, list labels):
        # Of an ENUM its whole pieces, of a SET the texts.
        cdef bytes blob = b"".join(labels)
        cdef uint32_t i, at = 0
        self.kept.append(blob)
        op.data, op.count = <In> <const char *> blob, len(labels)
        op.places = <uint32_t *> calloc(op.count + 1, sizeof(uint32_t))
        if op.places == NULL:
            raise MemoryError
        for i in range(op.count):
            op.places[i] = at
            at += len(labels[i])
        op.places[op.count] = at
        op.most += len(blob) + len(labels)

    cdef int read(self, Side *side, In *place, In end) except -1:
        # One image from `place` on, which moves behind it; 0: to be handed over.
        cdef In r = place[0], nulls = place[0]
        cdef Op *op
        cdef Out w
        cdef uint64_t size
        cdef uint32_t i
        if end - r < self.null_size:
            return 0
        r += self.null_size
        side.invalids = 0
        w = reserve(side, side.data, self.most)
        if w == NULL:
            return 0
        for i in range(self.width):
            op = &self.ops[i]
            side.starts[i] = w - side.data
            if nulls[i >> 3] >> (i & 7) & 1:
                w[0] = 0
                w += op.code != PASS and op.code != PASS_SIZED
                continue
            if end - r < <Py_ssize_t> op.size:
                return 0
            if op.code < PASS_SIZED:
                if op.code == PASS:
                    pass
                elif op.code == CALL:
                    w = put_called(w, side, op, r, op.size, self.most)
                else:
                    w = put_fixed(w, side, op, i, r, end)
                if w == NULL:
                    return 0
                r += op.size
                continue
            size = loaded(r, end, op.size)
            r += op.size
            if <uint64_t> (end - r) < size:
                return 0
            if op.code == PASS_SIZED:
                pass
            elif op.code <= JSON:
                w = put_text(w, side, op, r, end, size, self.most)
            else:
                w = reserve(side, w, size + self.most)
                if w == NULL:
                    return 0
                if op.code == VECTOR:
                    w = put_vector(w, r, size)
                else:
                    w = put_uuid(w, r, size) if op.code == UUID else put_inet4(w, r, size)
            if w == NULL:
                return 0
            r += size
        side.starts[self.width] = w - side.data
        if self.masked:
            w = self._masked(side)
            if w == NULL:
                return 0
        if self.dates:
            w = put_invalid(w, side, self.ops)
        side.size = w - side.data
        place[0] = r
        return 1

    cdef Out _masked(self, Side *side) except? NULL:
        # The image with other pieces in the place of masked ones; where it ends. What was no date there is not told.
        cdef list pieces = []
        cdef Out w = side.data
        cdef Py_ssize_t most = self.most
        cdef bytes piece
        cdef int i, kept = 0
        for i in range(self.width):
            piece = copied(side.data + side.starts[i], side.data + side.starts[i + 1])
            if self.ops[i].mask != NULL:
                piece = called(self.ops[i].mask, side.data + side.starts[i], len(piece))
            if piece is None:
                return NULL
            pieces.append(piece)
            most += len(piece)
        w = reserve(side, w, most)
        if w == NULL:
            return NULL
        for i in range(self.width):
            side.starts[i] = w - side.data
            w = put_bytes(w, PyBytes_AS_STRING(pieces[i]), len(pieces[i]))
        side.starts[self.width] = w - side.data
        for i in range(side.invalids):
            if self.ops[side.invalid[i].op].mask == NULL:
                side.invalid[kept] = side.invalid[i]
                kept += 1
        side.invalids = kept
        return w

    cdef object image(self, Side *side):
        # None: no value for its key.
        cdef bytes key = joined(side, self.keys, self.key_count, b"")
        cdef bytes by = None
        if key is None:
            return None
        if self.by_count:
            by = joined(side, self.keys + self.key_count, self.by_count, b"")
            if by is None:
                return None
        return image_of(self.image_type, PyBytes_FromStringAndSize(<const char *> side.data, side.size), key, by)

    cdef In begin(self, In r, In end, int sides) noexcept:
        # Where the first image begins, of an event that has all columns in every image; NULL: to be handed over.
        cdef uint64_t width
        cdef uint32_t more, i
        cdef int side
        if end - r < 1:
            return NULL
        width = r[0]
        r += 1
        if width >= 0xFB:
            if width != 0xFC or end - r < 2:
                return NULL
            width = little(r, 2)
            r += 2
        if width != self.width or end - r < <Py_ssize_t> (sides * self.null_size):
            return NULL
        for side in range(sides):
            for i in range(self.width >> 3):
                if r[i] != 0xFF:
                    return NULL
            more = self.width & 7
            if more and (r[self.null_size - 1] & ((1 << more) - 1)) != (1 << more) - 1:
                return NULL
            r += self.null_size
        return r
