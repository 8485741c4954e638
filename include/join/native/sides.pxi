# The rows of one join key and input: `join.algorithm.multimap.Side`.


cdef class Program:
    """A join's shape; see `_join.pyi`."""

    cdef tuple slots, optional, distinct, probes, key_fields
    cdef dict places
    cdef bytes key_prefix, value_prefix
    cdef Py_ssize_t most
    cdef list plans, absent
    cdef object projector, entry_of, make

    def __init__(self, tuple slots, tuple optional, tuple distinct, tuple probes, tuple key_fields, bytes key_prefix,
                 bytes value_prefix, Py_ssize_t most, projector, entry_of, absent, make):
        cdef Py_ssize_t i
        self.slots, self.optional, self.distinct, self.probes = slots, optional, distinct, probes
        self.key_fields, self.key_prefix, self.value_prefix, self.most = key_fields, key_prefix, value_prefix, most
        self.places = {slot: place for place, slot in enumerate(slots)}
        self.plans = [{} for _ in slots]
        self.projector, self.entry_of, self.make = projector, entry_of, make
        self.absent = [of_python(absent(i)) for i in range(len(slots))]

    cdef Entry entry(self, Py_ssize_t place, bytes key, bytes kept):
        cdef dict plans = self.plans[place]
        cdef bytes ident
        if PyBytes_GET_SIZE(kept) < HEAD or PyBytes_GET_SIZE(key) < KEY_HEAD:
            return of_python(self.entry_of(place, key, kept))
        ident = kept[8:HEAD] + key[:KEY_HEAD]
        found = plans.get(ident, self)
        if found is self:
            found = plans[ident] = self.projector(place, key, kept)
        if found is not None:
            try:
                return (<Projector> found).entry(key, kept)
            except Unread:
                pass
        return of_python(self.entry_of(place, key, kept))


cdef Entry of_python(told):
    cdef Entry made
    if told is None:
        return None
    made = Entry.__new__(Entry)
    made.version, made.key, made.group, made.part = told
    return made


cdef inline bint below(Entry one, Entry other):
    # The order in which rows of a group take precedence.
    cdef object first = one.version or 0, second = other.version or 0
    return first < second or (first == second and one.key < other.key)


# Rows of a join key that are read at once for all inputs: with one scan, and for nothing at most so many.
DEF FEW = 16


cdef class Rows:
    """The rows of one join key that the state has."""

    cdef bytes prefix
    cdef object scan
    # Slot → (primary key, value); None before anything was read.
    cdef dict few
    # Slots below are read.
    cdef int read

    cdef of(self, int slot):
        cdef Py_ssize_t size = PyBytes_GET_SIZE(self.prefix), count = 0
        if self.few is None:
            self.few, self.read = {}, 256
            found = self.scan(self.prefix)
            for at, value in found:
                count += 1
                if count > FEW:
                    self.read = <uint8_t> PyBytes_AS_STRING(at)[size]
                    break
                self.few.setdefault(<uint8_t> PyBytes_AS_STRING(at)[size], []).append((at[size + 1:], value))
        if slot < self.read:
            return self.few.get(slot, ())
        return [(at[size + 1:], value) for at, value in self.scan(self.prefix + SLOTS[slot])]


cdef list SLOTS = [bytes((each,)) for each in range(256)]


cdef class Side:
    cdef Program program
    cdef Rows rows
    cdef Py_ssize_t place
    cdef int slot
    cdef dict kept, entries, groups, shown

    cdef Entry entry(self, bytes key):
        cdef Entry made
        found = self.entries.get(key, self)
        if found is self:
            kept = self.kept[key]
            made = None if kept is None else self.program.entry(self.place, key, kept)
            self.entries[key] = made
            return made
        return found

    cdef put(self, bytes key, kept, Entry after):
        cdef Entry before = self.entry(key)
        self.kept[key], self.entries[key] = kept, after
        if self.groups is not None:
            self.take_out(before)
            self.put_in(after)

    cdef dict all(self):
        # Group → the entry that stands for it.
        if self.groups is None:
            for key, value in self.rows.of(self.slot):
                if key not in self.kept:
                    self.kept[key] = value
            self.groups, self.shown = {}, {}
            for key in self.kept:
                self.put_in(self.entry(key))
        return self.shown

    cdef put_in(self, Entry entry):
        if entry is None:
            return
        group = self.groups.get(entry.group)
        if group is None:
            self.groups[entry.group] = {entry.key: entry}
        else:
            group[entry.key] = entry
        shown = self.shown.get(entry.group)
        if shown is None or below(shown, entry):
            self.shown[entry.group] = entry

    cdef take_out(self, Entry entry):
        cdef Entry best, each
        if entry is None:
            return
        group = self.groups[entry.group]
        del group[entry.key]
        if not group:
            del self.groups[entry.group], self.shown[entry.group]
        elif (<Entry> self.shown[entry.group]).key == entry.key:
            best = None
            for each in group.values():
                if best is None or below(best, each):
                    best = each
            self.shown[entry.group] = best
