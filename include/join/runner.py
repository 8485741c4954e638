"""The driver's side of a join: plans what tasks do in a batch, and commits what they made. No Spark, no clock.

A batch is one transaction of `log.publisher`: outputs, records set aside, input ends, the pointers of changed buckets
and the rank that the next batch begins with. Tasks make their buckets' next versions durable before it; a batch that
was not committed is done again from the versions that the committed pointers name, and one that was is skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from include.clock import Clock
from include.errors import InvalidRecord
from include.join.algorithm.ranks import Ranks
from include.join.algorithm.versions import vector_to_header
from include.join.bucket import BucketKey, BucketResult, Floor
from include.join.committed import Committed
from include.join.gathering import Refused
from include.log import topics
from include.log.control import Control
from include.log.dead_letter import DeadLetter, DeadLetterLimit
from include.log.plan import BatchPlan, Cut, CutKey, Partition
from include.log.ports import LogReader, Record, TopicSpec
from include.log.publisher import Publisher
from include.record import version as versions

__all__ = ["BatchWork", "CarryOut", "JoinRunner"]


@dataclass(frozen=True)
class BatchWork:
    """What tasks are told of a batch.

    Args:
        ranges: (topic, partition) → offsets start <= offset < end of an input.
        bases: what is added to an offset of such a partition to get the record's rank.
        lives: topic → version below which no row of it lives, of earlier batches and this one.
        floors: the control records of this batch: all buckets have to apply them.
        pointers: bucket → the version of its state to start from.
        complete: after this batch no older record of any row is to come.
    """

    ranges: Mapping[Partition, tuple[int, int]]
    bases: Mapping[Partition, int]
    lives: Mapping[str, int]
    floors: tuple[Floor, ...]
    pointers: Mapping[BucketKey, bytes]
    complete: bool


CarryOut = Callable[[BatchWork], Iterable[tuple[int, BucketResult]]]
"""Does a batch's work: (bucket, result) of each bucket of the second stage that had some."""


