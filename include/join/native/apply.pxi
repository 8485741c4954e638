# Touches of a bucket: `join.algorithm.batch.apply`. Names are those of the Python way.

import itertools

cdef object ANYTHING = object()


cdef inline bytes prefix_of(bytes join_key):
    return b"r" + (<object> PyBytes_GET_SIZE(join_key)).to_bytes(4, "big") + join_key


cdef class Work:
    cdef Program program
    cdef dict rows, newest, stood, changes, kept
    cdef list held, products, sides, left
    cdef set lacking
    cdef object scan
    cdef Py_ssize_t stale

    cdef follow(self, bytes prefix, list touches, Py_ssize_t begin, Py_ssize_t end, list keys):
        # The touches of one join key, in the order of their ranks.
        cdef Program program = self.program
        cdef Side side
        cdef Rows rows = Rows.__new__(Rows)
        cdef Py_ssize_t i
        cdef dict kept
        rows.prefix, rows.scan = prefix, self.scan
        self.kept, self.changes, self.sides = {}, {}, []
        for i, slot in enumerate(program.slots):
            side = Side.__new__(Side)
            side.program, side.rows, side.place, side.slot = program, rows, i, slot
            side.kept, side.entries = {}, {}
            self.kept[slot] = side.kept
            self.sides.append(side)
        for i in range(begin, end):
            touch = touches[i]
            kept = self.kept.setdefault(touch[2], {})
            kept[touch[3]] = self.stood[keys[i]]
        for i in range(begin, end):
            self.take(touches[i], keys[i])
        for key, change in self.changes.items():
            stood, stands, rank, vector = change
            if stood is not stands and stood != stands:
                number = 2 * rank + (stands is not None)
                other = self.newest.get(key)
                if other is None or other[2] < number:
                    self.newest[key] = (key, stands, number, tuple(vector))

    cdef take(self, touch, bytes row_key):
        cdef Program program = self.program
        slot, key, version, row, again = touch[2], touch[3], touch[4], touch[5], touch[6]
        cdef dict of_slot = self.kept[slot]
        stands = of_slot[key]
        cdef bytes kept = None
        cdef Py_ssize_t place, size
        cdef uint64_t stood
        cdef Entry before
        if stands is None and (row is None or again):
            return
        if stands is not None and not again:
            stood = version_of(stands)
            if stood > version if row is None else stood >= version:
                self.stale += 1
                return
        if row is not None:
            kept = row if type(row) is bytes else row.to_bytes()
        self.rows[row_key] = kept
        found = program.places.get(slot)
        if found is None:
            of_slot[key] = kept
            return
        place = found
        before = (<Side> self.sides[place]).entry(key)
        exchanges = self.exchanges(place, key, kept, again)
        if touch[0] in self.lacking:
            self.leave(touch, place, before, stands)
        if not exchanges:
            return
        others = [None] * len(program.slots)
        size = len(exchanges)
        for other in program.probes[place]:
            entries = list((<Side> self.sides[other]).all().values())
            if not entries:
                if not program.optional[other]:
                    return
                entries = [program.absent[other]]
            others[other] = entries
            size *= len(entries)
        if size > program.most:
            self.held.append((touch[0], slot, key, touch[1], size))
            if touch[0] not in self.lacking:
                self.lacking.add(touch[0])
                self.leave(touch, place, before, stands)
            return
        if size > self.products[place]:
            self.products[place] = size
        for was, comes in exchanges:
            others[place] = [comes if comes is not None else was]
            for around in itertools.product(*others):
                self.note(touch, place, around, was, comes)

    cdef leave(self, touch, Py_ssize_t place, Entry before, stands):
        cdef Entry after
        if before is not None:
            after = (<Side> self.sides[place]).entry(touch[3])
            if after is None or after.group != before.group:
                self.left.append((touch[0], touch[2], touch[3], before.group, stands))

    cdef list exchanges(self, Py_ssize_t place, bytes key, bytes kept, again):
        cdef Program program = self.program
        cdef Side side = self.sides[place]
        cdef bint optional = program.optional[place], was_empty
        cdef Entry before, after, one, other
        cdef list changed = []
        cdef dict shown, stood
        before = side.entry(key)
        after = None if kept is None else program.entry(place, key, kept)
        if program.distinct[place] and not optional:
            side.put(key, kept, after)
            if before is not None and after is not None and before.group != after.group:
                changed = [(before, None), (None, after)]
            else:
                changed.append((before, after))
        else:
            shown = side.all()
            was_empty = not shown
            stood = {}
            for one in (before, after):
                if one is not None and one.group not in stood:
                    stood[one.group] = shown.get(one.group)
            side.put(key, kept, after)
            changed = [(was, shown.get(group)) for group, was in stood.items()]
            if optional and was_empty is not (not shown):
                absent = program.absent[place]
                if was_empty:
                    changed.insert(0, (absent, None))
                else:
                    changed.append((None, absent))
        found = []
        for one, other in changed:
            if one is None and other is None:
                continue
            if again or one is None or other is None or one.part != other.part:
                found.append((one, other))
        return found

    cdef note(self, touch, Py_ssize_t place, tuple around, Entry before, Entry after):
        # `around`: an entry of each input, at the place of the touched one that after the change, or else before.
        cdef Program program = self.program
        cdef Entry each
        cdef bytes stands = None, key
        cdef list parts = [program.key_prefix]
        for i, at in program.key_fields:
            parts.append((<Entry> around[i]).group[at])
        key = b"".join(parts)
        vector = [(<Entry> each).version for each in around]
        if after is None:
            vector[place] = touch[4]
        else:
            stands = self.value(around)
        change = self.changes.get(key)
        if change is None:
            if touch[6]:
                stood = ANYTHING
            elif before is None:
                stood = None
            elif after is None:
                stood = self.value(around)
            else:
                stood = self.value(around[:place] + (before,) + around[place + 1:])
            self.changes[key] = [stood, stands, touch[1], vector]
        else:
            change[1], change[2], change[3] = stands, touch[1], vector

    cdef bytes value(self, tuple around):
        cdef list parts = [self.program.value_prefix]
        for each in around:
            parts.append((<Entry> each).part)
        return b"".join(parts)


def apply(touches, get, scan, Program program not None):
    cdef list ordered = sorted(touches), keys = [], prefixes = []
    cdef Work work = Work.__new__(Work)
    cdef Py_ssize_t i = 0, begin, number = 0, count = len(ordered)
    cdef bytes prefix
    join_key = None
    for touch in ordered:
        if touch[0] != join_key:
            join_key = touch[0]
            prefix = prefix_of(join_key)
            prefixes.append(prefix)
        keys.append(prefix + SLOTS[touch[2]] + touch[3])
    asked = list(dict.fromkeys(keys))
    work.program, work.scan, work.rows, work.newest, work.held = program, scan, {}, {}, []
    work.lacking, work.left = {each[1:] for each, _ in scan(b"i")}, []
    work.stood, work.products = dict(zip(asked, get(asked))), [0] * len(program.slots)
    while i < count:
        begin, join_key = i, ordered[i][0]
        while i < count and ordered[i][0] == join_key:
            i += 1
        work.follow(prefixes[number], ordered, begin, i, keys)
        number += 1
    return program.make(work.rows, work.newest, work.held, work.stale, work.products, work.stood, get, work.left)
