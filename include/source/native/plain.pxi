# Runs of whole source transactions out of raw events, as long as all in them is plain: see `_events.pyi`.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdlib cimport free, realloc

cdef extern from "Python.h":
    object PyUnicode_FromStringAndSize(const char *, Py_ssize_t)
    PyObject *PyList_GET_ITEM(object, Py_ssize_t)
    PyObject *PyDict_GetItemWithError(object, object) except? NULL

cdef enum:
    MOST_MAPS = 32
    SLOTS = 1024
    STEP_OVERHEAD = 200
    SLACK_OF_END = 1 << 16
    MOST_PREFIX = 48

cdef int64_t MOST_GTID_US = 9223372036854775
cdef uint64_t HAS_ORIGINAL = 1ULL << 55

cdef struct Map:
    uint64_t table_id
    PyObject *table         # None: nobody captures it
    int slot
    bint unused

cdef struct Group:
    # A group that is being read; `thread` < 0 and `commit_us` < 0: not known.
    uint32_t server_id
    int64_t thread, commit_us, end, size_bytes, held
    uint64_t number         # of its GTID, behind the prefix; 0 without
    char prefix[MOST_PREFIX]
    int prefix_size
    bint begun
    int maps
    Map map[MOST_MAPS]


cdef struct Room:
    # An array that grows.
    char *data
    Py_ssize_t used, size


cdef void *one_more(Room *room, Py_ssize_t size) except NULL:
    cdef Py_ssize_t more
    cdef char *data
    if room.used + size > room.size:
        more = 2 * room.size + 64 * size
        data = <char *> realloc(room.data, more)
        if data == NULL:
            raise MemoryError
        room.data, room.size = data, more
    room.used += size
    return room.data + room.used - size


