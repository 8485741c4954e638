"""The one writer of a document topic: exactly once, whatever stops it.

Order of durable steps; a crash after any of them is tested:

1. Open the writer of transactional id `<application>.<topic>.0`: older ones are fenced, their transaction aborted.
2. Read what is committed: input offsets of the group of that name, answers, the newest resolved record.
3. For each batch one transaction: documents and tombstones, records set aside, answers, and the input end offsets of
   the group. A batch whose end offsets are committed already is not written again.
4. A transaction of its own for `<topic>.resolved`: source → P, partition → next offset. Should step 4 be missed, the
   next batch's record says more than the missing one would have.

Where Spark starts to read follows from step 2 alone; checkpoints and batch ids never decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from include.clock import Clock
from include.errors import Fenced
from include.log import topics
from include.log.dead_letter import DeadLetter
from include.log.plan import BatchPlan, Cut, Partition
from include.log.ports import Headers, LogReader, LogWriter, Record, TopicAdmin, TopicSpec
from include.log.requests import Answer
from include.log.resolved import Ends, Resolved, ResolvedView, ResolvedWriter
from include.record import version as versions

__all__ = ["Publisher"]

_WINDOW: Final = 256
_EVERY_S: Final = 1.0


class Publisher:
    """Writes one topic. `open` before anything else, and again after `Transient` from any call."""

    def __init__(
        self,
        topic: str,
        application: str,
        source: str,
        inputs: Iterable[str],
        *,
        open_writer: Callable[[str], LogWriter],
        reader: LogReader,
        admin: TopicAdmin,
        clock: Clock,
    ) -> None:
        self.topic = topic
        self.application = application
        self.group = f"{application}.{topic}.0"
        self.committed: dict[Partition, int] = {}
        self.answers: list[Record] = []
        self.resolved: Resolved | None = None
        self._source = source
        self._inputs = tuple(inputs)
        self._open_writer = open_writer
        self._reader = reader
        self._admin = admin
        self._clock = clock
        self._writer: LogWriter | None = None
        self._resolver: ResolvedWriter | None = None
        self._dead_topics: set[str] = set()
        self._written_s = float("-inf")
        self._changed: dict[Partition, int] = {}

    def ensure(self, partitions: int) -> None:
        """Make the topics that this application writes or is asked through, where they are missing."""
        self._admin.ensure(topics.document_spec(self.topic, partitions))
        for name in (topics.resolved(self.topic), topics.requests(self.topic), topics.answers(self.topic)):
            self._admin.ensure(TopicSpec(name, 1, topics.policy(name)))

    def open(self) -> None:
        """Steps 1 and 2. May be called again: whatever was open is aborted."""
        self.close()
        self._writer = self._open_writer(self.group)
        there = {name for name in self._inputs if self._admin.describe(name) is not None}
        self.committed = {
            (name, partition): offset
            for name in there
            for partition, offset in self._reader.committed(self.group, name).items()
        }
        self.answers = _all(self._reader, topics.answers(self.topic))
        tail = _tail(self._reader, topics.resolved(self.topic))
        view = ResolvedView()
        for record in tail:
            view.on_record(record.value)
        held = [Resolved.parse(record.value) for record in tail if record.value is not None]
        self.resolved = view.newest
        ends = {(self.topic, p): offset for p, offset in self._reader.end_offsets(self.topic).items()}
        deltas = [record.key for record in held if not record.full]
        self._resolver = ResolvedWriter(self._source, self.resolved, ends, deltas=deltas)
        self._written_s = float("-inf")
        self._changed = {}

    def covers(self, plan: BatchPlan) -> bool:
        """Whether the batch was committed before; `Fenced` when what is committed lies inside it."""
        moved = {at: end for at, end in plan.ends.items() if end > plan.start.get(at, 0)}
        behind = {at for at, end in moved.items() if self.committed.get(at, -1) < end}
        if moved and not behind:
            return True
        for at in moved:
            if self.committed.get(at, 0) > plan.start.get(at, 0):
                raise Fenced(
                    "a batch begins before what is committed: another process went on from here",
                    group=self.group,
                    topic=at[0],
                    partition=at[1],
                    committed=self.committed[at],
                    start=plan.start.get(at, 0),
                    fix="This one ends; the next start goes on from the committed offsets.",
                )
        return False

    def begin(self) -> None:
        """Start the transaction of step 3."""
        self._open.begin()

    def document(self, key: bytes, value: bytes | None, version: int) -> None:
        """Add a document, or a tombstone (None)."""
        self._open.append(self.topic, key, value, headers=(versions.to_header(version),))

    def set_aside(self, letter: DeadLetter) -> None:
        """Add a record that could not be dealt with."""
        if letter.topic not in self._dead_topics:
            self._admin.ensure(TopicSpec(letter.topic, 1, topics.policy(letter.topic)))
            self._dead_topics.add(letter.topic)
        self._open.append(letter.topic, letter.key, letter.value, headers=letter.headers, partition=0)

    def answer(self, answer: Answer, headers: Headers) -> None:
        """Add how far a request is."""
        self._open.append(topics.answers(self.topic), answer.key(), answer.value(), headers=headers)

    def commit(self, ends: Ends) -> None:
        """End of step 3: all that was added and the input's end offsets, in one stroke."""
        wrote = {at: offset for at, offset in self._open.next_offsets().items() if at[0] == self.topic}
        self._open.commit(self.group, ends)
        self.committed.update(ends)
        self._changed.update(wrote)

    def resolve(self, cut: Cut, topic_ids: Mapping[str, str]) -> bool:
        """Step 4; when nothing was written since the last one, at most once a second. False when left out."""
        now_s = self._clock.monotonic_s()
        if not self._changed and now_s - self._written_s < _EVERY_S:
            return False
        if self._resolver is None:
            raise RuntimeError("open() comes first")
        self.resolved, records = self._resolver.records(
            self._changed,
            version=cut.version,
            position=cut.position,
            now_us=self._clock.now_us(),
            uncovered=cut.uncovered,
            state={"topic_ids": dict(topic_ids), "inputs": list(self._inputs)},
        )
        self._open.begin()
        for key, value in records:
            headers = (versions.to_header(cut.version),)
            self._open.append(topics.resolved(self.topic), key, value, headers=headers, partition=0)
        self._open.commit()
        self._changed, self._written_s = {}, now_s
        return True

    def close(self) -> None:
        """Abort what is open; may be called twice."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    @property
    def _open(self) -> LogWriter:
        if self._writer is None:
            raise RuntimeError("open() comes first")
        return self._writer


def _tail(reader: LogReader, topic: str) -> list[Record]:
    """The last records of a resolved topic's one partition, back to a full map at least."""
    begin, end = reader.begin_offsets(topic)[0], reader.end_offsets(topic)[0]
    window = _WINDOW
    while True:
        start = max(begin, end - window)
        records = list(reader.read(topic, 0, start, end))
        full = [n for n, r in enumerate(records) if r.value is not None and Resolved.parse(r.value).full]
        if full or start == begin:
            return records[full[-1] :] if full else records
        window *= 8


def _all(reader: LogReader, topic: str) -> list[Record]:
    begins, ends = reader.begin_offsets(topic), reader.end_offsets(topic)
    return [record for p, end in sorted(ends.items()) for record in reader.read(topic, p, begins[p], end)]
