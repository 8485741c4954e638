"""`CaptureLog` where capture reaches log and registry itself, in Kafka or in memory.

A group → one transaction of the log: rows, control records, answers, and the resolved record last:
 1. begin
 2. append the group's records; of a group that is larger than memory should hold, in parts (`write`)
 3. flush, and learn the offsets after the last record of each partition
 4. append the resolved record (and, after a full map, tombstones of the deltas that it replaces)
 5. commit: all of it is seen by readers, or nothing
A crash before 5 leaves nothing: the next writer's fence aborts it. After a crash in 5 the topic alone says whether it
happened; where Kafka forgot to tell some partitions, `open` has them told, before anything is read:
 6. the end of what is left open is written to those partitions (`unended`)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from typing_extensions import override

from include.clock import Clock
from include.errors import Fenced, Restart, Terminal
from include.log.memory import MemoryLog
from include.log.ports import LogReader, LogWriter, Record, SchemaRegistry, TopicAdmin, TopicInfo, TopicSpec, all_of
from include.log.publishing.unended import unended
from include.log.requests.records import Answer
from include.log.resolved import ResolvedRecord, ResolvedWriter
from include.log.topics import (
    LARGEST_RECORD,
    RECORD_HEADS,
    control,
    policy,
    source_answers,
    source_requests,
    source_resolved,
)
from include.record.position import SourcePosition
from include.record.version import to_header
from include.source.log.checkpoint import read_checkpoint
from include.source.log.ports import LogPorts
from include.source.log.unended import open_writer, own_topics
from include.source.ports import CaptureLog, Group, OutgoingRecord, ResumePoint
from include.source.state.capture_state import CaptureState

__all__ = ["DirectLog", "answers_by_id", "ensure_topics", "memory_log", "transactional_id"]

_FULL_EVERY_US: Final = 300_000_000
# Brokers take transactions up to so long by default.
_LONGEST_S: Final = 900.0
_LATE: Final = 0.95
_SLOW_S: Final = 1.0
_SETTLES_S: Final = 5.0


def transactional_id(name: str) -> str:
    """The one id under which a source's topics are written."""
    return f"lyrebird.capture.{name}"


def ensure_topics(name: str, admin: TopicAdmin) -> None:
    """Make the source's own topics where they are missing."""
    for topic in (source_resolved(name), control(name), source_requests(name), source_answers(name)):
        admin.ensure(TopicSpec(topic, 1, policy(topic)))


def answers_by_id(reader: LogReader, name: str) -> dict[str, Answer]:
    """The last answer to each request."""
    answers = (
        Answer.parse(record.value) for record in all_of(reader, source_answers(name)) if record.value is not None
    )
    return {answer.id: answer for answer in answers}


