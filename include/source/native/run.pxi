# A run of plain transactions as the event loop hands it to the row decoders: arrays of these, and the raw events.

from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE

# See `include.source.native`.
FORM = 2


cdef inline char *put_number(char *w, uint64_t value) noexcept nogil:
    cdef char digits[20]
    cdef int n = 0
    while True:
        digits[n] = <char> (48 + value % 10)
        n += 1
        value //= 10
        if not value:
            break
    while n:
        n -= 1
        w[0] = digits[n]
        w += 1
    return w


cdef enum:
    MOST_RUN_TABLES = 256

cdef struct RunGroup:
    int64_t thread          # < 0: not known
    int64_t commit_us
    int64_t end             # the byte after it, in its file
    int64_t size_bytes
    int64_t server_id
    int64_t steps           # of this one and all before it


cdef struct RunRows:
    # What one event says: places are those in the raw events.
    int32_t table           # which one of the run's
    int32_t op              # a letter
    int64_t at, size        # of the body, from its width on
    int64_t text_at         # of the statement's text; < 0: none
    int64_t text_size


cdef struct Plan:
    const RunGroup *groups
    const RunRows *steps
    In raw
    Py_ssize_t count, step_count


cdef open_plan(Plan *plan, tuple parts, Py_ssize_t tables):
    # Raises for what does not fit together: nothing is read elsewhere than in the bytes given.
    cdef bytes groups, steps, raw
    cdef Py_ssize_t i, size
    cdef int64_t last = 0
    cdef const RunRows *rows
    groups, steps, raw = parts
    plan.groups, plan.count = <const RunGroup *> PyBytes_AS_STRING(groups), len(groups) // sizeof(RunGroup)
    plan.steps, plan.step_count = <const RunRows *> PyBytes_AS_STRING(steps), len(steps) // sizeof(RunRows)
    plan.raw, size = <In> PyBytes_AS_STRING(raw), len(raw)
    for i in range(plan.count):
        if plan.groups[i].steps < last:
            raise ValueError("a run whose steps do not ascend")
        last = plan.groups[i].steps
    if last > plan.step_count:
        raise ValueError("a run without all of its steps")
    for i in range(plan.step_count):
        rows = &plan.steps[i]
        if not 0 <= rows.table < tables or rows.at < 0 or not 0 <= rows.size <= size - rows.at:
            raise ValueError("a run whose rows are not in it")
        if rows.text_at >= 0 and not 0 <= rows.text_size <= size - rows.text_at:
            raise ValueError("a run whose text is not in it")
