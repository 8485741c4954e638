"""The one writer of a topic that an application makes: exactly once, whatever stops it.

Order of durable steps; a crash after any of them is tested:

1. Open the writer of transactional id `<application>.<topic>.0`: older ones are fenced, their transaction aborted;
   where Kafka forgot to tell some partitions how the last one ended, they are told (`log.publishing.unended`).
2. Read what is committed: input offsets of the group of that name, answers, the newest resolved records, which have
   offsets that the broker has deleted since. Should those records not speak for all that is there, they are written
   again, for the positions that they named: the next opening tells by them what the last transaction was.
3. For each batch one transaction: outputs and tombstones, records of further own topics, records set aside, answers,
   and the input end offsets of the group. A batch whose end offsets are committed already is not written again.
4. A transaction of its own for `<topic>.resolved`, with a record of each source: source → P, partition → next offset.
   Should step 4 be missed, the next batch's records say more than the missing ones would have.

A batch that is a part of a far step is complete to nothing and has no step 4: what step 2 needs of it stands in its own
transaction, as a mark (`log.publishing.last_mark`).

Where Spark starts to read follows from step 2 alone; checkpoints and batch ids never decide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from include.clock import Clock
from include.errors import Fenced, Transient
from include.log import topics
from include.log.planning.plan import BatchPlan, Cut, Partition
from include.log.ports import Headers, LogReader, LogWriter, Record, TopicAdmin, TopicSpec, all_of
from include.log.publishing.dead_letter import DeadLetter
from include.log.publishing.last_mark import (
    MARK,
    LastMark,
    ends_of,
    flat,
    mark_of,
    newest_of,
    partitions_of,
    spoken_in,
)
from include.log.publishing.placement import require_ungrown
from include.log.publishing.retention import require_kept
from include.log.publishing.unended import open_ended
from include.log.requests.records import Answer
from include.log.resolved import PartitionEnds, ResolvedRecord, ResolvedWriter
from include.record import version as versions
from include.record.position import SourcePosition

__all__ = ["Finish", "Publisher"]

_EVERY_S: Final = 1.0
Finish = Callable[[str, Collection[Partition], bool], None]
"""Fences the writer of a transactional id; writes a transaction's end (a commit, or else an abort) to these places, and
to where the offsets of the group of that name are kept."""


_NOTHING: Final = LastMark({}, {})


@dataclass(frozen=True)
class _Said:
    version: int
    position: SourcePosition
    uncovered: Collection[str]


class Publisher:
    """Writes one topic. `open` before anything else, and again after `Transient` from any call.

    Args:
        topic: the one that is written.
        application: its name; names the transactional id and the group of offsets, with the topic.
        sources: those that the topic is made of.
        inputs: topics that the application reads.
        own: further topics that nobody else writes to.
        open_writer: opens the writer of a transactional id.
        finish: writes the end of a transaction that was left without one.
        reader: of the log.
        admin: makes and describes topics.
        clock: for times and waits.
    """

    def __init__(
        self,
        topic: str,
        application: str,
        sources: Collection[str],
        inputs: Iterable[str],
        *,
        own: Iterable[TopicSpec] = (),
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
        self.resolved: ResolvedRecord | None = None
        """The newest record of any source."""
        self._sources = tuple(sorted(sources))
        self._inputs = tuple(inputs)
        self._own = {spec.name: spec for spec in own}
        self._open_writer = open_writer
        self._finish = finish
        self._reader = reader
        self._admin = admin
        self._clock = clock
        self._writer: LogWriter | None = None
        self._said: dict[str, ResolvedRecord] = {}
        self._resolvers: dict[str, ResolvedWriter] = {}
        self._deltas: list[bytes] = []
        self._ends: dict[Partition, int] = {}
        self._dead_topics: set[str] = set()
        self._written_s = float("-inf")
        self._changed: dict[Partition, int] = {}
        self._unsaid = False
        self._topic_id = ""
        self._spoken = _NOTHING

    def ensure(self, partitions: int, *, compacted: bool = True) -> None:
        """Make the topics that this application writes or is asked through, where they are missing.

        `compacted`: the topic keeps the newest record of each key for ever, else all for a time.

        Raises:
            Terminal: the topic, or a further own one, is there with another number of partitions, forgets records,
                or the topic has grown.
        """
        spec = (topics.document_spec if compacted else topics.event_spec)(self.topic, partitions)
        self._topic_id = self._admin.ensure(spec).topic_id
        if compacted:
            require_kept(spec, self._admin)
            require_ungrown(self.topic, self._reader)
        for spec in self._own.values():
            self._admin.ensure(spec)
            if "delete.retention.ms" in spec.config:
                require_kept(spec, self._admin)
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
        self.answers = all_of(self._reader, topics.answers(self.topic))
        view, self._deltas, spoken = newest_of(self._reader, topics.resolved(self.topic))
        self._spoken = spoken or _NOTHING
        self._take_up(self._read_committed())
        self.resolved = view.newest
        self._said = {name: last for name in self._sources if (last := view.of(name)) is not None}
        self._resolvers = {}
        self._ends = {at: end for name in self._written() for at, end in ends_of(self._reader, name).items()}
        self._written_s = float("-inf")
        self._changed, self._unsaid = {}, False
        if self._seen_since(self._spoken):
            self._again()

    @property
    def ends(self) -> dict[Partition, int]:
        """The next offsets of all that batches write to, but for what is set aside."""
        return dict(self._ends)

    def _written(self) -> tuple[str, ...]:
        """The topics that batches write to, but for what is set aside."""
        return self.topic, topics.answers(self.topic), *self._own

    def _own_topics(self) -> list[str]:
        """Topics that this application alone writes to."""
        dead = {topics.dead(name, self.application) for name in (*self._inputs, self.topic)}
        mine = {topics.resolved(self.topic), *self._written()} | dead
        return [name for name in self._admin.names() if name in mine]

    def _read_committed(self) -> dict[Partition, int]:
        return {
            (name, partition): offset
            for name in self._there()
            for partition, offset in self._reader.committed(self.group, name).items()
        }

    def _there(self) -> set[str]:
        return {name for name in self._inputs if self._admin.describe(name) is not None}

    def _take_up(self, kept: Mapping[Partition, int]) -> None:
        """Go on from the group's offsets, and from those that were said last where the group has none any more.

        A broker deletes offsets that nobody commits anew for `offsets.retention.minutes`, 7 days unless it is set
        (KIP-211). Who began at the beginnings then would do again what is done, and not ask how long it stood.
        """
        there = self._there()
        said = {at: end for at, end in partitions_of(self._spoken.committed or {}).items() if at[0] in there}
        self.committed = {**said, **kept}
        if said.keys() - kept.keys() and self._wrote_since(self._spoken):
            # Of a batch that ended between steps 3 and 4 the group alone knew what it had read.
            self._spoken = replace(self._spoken, topic_id="")

    def _was_committed(self, left: Mapping[Partition, int]) -> bool:
        """Of a batch: whether what was said last speaks for it, or anything is seen that that does not speak for.

        A transaction of step 4 is committed if its batch is seen and it alone is not: what it says is so.
        """
        spoken = newest_of(self._reader, topics.resolved(self.topic))[2] or _NOTHING
        if any(spoken.ends.get(at, 0) > offset for at, offset in left.items()):
            return True
        try:
            self.committed = self._read_committed()
        except Transient:
            # Where offsets are kept that transaction has no end either.
            self.committed, spoken = {}, replace(spoken, committed=None)
        return self._seen_since(spoken)

    def _seen_since(self, spoken: LastMark) -> bool:
        """Whether a batch was committed that this does not speak for: offsets, or records of own topics say so."""
        if spoken.committed is not None and spoken.committed != flat(self.committed):
            return True
        return self._wrote_since(spoken)

    def _wrote_since(self, spoken: LastMark) -> bool:
        return any(
            any(True for _ in self._reader.read(name, p, max(begin, spoken.ends.get((name, p), 0)), ends[name, p]))
            for name in self._written()
            for ends in (ends_of(self._reader, name),)
            for p, begin in self._reader.begin_offsets(name).items()
        )

    def why_incomplete(self) -> str:
        """Why the committed offsets do not speak for all outputs any more; '' when they do. After `open`."""
        if self._spoken.topic_id != self._topic_id:
            return "the topic was made anew" if self._spoken.topic_id else "nothing says what was committed last"
        stood_us = self._clock.now_us() - (self._spoken.at_us or self._clock.now_us())
        if any(stood_us > kept_ms * 1000 for kept_ms in self._deletions_kept_ms()) and self._behind():
            return "nothing was read for longer than the log keeps deletes"
        return ""

    def _behind(self) -> bool:
        """Whether inputs have, or had, anything that was not read: what compaction took leaves its offsets."""
        there = {name for name, _ in self.committed if self._admin.describe(name) is not None}
        return any(end > self.committed.get(at, 0) for name in there for at, end in ends_of(self._reader, name).items())

    def _deletions_kept_ms(self) -> Iterator[int]:
        """Of each input that tells of deletions, by the log itself; as declared where the log does not tell."""
        for name in self._inputs:
            declared = topics.policy(name).get("delete.retention.ms")
            if declared is not None and self._admin.describe(name) is not None:
                told = self._admin.deletions_kept_ms(name)
                yield int(declared) if told is None else told

    def covers(self, plan: BatchPlan) -> bool:
        """Whether the batch was committed before; `Fenced` when what is committed lies inside it."""
        moved = {partition: end for partition, end in plan.ends.items() if end > plan.start.get(partition, 0)}
        behind = {partition for partition, end in moved.items() if self.committed.get(partition, -1) < end}
        if moved and not behind:
            return True
        for partition in moved:
            if self.committed.get(partition, 0) > plan.start.get(partition, 0):
                raise Fenced(
                    "a batch begins before what is committed: another process went on from here",
                    group=self.group,
                    topic=partition[0],
                    partition=partition[1],
                    committed=self.committed[partition],
                    start=plan.start.get(partition, 0),
                    fix="This one ends; the next start goes on from the committed offsets.",
                )
        return False

    def begin(self) -> None:
        """Start the transaction of step 3."""
        self._open.begin()

    def write(self, key: bytes, value: bytes | None, version: int, headers: Headers = ()) -> None:
        """Add an output, or a tombstone (None); `headers` go behind that of its version."""
        self._open.append(self.topic, key, value, headers=(versions.to_header(version), *headers))

    def append(
        self, topic: str, key: bytes | None, value: bytes | None, *, headers: Headers = (), partition: int | None = None
    ) -> None:
        """Add a record to one of the further own topics; without `partition` it goes by its key."""
        if topic not in self._own:
            raise RuntimeError(f"{topic} is none of the topics that this one says it writes")
        self._open.append(topic, key, value, headers=headers, partition=partition)

    def set_aside(self, letter: DeadLetter) -> None:
        """Add a record that could not be dealt with."""
        if letter.topic not in self._dead_topics:
            self._admin.ensure(TopicSpec(letter.topic, 1, topics.policy(letter.topic)))
            self._dead_topics.add(letter.topic)
        self._open.append(letter.topic, letter.key, letter.value, headers=letter.headers, partition=0)

    def answer(self, answer: Answer, headers: Headers) -> None:
        """Add how far a request is."""
        self._open.append(topics.answers(self.topic), answer.key(), answer.value(), headers=headers)

    def commit(self, ends: PartitionEnds, *, part: bool = False) -> None:
        """End of step 3: all that was added and the input's end offsets, in one stroke.

        `part`: `resolve` does not follow, as the batch is complete to nothing (`BatchPlan.cuts` is empty).
        """
        wrote = {
            partition: end for partition, end in self._open.next_offsets().items() if partition[0] in self._written()
        }
        committed, known = {**self.committed, **ends}, {**self._ends, **wrote}
        if part:
            self._mark(LastMark(flat(committed), known, self._clock.now_us(), self._topic_id))
        self._open.commit(self.group, ends)
        self.committed, self._ends = committed, known
        self._changed.update({partition: end for partition, end in wrote.items() if partition[0] == self.topic})
        self._unsaid = not part

    def resolve(
        self,
        cuts: Mapping[str, Cut],
        topic_ids: Mapping[str, str],
        uncovered: Mapping[str, Collection[str]] | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> bool:
        """Step 4; when there is nothing new to say, at most once a second. False when left out.

        Args:
            cuts: of each source what everything that was committed is complete to.
            topic_ids: those that the input's offsets belong to.
            uncovered: of each source the tables (`database.table`) whose changes up to the cut may be missing.
            state: what the application itself needs for a restart, plain values that nobody changes afterwards.
        """
        now_s = self._clock.monotonic_s()
        uncovered = uncovered or {}
        told = {name: set(last.uncovered) for name, last in self._said.items()}
        same = all(told.get(name) == set(uncovered.get(name, ())) for name in cuts)
        # After every batch that was committed, as `open` tells by it what the next one became.
        if not self._unsaid and same and now_s - self._written_s < _EVERY_S:
            return False
        of_ours = {
            "topic_ids": dict(topic_ids),
            "inputs": list(self._inputs),
            "at_us": self._clock.now_us(),
            "topic_id": self._topic_id,
        }
        said = {name: _Said(cut.version, cut.position, uncovered.get(name, ())) for name, cut in cuts.items()}
        self._say(said, {**(state or {}), **of_ours})
        self._written_s = now_s
        return True

    def _again(self) -> None:
        """What was said last, of all that is there; a mark, where nothing has been resolved yet."""
        if self._said and self.resolved is not None:
            self._say({}, {**self.resolved.state, "topic_id": self._spoken.topic_id})
            return
        self._open.begin()
        # Of when it was, and of which topic: `why_incomplete` asks for it at every opening until a batch is through.
        self._mark(replace(self._spoken, committed=flat(self.committed), ends=self._ends))
        self._open.commit()

    def _mark(self, spoken: LastMark) -> None:
        self._open.append(topics.resolved(self.topic), MARK, None, headers=mark_of(spoken), partition=0)

    def _say(self, said: Mapping[str, _Said], state: Mapping[str, Any]) -> None:
        """A record of each source, also of those that it says nothing new of: all speak for the same offsets."""
        last = {name: _Said(each.version, each.position, each.uncovered) for name, each in self._said.items()}
        named = {**last, **said}
        state = {**state, **spoken_in(self._ends, self.topic), "committed": flat(self.committed)}
        self._open.begin()
        for source, statement in sorted(named.items(), key=lambda pair: pair[0]):
            record, rows = self._resolver(source).records(
                self._changed,
                version=statement.version,
                position=statement.position,
                now_us=self._clock.now_us(),
                uncovered=statement.uncovered,
                state=state,
                sources=sorted(named) if len(named) > 1 else (),
            )
            for key, value in rows:
                headers = (versions.to_header(statement.version),)
                self._open.append(topics.resolved(self.topic), key, value, headers=headers, partition=0)
            self._said[source] = self.resolved = record
        self._open.commit()
        self._changed, self._unsaid = {}, False

    def _resolver(self, source: str) -> ResolvedWriter:
        if source not in self._resolvers:
            # What a source left that the topic is made of no more goes with the first.
            others = tuple(f"{name}/".encode() for name in self._sources if name != source)
            deltas = [key for key in self._deltas if not key.startswith(others)]
            self._deltas = [key for key in self._deltas if key.startswith(others)]
            ends = {at: end for at, end in self._ends.items() if at[0] == self.topic}
            self._resolvers[source] = ResolvedWriter(source, self._said.get(source, self.resolved), ends, deltas=deltas)
        return self._resolvers[source]

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