cdef class PlainGroups:
    """See `_events.pyi`."""

    cdef dict known
    cdef list contents          # by table id: the map's bytes, and its table
    cdef list tables
    cdef int numbers[SLOTS]     # by table id: its number in the run + 1, 0: not there
    cdef list passed            # tables that the group may still speak of
    cdef type run
    cdef Slots transaction, rows, place, text
    cdef Wire wire
    cdef int64_t memory_bytes
    # The run that is read: where it begins, and what is in it.
    cdef In begin
    cdef int64_t begun_at
    cdef list of_run
    cdef Room groups, steps
    cdef char prefix[MOST_PREFIX]
    cdef int prefix_size
    cdef uint64_t first, last

    def __cinit__(self, dict known not None, type run not None, type transaction, type rows, type place, type text,
                  int64_t memory_bytes):
        self.known, self.memory_bytes, self.run = known, memory_bytes, run
        self.transaction = Slots(
            transaction, ("gtid", "server_id", "end", "commit_us", "steps", "size_bytes", "thread", "orphans")
        )
        self.rows = Slots(rows, ("table", "op", "body", "partial", "_query"))
        self.place = Slots(place, ("file", "pos"))
        self.text = Slots(text, ("_raw", "_text"))
        self.passed, self.of_run = [], []
        self.forget()

    def __dealloc__(self):
        free(self.groups.data)
        free(self.steps.data)

    def forget(self):
        self.contents, self.tables = [None] * SLOTS, [None] * SLOTS
        self._begin(NULL, 0)

    def take(self, data, Py_ssize_t at, bint framed, str file not None, int64_t end, bint checksum):
        cdef Py_buffer view
        cdef list found = []
        cdef Group group
        cdef In base, r, stop, after
        cdef Found state = ODD
        cdef Py_ssize_t steps
        self.wire.framed, self.wire.checksum = framed, checksum
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            base = <In> view.buf
            r, stop = base + at, base + view.len
            if not 0 <= at <= view.len:
                raise IndexError(at)
            self._begin(r, end)
            while True:
                state = group_at(r, stop, &self.wire)
                if state != WHOLE:
                    break
                if PyList_GET_SIZE(self.of_run) > MOST_RUN_TABLES - MOST_MAPS:
                    self._end(found, file, end, r)
                steps = self.steps.used
                group.end = end
                after = self._group(&group, r, stop)
                if after == NULL:
                    self.steps.used = steps
                    state = ODD
                    break
                if self.groups.used and not self._follows(&group):
                    # Of another source: its run begins here, and its group is read again.
                    self.steps.used = steps
                    self._end(found, file, end, r)
                    group.end = end
                    after = self._group(&group, r, stop)
                    if after == NULL:
                        raise SystemError("a group that was plain is not")
                self._add(&group, self.steps.used)
                r, end = after, group.end
                if self.passed:
                    self.passed.clear()
            self._end(found, file, end, r)
            return found, r - base, end, state == CUT
        finally:
            self._begin(NULL, 0)
            PyBuffer_Release(&view)

    cdef _begin(self, In r, int64_t at):
        self.begin, self.begun_at = r, at
        self.groups.used = self.steps.used = 0
        self.of_run = []
        memset(self.numbers, 0, sizeof(self.numbers))

    cdef _end(self, list found, str file, int64_t end, In r):
        # Adds the run that ends before `r`, if there is one, and begins the next.
        cdef const RunGroup *groups = <const RunGroup *> self.groups.data
        cdef Py_ssize_t i, count = self.groups.used // <Py_ssize_t> sizeof(RunGroup)
        cdef int64_t commit_us = 0
        if count:
            for i in range(count):
                commit_us = max(commit_us, groups[i].commit_us)
            found.append(self.run(
                self,
                PyUnicode_FromStringAndSize(self.prefix, self.prefix_size),
                self.first if self.prefix_size else 0,
                count,
                self._place(file, self.begun_at),
                self._place(file, end),
                commit_us,
                tuple(self.of_run),
                (
                    PyBytes_FromStringAndSize(self.groups.data, self.groups.used),
                    PyBytes_FromStringAndSize(self.steps.data, self.steps.used),
                    PyBytes_FromStringAndSize(<const char *> self.begin, r - self.begin),
                ),
            ))
        self._begin(r, end)

    cdef bint _follows(self, const Group *group):
        # Whether a group is of the run's source, and its GTID the next one.
        return (group.prefix_size == self.prefix_size and not memcmp(group.prefix, self.prefix, group.prefix_size)
                and (not group.prefix_size or (group.number == self.last + 1 and group.number)))

    cdef _add(self, const Group *group, Py_ssize_t steps):
        cdef RunGroup *one
        if not self.groups.used:
            self.prefix_size, self.first = group.prefix_size, group.number
            memcpy(self.prefix, group.prefix, group.prefix_size)
        self.last = group.number
        one = <RunGroup *> one_more(&self.groups, sizeof(RunGroup))
        one.thread, one.commit_us, one.end, one.size_bytes = (
            group.thread, group.commit_us, group.end, group.size_bytes
        )
        one.server_id = group.server_id
        one.steps = steps // <Py_ssize_t> sizeof(RunRows)

    cdef In _group(self, Group *group, In r, In stop) except? NULL:
        # Adds the rows of the group that begins at `r`, and gives where it ends; NULL: to be left to Python.
        cdef Raw event
        cdef In said, text = NULL, text_end = NULL
        cdef bint first = True
        group.thread = group.commit_us = -1
        group.size_bytes = group.held = group.maps = group.prefix_size = 0
        group.number = 0
        group.begun = False
        while True:
            if raw_event(&event, r, stop, &self.wire) != WHOLE or not fits(&event, &self.wire):
                return NULL
            move(group, &event)
            if first:
                group.server_id = event.server_id
            if event.code == MAP_EVENT:
                if not group.begun or not self._map(group, &event):
                    return NULL
            elif WRITE_V1 <= event.code <= DELETE_V2 and event.code != ROWS_QUERY_EVENT:
                if not group.begun or not self._rows(group, &event, text, text_end):
                    return NULL
                if event.body[6] & 1:
                    text = NULL
            elif event.code == ANNOTATE_EVENT or event.code == ROWS_QUERY_EVENT:
                # Before MySQL's text stands a byte.
                text, text_end = event.body + (event.code == ROWS_QUERY_EVENT), event.end
                if text > text_end:
                    return NULL
            elif event.code == XID_EVENT:
                if not group.begun or group.maps:
                    return NULL
                break
            elif event.code == QUERY_EVENT:
                said = query_text(&event)
                if said == NULL:
                    return NULL
                if group.thread < 0:
                    group.thread = <int64_t> little(event.body, 4)
                if not group.begun:
                    if not says(said, event.end, b"BEGIN", 5):
                        return NULL
                    group.begun = True
                elif group.maps or not says(said, event.end, b"COMMIT", 6):
                    return NULL
                else:
                    break
            elif first:
                if not (mariadb_gtid if event.code == MARIADB_GTID_EVENT else mysql_gtid)(group, &event):
                    return NULL
            else:
                return NULL
            first = False
            r = event.next
        if group.commit_us < 0:
            group.commit_us = event.timestamp * <int64_t> 1000000
        return event.next

    cdef bint _map(self, Group *group, const Raw *event) except -1:
        cdef uint64_t table_id
        cdef Py_ssize_t size = event.end - event.body - 6
        cdef bytes content
        cdef PyObject *mapped
        cdef object table
        cdef int slot, i
        cdef Map *map
        if size < 0:
            return False
        table_id = little(event.body, 6)
        slot = table_id & (SLOTS - 1)
        content = <bytes> PyList_GET_ITEM(self.contents, slot)
        if content is None or PyBytes_GET_SIZE(content) != size or memcmp(
            PyBytes_AS_STRING(content), event.body + 6, size
        ):
            content = PyBytes_FromStringAndSize(<const char *> event.body + 6, size)
            mapped = PyDict_GetItemWithError(self.known, content)
            if mapped == NULL:
                return False
            self.passed.append(self.tables[slot])
            self.contents[slot], self.tables[slot] = content, (<object> mapped).table
            self.numbers[slot] = 0
        table = <object> PyList_GET_ITEM(self.tables, slot)
        for i in range(group.maps):
            map = &group.map[i]
            if map.table_id == table_id:
                # Announced again; under another name, or before any rows of it, it is Python's.
                return map.table == <PyObject *> table and table is not None and not map.unused
        if group.maps == MOST_MAPS:
            return False
        map = &group.map[group.maps]
        map.table_id, map.table, map.slot, map.unused = table_id, <PyObject *> table, slot, table is not None
        group.maps += 1
        return True

    cdef bint _rows(self, Group *group, const Raw *event, In text, In text_end) except -1:
        cdef uint64_t table_id
        cdef Py_ssize_t start = 8, size = event.end - event.body
        cdef Map *map = NULL
        cdef RunRows *made
        cdef int i
        if size < 8:
            return False
        table_id = little(event.body, 6)
        for i in range(group.maps - 1, -1, -1):
            if group.map[i].table_id == table_id:
                map = &group.map[i]
                break
        if map == NULL:
            return False
        if <object> map.table is not None:
            map.unused = False
            if event.code >= WRITE_V2:
                if size < 10:
                    return False
                start += little(event.body + 8, 2)
                if size < start or start < 10:
                    return False
            size -= start
            if group.held + size > self.memory_bytes:
                return False
            group.held += size + STEP_OVERHEAD
            group.size_bytes += size
            made = <RunRows *> one_more(&self.steps, sizeof(RunRows))
            made.table = self._number(map)
            made.op = b"c" if event.code in (WRITE_V1, WRITE_V2) else b"u" if event.code in (UPDATE_V1, UPDATE_V2) else b"d"
            made.at, made.size = event.body + start - self.begin, size
            made.text_at = -1 if text == NULL else text - self.begin
            made.text_size = 0 if text == NULL else text_end - text
        if event.body[6] & 1:
            for i in range(group.maps):
                if group.map[i].unused:
                    return False
            group.maps = 0
        return True

    cdef int _number(self, const Map *map) except -1:
        # Which table of the run it is. Its slot may have gone over to another one since its map.
        cdef bint there = PyList_GET_ITEM(self.tables, map.slot) == map.table
        if there and self.numbers[map.slot]:
            return self.numbers[map.slot] - 1
        self.of_run.append(<object> map.table)
        if there:
            self.numbers[map.slot] = <int> PyList_GET_SIZE(self.of_run)
        return <int> PyList_GET_SIZE(self.of_run) - 1

    def transactions(self, str prefix not None, uint64_t first, str file not None, tuple tables not None,
                     tuple parts not None):
        cdef Plan plan
        cdef list found = [], steps = []
        cdef const RunGroup *group
        cdef const RunRows *rows
        cdef object one, text = None
        cdef Py_ssize_t i, j = 0
        cdef int64_t text_at
        open_plan(&plan, parts, PyTuple_GET_SIZE(tables))
        for i in range(plan.count):
            group = &plan.groups[i]
            steps.clear()
            text_at = -1
            while j < group.steps:
                rows = &plan.steps[j]
                if rows.text_at != text_at:
                    text_at, text = rows.text_at, self._text(&plan, rows)
                steps.append(self._step(&plan, rows, <object> PyTuple_GET_ITEM(tables, rows.table),
                                        text if text_at >= 0 else None))
                j += 1
            one = self.transaction.make()
            self.transaction.put(one, 0, f"{prefix}{first + i}" if prefix else "")
            self.transaction.put(one, 1, group.server_id)
            self.transaction.put(one, 2, self._place(file, group.end))
            self.transaction.put(one, 3, group.commit_us)
            self.transaction.put(one, 4, tuple_of(steps))
            self.transaction.put(one, 5, group.size_bytes)
            self.transaction.put(one, 6, None if group.thread < 0 else group.thread)
            self.transaction.put(one, 7, ())
            found.append(one)
        return found

    cdef object _step(self, const Plan *plan, const RunRows *rows, object table, object text):
        cdef object made = self.rows.make()
        self.rows.put(made, 0, table)
        self.rows.put(made, 1, "c" if rows.op == b"c" else "u" if rows.op == b"u" else "d")
        self.rows.put(made, 2, PyBytes_FromStringAndSize(<const char *> plan.raw + rows.at, rows.size))
        self.rows.put(made, 3, False)
        self.rows.put(made, 4, text)
        return made

    cdef object _place(self, str file, int64_t pos):
        cdef object made = self.place.make()
        self.place.put(made, 0, file)
        self.place.put(made, 1, pos)
        return made

    cdef object _text(self, const Plan *plan, const RunRows *rows):
        cdef object made
        if rows.text_at < 0:
            return None
        made = self.text.make()
        self.text.put(made, 0, PyBytes_FromStringAndSize(<const char *> plan.raw + rows.text_at, rows.text_size))
        self.text.put(made, 1, None)
        return made


cdef void move(Group *group, const Raw *event) noexcept nogil:
    # Moves the end as `EventReader` does.
    cdef int64_t least = group.end + event.size
    if not event.stated:
        group.end = least
    elif not group.end:
        group.end = event.stated
    else:
        group.end = least + <int64_t> <uint32_t> (event.stated - least + SLACK_OF_END) - SLACK_OF_END
        if group.end <= 0:
            group.end += <int64_t> 1 << 32