class DirectLog(CaptureLog):
    """The `CaptureLog` that writes to Kafka itself.

    Errors are those of the ports; a `Terminal` for what does not end within `longest_s`.
    """

    def __init__(self, name: str, ports: LogPorts, clock: Clock, *, longest_s: float = _LONGEST_S) -> None:
        """`longest_s`: so long after a transaction's begin the log aborts it by itself."""
        self._name, self._ports, self._clock, self._longest_s = name, ports, clock, longest_s
        self._begun_s = 0.0
        self._after = "the beginning"
        self._topic, self._asked = source_resolved(name), source_requests(name)
        self._writer: LogWriter | None = None
        self._resolved: ResolvedWriter | None = None
        self._begun = self._appended = False
        self._anew: dict[tuple[str, int], int] = {}

    @override
    def newest(self) -> ResumePoint | None:
        ensure_topics(self._name, self._ports.admin)
        return _resume_point(read_checkpoint(self._ports.reader, self._topic).last)

    @override
    def open(self) -> ResumePoint | None:
        self.close()
        ensure_topics(self._name, self._ports.admin)
        try:
            self._writer, checkpoint = open_writer(self._name, self._ports, self._clock)
            self._begun = self._appended = False
            point = _resume_point(checkpoint.last)
        except BaseException:
            self.close()
            raise
        if point is not None:
            self._after = _place(point.position)
        self._resolved = ResolvedWriter(
            self._name, checkpoint.last, checkpoint.ends, deltas=checkpoint.deltas, full_every_us=_FULL_EVERY_US
        )
        return point

    @override
    def register(self, subject: str, schema: Mapping[str, Any]) -> int:
        """No level is asked for: a table's owner changes it without asking its readers."""
        return self._ports.registry.register(subject, schema, "NONE")

    @override
    def ensure(self, topic: TopicSpec) -> TopicInfo:
        return self._ports.admin.ensure(topic)

    @override
    def ensure_all(self, topics: Iterable[TopicSpec]) -> None:
        self._ports.admin.ensure_all(topics)

    @override
    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        return self._ports.admin.describe_all(names)

    @override
    def begins_anew(self, topic: str) -> None:
        # Readers must not wait for offsets of the topic that is gone, nor for partitions that only that one had.
        _, resolved = self._opened()
        self._anew |= {place: 0 for place in resolved.ends if place[0] == topic}
        self._anew |= {(topic, partition): end for partition, end in self._ports.reader.end_offsets(topic).items()}

    @override
    def largest(self, topic: str) -> int:
        """Where Kafka may not tell, what topics are made with."""
        told = self._ports.admin.largest(topic)
        return min(LARGEST_RECORD, LARGEST_RECORD if told is None else told) - RECORD_HEADS

    @override
    def remake(self, topic: TopicSpec) -> TopicInfo:
        if self._begun:
            raise Terminal("a topic cannot be made anew in a transaction", topic=topic.name)
        self._ports.admin.delete(topic.name)
        made = self._ports.admin.ensure(topic)
        self.begins_anew(topic.name)
        return made

    @override
    def write(self, outputs: Sequence[OutgoingRecord]) -> None:
        """Steps 1 and 2."""
        if self._begun and self._age_s() >= _LATE * self._longest_s:
            raise self._too_long()
        with self._within_time():
            self._append(outputs)

    def _append(self, outputs: Sequence[OutgoingRecord]) -> None:
        writer, _ = self._opened()
        if not self._begun:
            self._begun_s = self._clock.monotonic_s()
            writer.begin()
            self._begun = True
        self._appended = self._appended or bool(outputs)
        writer.append_all(outputs)

    @override
    def commit(self, group: Group) -> None:
        """All steps."""
        with self._within_time():
            self._commit(group)
        self._after = _place(group.position)

    def _commit(self, group: Group) -> None:
        self._append(group.outputs)
        writer, resolved = self._opened()
        ends = self._anew | (writer.next_offsets() if self._appended else {})
        _, appended = resolved.records(
            ends,
            version=group.version,
            position=group.position,
            now_us=self._clock.now_us(),
            uncovered=group.uncovered,
            state=group.state.to_json(),
        )
        headers = (to_header(group.version),)
        for key, value in appended:
            writer.append(self._topic, key, value, headers=headers)
        writer.commit()
        self._begun = self._appended = False
        self._anew = {}
        # From its begin on: the first step that has to reach the coordinator may be the flush, or an append.
        if self._age_s() >= _SLOW_S:
            self._require_ended()

    def _require_ended(self) -> None:
        """After a transaction as long as a broker's start takes: the one before may have been forgotten there."""
        left = unended(self._ports.reader, own_topics(self._name, self._ports.admin), self._clock, _SETTLES_S)
        if left:
            (topic, partition), offset = min(left.items())
            raise Restart(
                "Kafka left a transaction open",
                fix="A new writer ends it.",
                system="kafka",
                topic=topic,
                partition=partition,
                offset=offset,
                partitions=len(left),
            )

    @override
    def requests(self, since: int) -> tuple[list[Record], int]:
        reader, topic = self._ports.reader, self._asked
        end = reader.end_offsets(topic)[0]
        if end <= since:
            return [], since
        start = max(reader.begin_offsets(topic)[0], since)
        return list(reader.read(topic, 0, start, end)), end

    @override
    def closed_requests(self) -> set[str]:
        answers = answers_by_id(self._ports.reader, self._name)
        return {id_ for id_, answer in answers.items() if answer.state in ("done", "refused")}

    @override
    def close(self) -> None:
        writer, self._writer, self._resolved = self._writer, None, None
        self._anew = {}
        if writer is not None:
            writer.close()

    def _age_s(self) -> float:
        return self._clock.monotonic_s() - self._begun_s

    @contextmanager
    def _within_time(self) -> Iterator[None]:
        """Whoever is fenced after the log's own time was fenced by the log, which says of it what it says of others."""
        try:
            yield
        except Fenced as error:
            if self._begun and self._age_s() >= self._longest_s:
                raise self._too_long() from error
            raise

    def _too_long(self) -> Terminal:
        return Terminal(
            "a source transaction takes longer than one of Kafka's may",
            source=self._name,
            after=self._after,
            seconds=round(self._age_s()),
            most=round(self._longest_s),
            fix="Raise `transaction.max.timeout.ms` of the brokers, and to as much `transaction.timeout.ms` in "
            "`options` of the deployment's section `kafka`; then start capture again.",
        )

    def _opened(self) -> tuple[LogWriter, ResolvedWriter]:
        if self._writer is None or self._resolved is None:
            raise Terminal("the log is not open", source=self._name)
        return self._writer, self._resolved


def memory_log(name: str, log: MemoryLog, registry: SchemaRegistry, clock: Clock) -> DirectLog:
    """That log in memory."""
    id_ = transactional_id(name)

    def finish(places: Collection[tuple[str, int]], commit: bool) -> None:
        log.finish(id_, places, commit=commit)

    ports = LogPorts(lambda: log.writer(id_), log.reader(), log.admin(), registry, finish)
    return DirectLog(name, ports, clock)


def _place(position: SourcePosition) -> str:
    gtids = str(position.gtids)
    return f"{gtids} ({position.binlog})" if gtids else str(position.binlog)


def _resume_point(last: ResolvedRecord | None) -> ResumePoint | None:
    return None if last is None else ResumePoint(last.position, CaptureState.from_json(last.state))
