# A run of plain transactions right to outputs: what `Stamp`, `RowRecords` and `outputs_of` make of each, without them.

cdef enum:
    MOST_STAMP = 3072


cdef class Target:
    """Where rows of one layout go; see `_decoder.pyi`."""

    cdef Decoder decoder
    cdef Envelope envelope
    cdef str topic
    cdef bytes who, table

    def __cinit__(self, Decoder decoder not None, Envelope envelope not None, str topic not None, bytes who not None,
                  bytes table not None):
        self.decoder, self.envelope, self.topic, self.who, self.table = decoder, envelope, topic, who, table


cdef struct GroupStamp:
    # `Stamp`'s pieces of one group; `middle` is the envelope's piece, of table number `of`.
    uint8_t times[64]
    uint8_t place[1024]
    uint8_t thread[16]
    uint8_t transaction[512]
    uint8_t middle[MOST_STAMP]
    Py_ssize_t times_size, place_size, thread_size, transaction_size, middle_size
    int of


cdef bint stamp_group(GroupStamp *stamp, const RunGroup *group, str file, const char *gtid, Py_ssize_t size) except -1:
    # False for times that are not for it. `gtid`: the transaction's name.
    cdef Out w
    if not 0 <= group.commit_us <= MOST_US:
        return False
    w = put_instant(put_long(stamp.times, group.commit_us // 1000), group.commit_us)
    w[0] = 0
    stamp.times_size = w + 1 - stamp.times
    w = put_long(stamp.place, group.server_id)
    w = put_bytes(put_length_piece(w, size), gtid, size)
    stamp.place_size = put_long(put_text_of(w, file), group.end) - stamp.place
    w = stamp.thread
    w[0] = 0
    w = w + 1 if group.thread < 0 else put_long_piece(w, group.thread)
    # No statement's text.
    w[0] = 0
    stamp.thread_size = w + 1 - stamp.thread
    stamp.transaction_size = put_bytes(put_length_piece(stamp.transaction, size), gtid, size) - stamp.transaction
    stamp.of = -1
    return True


cdef void share_stamp(const GroupStamp *stamp, Envelope envelope, const Piece *made) noexcept:
    envelope.middle = piece_at(stamp.middle, stamp.middle_size)
    envelope.thread = piece_at(stamp.thread, stamp.thread_size)
    envelope.made = made[0]
    envelope.transaction = piece_at(stamp.transaction, stamp.transaction_size)


def run_outputs(str prefix not None, uint64_t first, str file not None, tuple parts not None,
                tuple targets not None, int64_t made_us, int64_t version, type kind not None):
    cdef Plan plan
    cdef GroupStamp stamp
    cdef uint8_t made_bytes[64]
    cdef char gtid[400]
    cdef char *w
    cdef Out middle
    cdef Piece made
    cdef Numbered numbered = Numbered()
    cdef Target target
    cdef list found = []
    cdef const RunGroup *group
    cdef const RunRows *rows
    cdef Py_ssize_t i, j = 0, head, names
    cdef int counter[MOST_RUN_TABLES]
    cdef int64_t row, many
    cdef int64_t of_table[MOST_RUN_TABLES]
    cdef int64_t ops[3]
    cdef int t, k
    if not issubclass(kind, tuple):
        raise TypeError("an output is a tuple")
    open_plan(&plan, parts, PyTuple_GET_SIZE(targets))
    head, names = text_size(prefix or file), text_size(file)
    if head > 300 or names > 400 or not 0 <= made_us <= MOST_US or PyTuple_GET_SIZE(targets) > MOST_RUN_TABLES:
        return None
    for t in range(<int> PyTuple_GET_SIZE(targets)):
        target = <Target?> targets[t]
        if PyBytes_GET_SIZE(target.who) + PyBytes_GET_SIZE(target.table) > MOST_STAMP - 1200 or target.decoder.busy:
            return None
        # Maps of one table count its rows together.
        k = 0
        while (<Target> targets[k]).topic != target.topic:
            k += 1
        counter[t] = k
    memcpy(gtid, PyUnicode_AsUTF8AndSize(prefix or file, NULL), head)
    if not prefix:
        gtid[head] = b":"
        head += 1
    made = piece_at(made_bytes, put_instant(put_long_piece(made_bytes, made_us // 1000), made_us) - made_bytes)
    numbered.kind, numbered.version = kind, version
    ops[0] = ops[1] = ops[2] = 0
    for i in range(plan.count):
        group = &plan.groups[i]
        w = put_number(gtid + head, first + i if prefix else group.end)
        if not stamp_group(&stamp, group, file, gtid, w - gtid):
            return None
        if j < group.steps:
            memset(of_table, 0, PyTuple_GET_SIZE(targets) * sizeof(int64_t))
        row = 0
        while j < group.steps:
            rows = &plan.steps[j]
            target = <Target> PyTuple_GET_ITEM(targets, rows.table)
            if stamp.of != rows.table:
                stamp.of = rows.table
                middle = put_bytes(put_all(stamp.middle, target.who), stamp.times, stamp.times_size)
                middle = put_bytes(put_all(middle, target.table), stamp.place, stamp.place_size)
                stamp.middle_size = middle - stamp.middle
                numbered.topic = target.topic
            t = counter[rows.table]
            share_stamp(&stamp, target.envelope, &made)
            target.decoder.busy = True
            try:
                many = target.decoder._records(<char> rows.op, plan.raw + rows.at, plan.raw + rows.at + rows.size,
                                               target.envelope, numbered, row, of_table[t] + 1, found)
            finally:
                target.decoder.busy = False
            if many < 0:
                return None
            row += many
            of_table[t] += many
            ops[0 if rows.op == b"c" else 1 if rows.op == b"u" else 2] += many
            j += 1
    return found, numbered.size, numbered.largest, (ops[0], ops[1], ops[2])
