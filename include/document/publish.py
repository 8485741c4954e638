"""The one writer of a document topic: exactly once, whatever stops it.

Order of durable steps; a crash after any of them is tested:

1. Open the writer of transactional id `<application>.<topic>.0`: older ones are fenced, their transaction aborted;
   where Kafka forgot to tell some partitions how the last one ended, they are told (`log.unended`).
2. Read what is committed: input offsets of the group of that name, answers, the newest resolved record. Should that
   not speak for all that is there, it is written again, for the position that it named: the next opening tells by it
   what the last transaction was.
3. For each batch one transaction: documents and tombstones, records set aside, answers, and the input end offsets of
   the group. A batch whose end offsets are committed already is not written again.
4. A transaction of its own for `<topic>.resolved`: source → P, partition → next offset. Should step 4 be missed, the
   next batch's record says more than the missing one would have.

Where Spark starts to read follows from step 2 alone; checkpoints and batch ids never decide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from include.clock import Clock
from include.document.held import all_of, ends_of, flat, newest_of
from include.errors import Fenced, Transient
from include.log import topics
from include.log.dead_letter import DeadLetter
from include.log.kept import require_kept
from include.log.placement import require_ungrown
from include.log.plan import BatchPlan, Cut, Partition
from include.log.ports import Headers, LogReader, LogWriter, Record, TopicAdmin, TopicSpec
from include.log.requests import Answer
from include.log.resolved import Ends, Resolved, ResolvedWriter
from include.log.unended import open_ended
from include.record import version as versions
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition

__all__ = ["Finish", "Publisher"]

_EVERY_S: Final = 1.0
_NOWHERE: Final = SourcePosition("mariadb", MariadbGtidSet(), BinlogPosition("none.0", 0), 0)
Finish = Callable[[str, Collection[Partition], bool], None]
"""Fences the writer of a transactional id; writes a transaction's end (a commit, or else an abort) to these places, and
to where the offsets of the group of that name are kept."""


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
        finish: Finish,
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
        self._finish = finish
        self._reader = reader
        self._admin = admin
        self._clock = clock
        self._writer: LogWriter | None = None
        self._resolver: ResolvedWriter | None = None
        self._dead_topics: set[str] = set()
        self._written_s = float("-inf")
        self._changed: dict[Partition, int] = {}
        self._answered = 0
        self._unsaid = False
        self._topic_id = ""

    def ensure(self, partitions: int) -> None:
        """Make the topics that this application writes or is asked through, where they are missing.

        Raises:
            Terminal: the documents' topic is there with another number of partitions, forgets documents, or has
                grown.
        """
        spec = topics.document_spec(self.topic, partitions)
        self._topic_id = self._admin.ensure(spec).topic_id
        require_kept(spec, self._admin)
        require_ungrown(self.topic, self._reader)
        for name in (topics.resolved(self.topic), topics.requests(self.topic), topics.answers(self.topic)):
            self._admin.ensure(TopicSpec(name, 1, topics.policy(name)))

    def open(self) -> None:
        """Steps 1 and 2. May be called again: whatever was open is aborted."""
        self.close()
        self._writer = open_ended(
            self.group,
            writer=lambda: self._open_writer(self.group),
            topics=self._own_topics,
            was_committed=self._was_committed,
            finish=lambda places, commit: self._finish(self.group, places, commit),
            reader=self._reader,
            clock=self._clock,
        )
        self.committed = self._read_committed()
        self.answers = all_of(self._reader, topics.answers(self.topic))
        view, deltas = newest_of(self._reader, topics.resolved(self.topic))
        self.resolved = view.newest
        ends = ends_of(self._reader, self.topic)
        self._answered = max((record.next_offset for record in self.answers), default=0)
        self._resolver = ResolvedWriter(self._source, self.resolved, ends, deltas=deltas)
        self._written_s = float("-inf")
        self._changed, self._unsaid = {}, False
        last = self.resolved
        if last is not None and self._seen_since(last, view.ends() or {}):
            self._say(last.version, last.position, last.uncovered, last.state)

    def _own_topics(self) -> list[str]:
        """Topics that this application alone writes to."""
        dead = {topics.dead(name, self.application) for name in (*self._inputs, self.topic)}
        mine = {self.topic, topics.resolved(self.topic), topics.answers(self.topic)} | dead
        return [name for name in self._admin.names() if name in mine]

    def _read_committed(self) -> dict[Partition, int]:
        there = {name for name in self._inputs if self._admin.describe(name) is not None}
        return {
            (name, partition): offset
            for name in there
            for partition, offset in self._reader.committed(self.group, name).items()
        }

    def _was_committed(self, left: Mapping[Partition, int]) -> bool:
        """Of a batch: whether the newest resolved record speaks for it, or anything is seen that it does not speak for.

        A transaction of step 4 is one record in one partition: if it has no end there, nobody has seen anything of it.
        """
        if set(left) == {(topics.resolved(self.topic), 0)}:
            return False
        view, _ = newest_of(self._reader, topics.resolved(self.topic))
        last, ends = view.newest, view.ends() or {}
        if any(ends.get(at, 0) > offset for at, offset in left.items()):
            return True
        if last is None:
            last = Resolved(self._source, 0, 0, _NOWHERE, {}, full=True, state={"answers": 0, "committed": {}})
        try:
            self.committed = self._read_committed()
        except Transient:
            # Where offsets are kept that transaction has no end either.
            self.committed = {}
            last = replace(last, state={**last.state, "committed": {}})
        return self._seen_since(last, ends)

    def _seen_since(self, last: Resolved, ends: Ends) -> bool:
        """Whether a batch was committed that `last` does not speak for: offsets, answers or documents say so."""
        if last.state.get("committed", flat(self.committed)) != flat(self.committed):
            return True
        answers = topics.answers(self.topic)
        begins = {(name, p): at for name in (self.topic, answers) for p, at in self._reader.begin_offsets(name).items()}
        known = {**ends, (answers, 0): last.state.get("answers", self._answered)}
        return any(
            any(True for _ in self._reader.read(*at, max(begins[at], known.get(at, 0)), offset))
            for name in (self.topic, answers)
            for at, offset in ends_of(self._reader, name).items()
        )

    def why_incomplete(self) -> str:
        """Why the committed offsets do not speak for all documents any more; '' when they do. After `open`."""
        state = self.resolved.state if self.resolved is not None else {}
        if state.get("topic_id", self._topic_id) != self._topic_id:
            return "the documents' topic was made anew"
        stood_us = self._clock.now_us() - state.get("at_us", self._clock.now_us())
        if any(stood_us > kept_ms * 1000 for kept_ms in self._deletions_kept_ms()):
            return "nothing was assembled for longer than the log keeps deletes"
        return ""

    def _deletions_kept_ms(self) -> Iterator[int]:
        """Of each input that tells of deletions, by the log itself; as declared where the log does not tell."""
        for name in self._inputs:
            declared = topics.policy(name).get("delete.retention.ms")
            if declared is not None and self._admin.describe(name) is not None:
                told = self._admin.deletions_kept_ms(name)
                yield int(declared) if told is None else told

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
        wrote = self._open.next_offsets()
        self._open.commit(self.group, ends)
        self.committed.update(ends)
        self._changed.update({at: offset for at, offset in wrote.items() if at[0] == self.topic})
        self._answered = wrote.get((topics.answers(self.topic), 0), self._answered)
        self._unsaid = True

    def resolve(self, cut: Cut, topic_ids: Mapping[str, str], uncovered: Collection[str] = ()) -> bool:
        """Step 4; when there is nothing new to say, at most once a second. False when left out.

        `uncovered`: tables (`database.table`) whose changes up to the cut may be missing from the documents.
        """
        now_s = self._clock.monotonic_s()
        told = self.resolved is not None and set(self.resolved.uncovered) == set(uncovered)
        # After every batch that was committed, as `open` tells by it what the next one became.
        if not self._unsaid and told and now_s - self._written_s < _EVERY_S:
            return False
        state = {"topic_ids": dict(topic_ids), "inputs": list(self._inputs)}
        self._say(
            cut.version, cut.position, uncovered, state | {"at_us": self._clock.now_us(), "topic_id": self._topic_id}
        )
        self._written_s = now_s
        return True

    def _say(
        self, version: int, position: SourcePosition, uncovered: Collection[str], state: Mapping[str, Any]
    ) -> None:
        if self._resolver is None:
            raise RuntimeError("open() comes first")
        self.resolved, records = self._resolver.records(
            self._changed,
            version=version,
            position=position,
            now_us=self._clock.now_us(),
            uncovered=uncovered,
            state={**state, "answers": self._answered, "committed": flat(self.committed)},
        )
        self._open.begin()
        for key, value in records:
            headers = (versions.to_header(version),)
            self._open.append(topics.resolved(self.topic), key, value, headers=headers, partition=0)
        self._open.commit()
        self._changed, self._unsaid = {}, False

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