class JoinRunner:
    """Carries batches of one join out; `open` before the first one, and again after `Transient`.

    Args:
        inputs: the topics that are joined, in order.
        publisher: writes the joined topic; `spec` is among its own topics.
        epoch: of the outputs' versions.
        buckets: parts of the state.
        anchored: an output's key belongs to one join key (`FieldPlan`).
        definition: of the join, as text: who finds a state that another one made ends.
        reader: of control topics, and of what is committed.
        carry_out: see there.
        limit: how many records may be set aside.
        clock: when records were set aside.
    """

    def __init__(
        self,
        inputs: Sequence[str],
        publisher: Publisher,
        *,
        epoch: int,
        buckets: int,
        anchored: bool = False,
        definition: str = "",
        reader: LogReader,
        carry_out: CarryOut,
        limit: DeadLetterLimit,
        clock: Clock,
    ) -> None:
        self._inputs, self._publisher, self._epoch = tuple(inputs), publisher, epoch
        self._new = Committed(buckets, definition)
        self._reader, self._carry_out, self._limit, self._clock = reader, carry_out, limit, clock
        self._anchored = anchored
        self._written: dict[bytes, int] = {}
        self._controls = {name: topics.control(source) for name in inputs for source in _source_of(name)}
        self.committed = self._new

    @property
    def topics(self) -> list[str]:
        """All that a batch reads; see `topics_of`."""
        return self.topics_of(self._inputs)

    @staticmethod
    def topics_of(inputs: Sequence[str]) -> list[str]:
        """All that a batch reads, in the order of ranks: control topics before the rows that they speak of."""
        return [*dict.fromkeys(topics.control(source) for name in inputs for source in _source_of(name)), *inputs]

    @staticmethod
    def spec(topic: str) -> TopicSpec:
        """The topic of pointers beside a joined topic."""
        name = topics.state(topic)
        return TopicSpec(name, 1, topics.policy(name))

    def open(self) -> None:
        """Open the publisher, and read what is committed."""
        self._publisher.open()
        name = topics.state(self._publisher.topic)
        begin, end = self._reader.begin_offsets(name)[0], self._reader.end_offsets(name)[0]
        records = self._reader.read(name, 0, begin, end)
        self.committed = Committed.read(records, self._new.buckets, self._new.definition)

    def run(self, plan: BatchPlan) -> Counter[str]:
        """Carry a batch out, exactly once, also when it is run again; what it wrote, nothing when it had been done."""
        counts: Counter[str] = Counter()
        moved = any(end > plan.start.get(at, 0) for at, end in plan.ends.items())
        if moved and not self._publisher.covers(plan):
            counts = self._once(plan)
        if plan.cuts:
            self._publisher.resolve(_by_source(plan.cuts), plan.topic_ids, self._uncovered(plan.cuts))
        return counts

    def _once(self, plan: BatchPlan) -> Counter[str]:
        ranks = Ranks.of(self.topics, plan.start, plan.ends, self.committed.base)
        floors, lives = self._floors(plan, ranks)
        ranges = {
            at: (plan.start.get(at, 0), end)
            for at, end in plan.ends.items()
            if at[0] in self._inputs and end > plan.start.get(at, 0)
        }
        bases = {at: ranks.slice_base(at, plan.start) for at in ranges}
        work = BatchWork(ranges, bases, lives, floors, self.committed.pointers, complete=bool(plan.cuts))
        counts: Counter[str] = Counter()
        pointers: dict[BucketKey, bytes] = {}
        publisher = self._publisher
        publisher.begin()
        self._written.clear()
        if ranges or floors:
            for bucket, result in self._carry_out(work):
                self._write(result, counts)
                self._tell_of_held(result, ranks, plan, counts)
                if result.pointer is not None:
                    pointers["rows", bucket] = result.pointer
                for first, located in result.located.items():
                    counts["stale"] += located.stale
                    if located.pointer is not None:
                        pointers["whereabouts", first] = located.pointer
        state = topics.state(publisher.topic)
        for key, value in (*Committed.of_buckets(pointers), self.committed.of_join(ranks.next, lives)):
            publisher.append(state, key, value, partition=0)
        publisher.commit(plan.ends, part=not plan.cuts)
        self.committed.pointers.update(pointers)
        self.committed.base, self.committed.floors = ranks.next, lives
        return counts

    def _write(self, result: BucketResult, counts: Counter[str]) -> None:
        publisher = self._publisher
        counts["stale"] += result.stale
        for output in result.outputs:
            if not self._anchored:
                if self._written.get(output.key, -1) > output.version:
                    # A row left one join key for another, and the new one's bucket told of it first. Compaction keeps
                    # the last record of a key, so this one must not come behind.
                    continue
                self._written[output.key] = output.version
            version = versions.pack(self._epoch, output.version)
            publisher.write(output.key, output.value, version, (vector_to_header(output.vector),))
            counts["tombstones" if output.value is None else "puts"] += 1
        for refused in result.refused:
            self._set_aside(refused)
        for (topic, what), count in result.counts.items():
            counts[what] += count
            if what == "refused":
                counts[f"refused {topic}"] += count
        self._limit.passed(sum(n for (_, what), n in result.counts.items() if what == "read") - len(result.refused))

    def _tell_of_held(self, result: BucketResult, ranks: Ranks, plan: BatchPlan, counts: Counter[str]) -> None:
        """Name records whose outputs did not go out, with the number of these, where dead letters are looked for.

        They are in the state and are no reason to stop: no limit counts them.
        """
        counts["held"] += len(result.held)
        for held in result.held:
            (topic, partition), offset = ranks.place_of(held.rank, plan.start)
            reason = f"incomplete: the record changes {held.outputs:,} outputs, more than max_product_per_change"
            record = Record(topic, partition, offset, held.key, None, (), 0)
            self._publisher.set_aside(DeadLetter(record, self._publisher.application, reason, self._clock.now_us()))

    def _set_aside(self, refused: Refused) -> None:
        letter = DeadLetter(refused.record, self._publisher.application, refused.reason, self._clock.now_us())
        self._limit.set_aside(letter)
        self._publisher.set_aside(letter)

    def _floors(self, plan: BatchPlan, ranks: Ranks) -> tuple[tuple[Floor, ...], dict[str, int]]:
        """The control records of this batch about inputs, and the floors that hold after them."""
        floors: list[Floor] = []
        lives = dict(self.committed.floors)
        for topic in dict.fromkeys(self._controls.values()):
            for at, end in sorted(plan.ends.items()):
                if at not in ranks.first or at[0] != topic:
                    continue
                base = ranks.slice_base(at, plan.start)
                for record in self._reader.read(topic, at[1], plan.start.get(at, 0), end):
                    for number, name, floor in self._concerned(record, topic):
                        floors.append(Floor(number, floor, base + record.offset))
                        lives[name] = max(floor, lives.get(name, 0))
        return tuple(floors), lives

    def _concerned(self, record: Record, topic: str) -> Iterable[tuple[int, str, int]]:
        """(input, its topic, floor) of a control record that removes rows of an input."""
        try:
            control = Control.parse(record.value) if record.value is not None else None
        except InvalidRecord as error:
            self._set_aside(Refused(record, f"{type(error).__name__}: {error}"))
            return
        if control is None or not control.floor:
            return
        for number, name in enumerate(self._inputs):
            if self._controls.get(name) == topic:
                (source,) = _source_of(name)
                if name == topics.change(source, control.database, control.table):
                    yield number, name, control.floor

    def _uncovered(self, cuts: Mapping[CutKey, Cut]) -> dict[str, list[str]]:
        """Of each source the tables whose changes outputs may lack: of derived inputs all that these name."""
        found: dict[str, set[str]] = {}
        for (resolved, source), cut in cuts.items():
            own = resolved == topics.source_resolved(source)
            mine = found.setdefault(source, set())
            for table in cut.uncovered:
                database, _, name = table.partition(".")
                if not own or topics.change(source, database, name) in self._inputs:
                    mine.add(table)
        return {source: sorted(tables) for source, tables in found.items()}


def _source_of(topic: str) -> tuple[str, ...]:
    name = topics.TopicName.parse(topic)
    return (name.source,) if name.kind == "change" and name.source is not None else ()


def _by_source(cuts: Mapping[CutKey, Cut]) -> dict[str, Cut]:
    """Of each source the least that any of its resolved topics says: a derived input may be behind the source."""
    found: dict[str, Cut] = {}
    for (_, source), cut in cuts.items():
        if source not in found or cut.version < found[source].version:
            found[source] = cut
    return found
