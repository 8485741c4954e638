# Whole source transactions out of raw events, as long as all in them is plain: see `_events.pyi`.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memcmp

cdef extern from "Python.h":
    object PyUnicode_FromStringAndSize(const char *, Py_ssize_t)
    PyObject *PyDict_GetItemWithError(object, object) except? NULL

cdef enum:
    MOST_MAPS = 32
    SLOTS = 1024
    STEP_OVERHEAD = 200
    SLACK_OF_END = 1 << 16

cdef int64_t MOST_GTID_US = 9223372036854775
cdef uint64_t HAS_ORIGINAL = 1ULL << 55

cdef struct Map:
    uint64_t table_id
    PyObject *table         # None: nobody captures it
    bint unused

cdef struct Group:
    # A group that is being read; `thread` < 0 and `commit_us` < 0: not known.
    uint32_t server_id
    int64_t thread, commit_us, end, size_bytes, held
    bint begun
    int maps
    Map map[MOST_MAPS]


cdef class PlainGroups:
    """See `_events.pyi`."""

    cdef dict known
    cdef list contents          # by table id: the map's bytes, and its table
    cdef list tables
    cdef list steps             # of the group that is read
    cdef list passed            # tables that the group may still speak of
    cdef Slots transaction, rows, place, text
    cdef Wire wire
    cdef str file
    cdef int64_t memory_bytes

    def __cinit__(self, dict known not None, type transaction, type rows, type place, type text, int64_t memory_bytes):
        self.known, self.memory_bytes = known, memory_bytes
        self.transaction = Slots(
            transaction, ("gtid", "server_id", "end", "commit_us", "steps", "size_bytes", "thread", "orphans")
        )
        self.rows = Slots(rows, ("table", "op", "body", "partial", "_query"))
        self.place = Slots(place, ("file", "pos"))
        self.text = Slots(text, ("_raw", "_text"))
        self.steps, self.passed = [], []
        self.forget()

    def forget(self):
        self.contents, self.tables = [None] * SLOTS, [None] * SLOTS

    def take(self, data, Py_ssize_t at, bint framed, str file not None, int64_t end, bint checksum):
        cdef Py_buffer view
        cdef list found = []
        cdef Group group
        cdef In base, r, stop, after
        cdef Found state = ODD
        self.wire.framed, self.wire.checksum, self.file = framed, checksum, file
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            base = <In> view.buf
            r, stop = base + at, base + view.len
            if not 0 <= at <= view.len:
                raise IndexError(at)
            while True:
                state = group_at(r, stop, &self.wire)
                if state != WHOLE:
                    break
                group.end = end
                after = self._group(&group, r, stop, found)
                if after == NULL:
                    state = ODD
                    break
                r, end = after, group.end
                if self.passed:
                    self.passed.clear()
            return found, r - base, end, state == CUT
        finally:
            PyBuffer_Release(&view)

    cdef In _group(self, Group *group, In r, In stop, list found) except? NULL:
        # Adds the transaction that begins at `r`, and gives where it ends; NULL: to be left to Python.
        cdef Raw event
        cdef list steps = self.steps
        cdef str gtid = ""
        cdef object text = None, one
        cdef In said
        cdef bint first = True
        group.thread = group.commit_us = -1
        group.size_bytes = group.held = group.maps = 0
        group.begun = False
        if PyList_GET_SIZE(steps):
            steps.clear()
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
                if not group.begun or not self._rows(group, &event, steps, text):
                    return NULL
                if event.body[6] & 1:
                    text = None
            elif event.code == ANNOTATE_EVENT or event.code == ROWS_QUERY_EVENT:
                text = self._text(&event)
                if text is None:
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
                gtid = mariadb_gtid(group, &event) if event.code == MARIADB_GTID_EVENT else mysql_gtid(group, &event)
                if gtid is None:
                    return NULL
            else:
                return NULL
            first = False
            r = event.next
        one = self.transaction.make()
        self.transaction.put(one, 0, gtid)
        self.transaction.put(one, 1, group.server_id)
        self.transaction.put(one, 2, self._place(group.end))
        self.transaction.put(
            one, 3, event.timestamp * <int64_t> 1000000 if group.commit_us < 0 else group.commit_us
        )
        self.transaction.put(one, 4, tuple_of(steps))
        self.transaction.put(one, 5, group.size_bytes)
        self.transaction.put(one, 6, None if group.thread < 0 else group.thread)
        self.transaction.put(one, 7, ())
        found.append(one)
        return event.next

    cdef object _place(self, int64_t pos):
        cdef object made = self.place.make()
        self.place.put(made, 0, self.file)
        self.place.put(made, 1, pos)
        return made

    cdef object _text(self, const Raw *event):
        # Before MySQL's text stands a byte.
        cdef int skipped = event.code == ROWS_QUERY_EVENT
        cdef object made
        if event.end - event.body < skipped:
            return None
        made = self.text.make()
        self.text.put(made, 0, PyBytes_FromStringAndSize(<const char *> event.body + skipped,
                                                         event.end - event.body - skipped))
        self.text.put(made, 1, None)
        return made

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
        if self.contents[slot] is None or PyBytes_GET_SIZE(self.contents[slot]) != size or memcmp(
            PyBytes_AS_STRING(self.contents[slot]), event.body + 6, size
        ):
            content = PyBytes_FromStringAndSize(<const char *> event.body + 6, size)
            mapped = PyDict_GetItemWithError(self.known, content)
            if mapped == NULL:
                return False
            self.passed.append(self.tables[slot])
            self.contents[slot], self.tables[slot] = content, (<object> mapped).table
        table = self.tables[slot]
        for i in range(group.maps):
            map = &group.map[i]
            if map.table_id == table_id:
                # Announced again; under another name it is Python's.
                return map.table == <PyObject *> table and table is not None
        if group.maps == MOST_MAPS:
            return False
        map = &group.map[group.maps]
        map.table_id, map.table, map.unused = table_id, <PyObject *> table, table is not None
        group.maps += 1
        return True

    cdef bint _rows(self, Group *group, const Raw *event, list steps, object text) except -1:
        cdef uint64_t table_id
        cdef Py_ssize_t start = 8, size = event.end - event.body
        cdef Map *map = NULL
        cdef object made
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
            made = self.rows.make()
            self.rows.put(made, 0, <object> map.table)
            self.rows.put(made, 1, "c" if event.code in (WRITE_V1, WRITE_V2) else
                          "u" if event.code in (UPDATE_V1, UPDATE_V2) else "d")
            self.rows.put(made, 2, PyBytes_FromStringAndSize(<const char *> event.body + start, size))
            self.rows.put(made, 3, False)
            self.rows.put(made, 4, text)
            steps.append(made)
        if event.body[6] & 1:
            for i in range(group.maps):
                if group.map[i].unused:
                    return False
            group.maps = 0
        return True


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
