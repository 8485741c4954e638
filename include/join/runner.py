"""The driver's side of a join: plans what tasks do in a batch, and commits what they made. No Spark, no clock.

A batch is one transaction of the `Publisher`: outputs, records set aside, input ends, the pointers of changed buckets
and the rank that the next batch begins with. Tasks make their buckets' next versions durable before it; a batch that
was not committed is done again from the versions that the committed pointers name, and one that was is skipped.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from include.clock import Clock
from include.errors import InvalidRecord, Terminal
from include.join.algorithm.ranks import Ranks
from include.join.bucket import Floor, TakeoverStep
from include.join.committed import CommittedJoin
from include.join.gathering import RefusedRecord
from include.join.requests import JoinRequests, OpenRequest
from include.join.takeover import Edition, Takeover, same_join, taken_over
from include.join.transactions import JoinTransactions
from include.join.work import Equip, JoinBatch
from include.log import topics
from include.log.control import ControlRecord, floors_of
from include.log.planning.plan import BatchPlan, Cut, Partition, ResolvedSource
from include.log.ports import Headers, LogReader, Record, TopicSpec
from include.log.publishing.dead_letter import DeadLetterLimit
from include.log.publishing.publisher import Publisher
from include.log.requests.records import Answer, AnswerState, Request

__all__ = ["REGROWN", "JoinRunner"]

LOGGER: Final = logging.getLogger("lyrebird.join")
REGROWN: Final = (
    "Copy it into a topic of another name that has so many partitions from its beginning, and name that one in the "
    "join's file: it is read anew."
)
"""What to do with an input that has grown, of which nothing is resolved."""


class JoinRunner:
    """Carries batches of one join out; `open` before the first one, and again after `Transient`.

    Args:
        wanted: the join as its file has it.
        known: that one, and the one that made the state, should it be another.
        publisher: writes the joined topic; `spec` is among its own topics.
        epoch: of the outputs' versions.
        buckets: parts of the state.
        reader: of control topics, and of what is committed.
        equip: see there.
        limit: how many records may be set aside.
        clock: when records were set aside.
        cut: whether batches end at resolved records; else nothing is resolved of any input.
        fixed: topic → partitions, of inputs whose records tell their order by their offsets alone.
        step_rows: rows of a bucket after which a step of a takeover ends.
    """

    def __init__(
        self,
        wanted: Edition,
        known: Iterable[Edition],
        publisher: Publisher,
        *,
        epoch: int,
        buckets: int,
        reader: LogReader,
        equip: Equip,
        limit: DeadLetterLimit,
        clock: Clock,
        cut: bool = True,
        fixed: Mapping[str, int] | None = None,
        step_rows: int = 5_000,
    ) -> None:
        self._wanted, self._known = wanted, {each.definition: each for each in (wanted, *known)}
        self._publisher, self._buckets = publisher, buckets
        self._reader, self._equip, self._clock = reader, equip, clock
        self._transactions = JoinTransactions(publisher, epoch, limit, clock)
        self._cut, self._step_rows, self._fixed = cut, step_rows, fixed or {}
        self._requests = JoinRequests()
        self._take_up(CommittedJoin(buckets, wanted.definition, wanted.slots))

    @property
    def committed(self) -> CommittedJoin:
        """As of the last transaction."""
        return self._transactions.committed

    @property
    def requests(self) -> int:
        """How many requests are open, a takeover included."""
        return len(self._requests.open) + (self.committed.takeover is not None)

    @property
    def topics(self) -> list[str]:
        """All that a batch reads; see `topics_of`."""
        return self.topics_of(self._publisher.topic, self._all_inputs)

    @property
    def _all_inputs(self) -> list[str]:
        return [*dict.fromkeys(topic for each in self._editions for topic in each.topics)]

    @property
    def _editions(self) -> list[Edition]:
        return [self._edition] if self._later is None else [self._edition, self._later]

    @staticmethod
    def topics_of(topic: str, inputs: Sequence[str]) -> list[str]:
        """All that a batch reads, in the order of ranks: control topics before the rows that they speak of."""
        controls = dict.fromkeys(topics.control(source) for name in inputs for source in _source_of(name))
        return [*controls, *inputs, topics.requests(topic)]

    @staticmethod
    def spec(topic: str) -> TopicSpec:
        """The topic of pointers beside a joined topic."""
        name = topics.state(topic)
        return TopicSpec(name, 1, topics.policy(name))

    def open(self) -> None:
        """Open the publisher, and read what is committed; raises as `run` does."""
        self._publisher.open()
        for topic, partitions in self._fixed.items():
            read = [partition for at, partition in self._publisher.committed if at == topic]
            if read and len(read) < partitions:
                self._fixed = {**self._fixed, topic: len(read)}
                self._require_ungrown([(topic, partitions - 1)])
        self._requests = JoinRequests(self._publisher.answers)
        name = topics.state(self._publisher.topic)
        begin, end = self._reader.begin_offsets(name)[0], self._reader.end_offsets(name)[0]
        records = self._reader.read(name, 0, begin, end)
        committed = CommittedJoin.read(records, self._buckets)
        if not committed.definition:
            committed = replace(committed, definition=self._wanted.definition, slots=self._wanted.slots)
        self._take_up(self._named(committed))
        if committed.takeover is None and committed.definition != self._wanted.definition:
            self._begin(taken_over(self._edition, self._wanted.definition, self._wanted.checked))

    def _named(self, committed: CommittedJoin) -> CommittedJoin:
        """The same, where it was committed before definitions named their key schema."""
        wanted, takeover = self._wanted.definition, committed.takeover
        if same_join(committed.definition, wanted):
            committed = replace(committed, definition=wanted)
        if takeover is not None and same_join(takeover.definition, wanted):
            committed = replace(committed, takeover=replace(takeover, definition=wanted))
        return committed

    def _take_up(self, committed: CommittedJoin) -> None:
        """Work by what is committed from now on."""
        self._transactions.committed, takeover = committed, committed.takeover
        self._edition = replace(self._known[committed.definition], slots=committed.slots)
        self._later = None
        if takeover is not None:
            self._later = replace(self._known[takeover.definition], slots=takeover.slots)
        self._carry_out = self._equip(self._edition, self._later)
        self._transactions.anchored = all(each.checked.plan.anchored for each in self._editions)

    def rebuild(self, why: str, request: str = "") -> None:
        """Begin to read all inputs anew, as outputs or state may be wrong; the join goes on meanwhile.

        Raises:
            Terminal: another takeover is not through yet.
        """
        if self.committed.takeover is not None:
            raise Terminal(
                "the join has to be read anew, and the last change of its file is not through yet",
                why=why,
                topic=self._publisher.topic,
                fix="Give it another `output.source`: it begins anew, with a topic and a state of its own.",
            )
        LOGGER.warning("%s is made of its inputs anew: %s", self._publisher.topic, why)
        edition = self._edition
        self._begin(taken_over(edition, edition.definition, edition.checked, whole=True, request=request))

    def run(self, plan: BatchPlan) -> Counter[str]:
        """Carry a batch out, exactly once, also when it is run again; what it wrote, nothing when it had been done.

        Beside it a takeover goes on: a part of what is read anew, and once that is all, a step.

        Raises:
            Terminal: an input has grown whose records may not move to another partition.
        """
        self._require_ungrown(plan.ends)
        counts: Counter[str] = Counter()
        moved = any(end > plan.start.get(at, 0) for at, end in plan.ends.items())
        if moved and not self._publisher.covers(plan):
            counts = self._once(plan)
        if self.committed.takeover is None and (asked := self._requests.next()) is not None:
            self._serve(asked, counts)
        if self.committed.takeover is not None:
            self._go_on(self.committed.takeover, counts, complete=self._complete(plan))
        if plan.cuts:
            self._publisher.resolve(_by_source(plan.cuts), plan.topic_ids, self._uncovered(plan.cuts))
        return counts

    def _require_ungrown(self, known: Iterable[Partition]) -> None:
        for topic, partition in known:
            if partition >= self._fixed.get(topic, partition + 1):
                raise Terminal(
                    "an input has grown: the newer record of a row may have a smaller offset than the older one",
                    topic=topic,
                    partitions=self._fixed[topic],
                    has=partition + 1,
                    fix=REGROWN,
                )

    def _once(self, plan: BatchPlan) -> Counter[str]:
        ranks = Ranks.of(self.topics, plan.start, plan.ends, self.committed.base)
        refused: list[RefusedRecord] = []
        floors, lives = self._floors(plan, ranks, refused)
        ranges = {
            partition: (plan.start.get(partition, 0), end)
            for partition, end in plan.ends.items()
            if partition[0] in self._edition.topics and end > plan.start.get(partition, 0)
        }
        takeover = self.committed.takeover
        work = JoinBatch(
            ranges,
            {partition: ranks.slice_base(partition, plan.start) for partition in ranges},
            lives,
            floors,
            self.committed.pointers,
            complete=self._complete(plan) and takeover is None,
            shown={} if takeover is None else takeover.shown(self._buckets),
        )
        counts: Counter[str] = Counter()
        after = replace(self.committed, base=ranks.next, floors=lives)
        answers = self._asked(plan, refused)
        # Another transaction may follow before anything is resolved: this one has to say what it was.
        part = not plan.cuts or takeover is not None or bool(self._requests.open)
        self._transactions.run(
            self._carry_out,
            work if ranges or floors else None,
            after,
            counts,
            ranks,
            plan.start,
            plan.ends,
            answers,
            refused=refused,
            part=part,
        )
        return counts

    def _complete(self, plan: BatchPlan) -> bool:
        """Whether no older record of any row is to come after this batch.

        Of topics that nothing is resolved of each has the records of a row in one partition, in order.
        """
        return bool(plan.cuts) or not self._cut

    def _asked(self, plan: BatchPlan, refused: list[RefusedRecord]) -> list[tuple[Answer, Headers]]:
        """Take in what came; the answers to it. What cannot be read is added to `refused`."""
        topic, answers = topics.requests(self._publisher.topic), []
        for at, end in sorted(plan.ends.items()):
            for record in self._reader.read(*at, plan.start.get(at, 0), end) if at[0] == topic else ():
                try:
                    request = Request.parse(record.value or b"")
                except InvalidRecord as error:
                    refused.append(RefusedRecord(record, f"{type(error).__name__}: {error}"))
                    continue
                why = self._requests.accept(request)
                if why is not None:
                    state: AnswerState = "refused" if why else "accepted"
                    answer = Answer(request.id, state, self._clock.now_us(), note=why)
                    answers.append((answer, self._requests.headers(OpenRequest(request))))
        return answers

    def _done(self, asked: OpenRequest) -> tuple[Answer, Headers]:
        self._requests.record(asked, 0, finished=True)
        return Answer(asked.request.id, "done", self._clock.now_us()), self._requests.headers(asked)

    def _serve(self, asked: OpenRequest, counts: Counter[str]) -> None:
        """Begin with a request; what names keys is done at once, whatever the state's size."""
        request, edition = asked.request, self._edition
        if request.kind == "rebuild":
            self.rebuild(f"{request.by} asked for it", request.id)
        elif not request.keys:
            self._begin(Takeover(edition.definition, edition.slots, (), again=True, request=request.id))
        else:
            ranks = Ranks({}, self.committed.base + 1)
            work = JoinBatch(
                {},
                {},
                self.committed.floors,
                (),
                self.committed.pointers,
                complete=False,
                step=TakeoverStep(self.committed.base, sys.maxsize, keys=asked.keys),
            )
            after = replace(self.committed, base=ranks.next)
            self._transactions.run(self._carry_out, work, after, counts, ranks, {}, {}, [self._done(asked)])

    def _begin(self, takeover: Takeover) -> None:
        """Nothing is written: the first transaction commits it, and until then it begins in the same way again.

        Where join keys lack outputs, what is swept of them may be another's: so all is written once more after it.
        """
        takeover = replace(takeover, again=takeover.again or self.committed.counts()["incomplete"] > 0)
        begins = {topic: self._reader.begin_offsets(topic) for topic in takeover.anew}
        cursors = {(topic, partition): begin for topic, of in begins.items() for partition, begin in of.items()}
        floors = dict(self.committed.floors)
        for source in {source for topic in takeover.anew for source in _source_of(topic)}:
            control = topics.control(source)
            first, ends = self._reader.begin_offsets(control), self._reader.end_offsets(control)
            told = floors_of(
                source, (r for p, end in ends.items() for r in self._reader.read(control, p, first[p], end))
            )
            floors |= {
                topic: max(floor, floors.get(topic, 0)) for topic, floor in told.items() if topic in takeover.anew
            }
        self._take_up(replace(self.committed, takeover=replace(takeover, cursors=cursors), floors=floors))

    def _go_on(self, takeover: Takeover, counts: Counter[str], *, complete: bool) -> None:
        ranges, all_read = takeover.behind(self._publisher.committed, self._edition.checked.join.records_per_batch)
        if ranges:
            self._read_anew(takeover, ranges, counts, complete=complete and all_read)
        if not all_read or self.committed.takeover is None:
            return
        takeover = self.committed.takeover
        if not takeover.through(self._buckets):
            self._step(takeover, counts)
        else:
            self._end(takeover, counts)

    def _read_anew(
        self,
        takeover: Takeover,
        ranges: Mapping[Partition, tuple[int, int]],
        counts: Counter[str],
        *,
        complete: bool,
    ) -> None:
        start, ends = ({at: each[i] for at, each in ranges.items()} for i in (0, 1))
        ranks = Ranks.of(takeover.anew, start, ends, self.committed.base)
        work = JoinBatch(
            ranges,
            {at: ranks.slice_base(at, start) for at in ranges},
            self.committed.floors,
            (),
            self.committed.pointers,
            complete=complete,
            shown=takeover.shown(self._buckets),
            anew=True,
        )
        after = replace(self.committed, base=ranks.next, takeover=takeover.read(ranges))
        self._transactions.run(self._carry_out, work, after, counts, ranks, start, {})

    def _step(self, takeover: Takeover, counts: Counter[str]) -> None:
        ranks = Ranks({}, self.committed.base + 1)
        work = replace(
            self._idle(takeover),
            step=TakeoverStep(
                self.committed.base,
                self._step_rows,
                takeover.second,
                self._transactions.anchored or (takeover.again and not takeover.second),
            ),
            begins=dict(takeover.places),
        )
        self._transactions.run(self._carry_out, work, replace(self.committed, base=ranks.next), counts, ranks, {}, {})

    def _end(self, takeover: Takeover, counts: Counter[str]) -> None:
        """From now on there is the new join alone."""
        work = replace(self._idle(takeover), only=takeover.slots)
        after = replace(self.committed, definition=takeover.definition, slots=takeover.slots, takeover=None)
        answers = [] if not takeover.request else [self._done(self._requests.open[takeover.request])]
        self._transactions.run(self._carry_out, work, after, counts, Ranks({}, after.base), {}, {}, answers)
        self._take_up(self.committed)

    def _idle(self, takeover: Takeover) -> JoinBatch:
        committed = self.committed
        shown = takeover.shown(self._buckets)
        return JoinBatch({}, {}, committed.floors, (), committed.pointers, complete=False, shown=shown)

    def _floors(
        self, plan: BatchPlan, ranks: Ranks, refused: list[RefusedRecord]
    ) -> tuple[tuple[Floor, ...], dict[str, int]]:
        """The control records of this batch about inputs, and the floors that hold after them.

        What cannot be read is added to `refused`.
        """
        floors: list[Floor] = []
        lives = dict(self.committed.floors)
        controls = {topics.control(source) for name in self._all_inputs for source in _source_of(name)}
        for topic in sorted(controls):
            for at, end in sorted(plan.ends.items()):
                if at not in ranks.first or at[0] != topic:
                    continue
                base = ranks.slice_base(at, plan.start)
                for record in self._reader.read(topic, at[1], plan.start.get(at, 0), end):
                    for number, name, floor in self._concerned(record, topic, refused):
                        floors.append(Floor(number, floor, base + record.offset))
                        lives[name] = max(floor, lives.get(name, 0))
        return tuple(floors), lives

    def _concerned(self, record: Record, topic: str, refused: list[RefusedRecord]) -> Iterable[tuple[int, str, int]]:
        """(slot, topic, floor) of a control record that removes rows of an input."""
        try:
            control = ControlRecord.parse(record.value) if record.value is not None else None
        except InvalidRecord as error:
            refused.append(RefusedRecord(record, f"{type(error).__name__}: {error}"))
            return
        if control is None or not control.floor:
            return
        for slot, name in self._slots():
            for source in _source_of(name):
                if topics.control(source) == topic and name == topics.change(source, control.database, control.table):
                    yield slot, name, control.floor

    def _slots(self) -> Iterable[tuple[int, str]]:
        """Each slot that has rows of a topic, of both joins."""
        return {
            slot: name for each in self._editions for slot, name in zip(each.slots, each.topics, strict=True)
        }.items()

    def _uncovered(self, cuts: Mapping[ResolvedSource, Cut]) -> dict[str, list[str]]:
        """Of each source the tables whose changes outputs may lack: of derived inputs all that these name."""
        uncovered: dict[str, set[str]] = {}
        for (resolved, source), cut in cuts.items():
            own = resolved == topics.source_resolved(source)
            mine = uncovered.setdefault(source, set())
            for table in cut.uncovered:
                database, _, name = table.partition(".")
                if not own or topics.change(source, database, name) in self._all_inputs:
                    mine.add(table)
            # Of the join that is to come.
            takeover = self.committed.takeover
            anew = [topics.TopicName.parse(topic) for topic in (takeover.anew if takeover else ())]
            mine |= {name.table for name in anew if name.source == source and name.table}
        return {source: sorted(tables) for source, tables in uncovered.items()}


def _source_of(topic: str) -> tuple[str, ...]:
    name = topics.TopicName.parse(topic)
    return (name.source,) if name.kind == "change" and name.source is not None else ()


def _by_source(cuts: Mapping[ResolvedSource, Cut]) -> dict[str, Cut]:
    """Of each source the least that any of its resolved topics says: a derived input may be behind the source."""
    found: dict[str, Cut] = {}
    for (_, source), cut in cuts.items():
        if source not in found or cut.version < found[source].version:
            found[source] = cut
    return found
