"""Following a resolved topic: of each source the newest record whose ends are known, and what those ends are.

At the start the topic is read back from its end in growing windows until one holds a full map with no hole behind
it; from then on record by record. Nothing here waits for a record that may never come: until a full map has been
seen there is simply no cut.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final, Protocol

from confluent_kafka import TopicPartition
from typing_extensions import override

from include.clock import Clock, SystemClock
from include.errors import InvalidRecord, Terminal, Transient
from include.log.kafka.errors import AT_END, NOT_HELD, ClientOptions, Connection
from include.log.planning.plan import BatchGoal, Cut
from include.log.planning.slices import RangeConsumer, Slice
from include.log.planning.survey import KafkaSurvey, Survey
from include.log.ports import LogReader
from include.log.resolved import PartitionEnds, ResolvedRecord, ResolvedView, furthest

__all__ = ["KafkaTail", "PortTail", "ResolvedTail", "Tail", "newest_cut", "resolved_at"]

_FIRST_WINDOW: Final = 200
_GROWTH: Final = 8
_PER_POLL: Final = 500


class Tail(Protocol):
    """One partition (0) of one topic, read backwards by ranges and forwards for ever. Values only."""

    def bounds(self) -> tuple[int, int] | None:
        """Begin and last stable offset, or None while the topic does not exist; `Transient` when nobody answers."""

    def between(self, start: int, end: int) -> Generator[tuple[int, bytes | None]]:
        """(offset, value) of the committed records with start <= offset < end."""

    def follow(self, start: int, wait_s: float) -> list[tuple[int, bytes | None]]:
        """Records from `start` (later: from where the last call ended); waits up to `wait_s` for the first."""


class ResolvedTail:
    """What a resolved topic says now; `newest` is None until a full map has been read.

    Of a topic that is made of several sources it is complete to each source's newest record.
    """

    def __init__(self, tail: Tail, topic: str) -> None:
        self.tail = tail
        self.topic = topic
        self._view = ResolvedView()
        self._next: int | None = None
        self._of: dict[str, tuple[Cut, PartitionEnds]] = {}
        self.newest: BatchGoal | None = None

    def poll(self, wait_s: float = 0.0) -> BatchGoal | None:
        """Take what is new, waiting up to `wait_s` for it; the newest cuts that are known, old or new.

        Raises:
            Transient: the log does not answer (only before the first answer).
            Terminal: a record of the topic cannot be understood.
        """
        if self._next is None:
            bounds = self.tail.bounds()
            if bounds is None:
                return None
            self._read_back(*bounds)
            self._next = bounds[1]
            if self.newest is not None:
                wait_s = 0.0
        self._take(self._view, self.tail.follow(self._next, wait_s))
        return self.newest

    def _read_back(self, begin: int, end: int) -> None:
        window = _FIRST_WINDOW
        while True:
            start = max(begin, end - window)
            self._view = ResolvedView()
            self._take(self._view, self.tail.between(start, end))
            if self._view.ends() is not None or start == begin:
                return
            window *= _GROWTH

    def _take(self, view: ResolvedView, records: Iterable[tuple[int, bytes | None]]) -> None:
        moved = False
        for offset, value in records:
            record = resolved_at(view, self.topic, offset, value)
            ends = None if record is None else view.ends(record.source)
            if record is not None and ends is not None:
                self._of[record.source] = Cut.of(record, offset), ends
                moved = True
        if not moved:
            return
        left = self._of = {source: each for source, each in self._of.items() if source in view.sources()}
        cuts = {(self.topic, source): cut for source, (cut, _) in left.items()}
        self.newest = BatchGoal(cuts, furthest(ends for _, ends in left.values())) if left else None


def resolved_at(view: ResolvedView, topic: str, offset: int, value: bytes | None) -> ResolvedRecord | None:
    """What `view.on_record` returns; raises `Terminal` for a record that cannot be understood."""
    try:
        return view.on_record(value)
    except InvalidRecord as error:
        raise Terminal(
            "a record of the resolved topic cannot be understood, so nobody knows where batches may end",
            topic=topic,
            offset=offset,
            reason=error.details.get("reason"),
            fix="Does a newer capture write it? Upgrade this application.",
        ) from error


class KafkaTail(Tail):
    """`Tail` over one consumer. Following never raises when the broker is away: nothing new comes, that is all."""

    def __init__(
        self, bootstrap: str, topic: str, options: ClientOptions | None = None, survey: Survey | None = None
    ) -> None:
        self._bootstrap, self._options, self._topic = bootstrap, options, topic
        self._survey = survey or KafkaSurvey(bootstrap, options)
        self._connection = Connection(bootstrap, options)
        self._consumer: Any = None

    @override
    def bounds(self) -> tuple[int, int] | None:
        begin = self._survey.offsets([(self._topic, 0)], "begin")
        end = self._survey.offsets([(self._topic, 0)], "end")
        return (begin[self._topic, 0], end[self._topic, 0]) if begin and end else None

    @override
    def between(self, start: int, end: int) -> Generator[tuple[int, bytes | None]]:
        if start >= end:
            return
        consumer = RangeConsumer(self._bootstrap, self._options)
        try:
            for messages in consumer.read([Slice(self._topic, 0, start, end)]):
                yield from ((m.offset(), m.value()) for m in messages)
        finally:
            consumer.close()

    @override
    def follow(self, start: int, wait_s: float) -> list[tuple[int, bytes | None]]:
        if self._consumer is None:
            self._consumer = self._connection.consumer(
                "lyrebird-tail",
                enable_partition_eof=False,
                allow_auto_create_topics=False,
                fetch_wait_max_ms=500,
                queued_max_messages_kbytes=4096,
            )
            self._consumer.assign([TopicPartition(self._topic, 0, start)])
        with self._connection.asking("follow", topic=self._topic):
            first = self._consumer.poll(wait_s)
            batch = [] if first is None else [first, *self._consumer.consume(_PER_POLL, 0)]
        return [(m.offset(), m.value()) for m in batch if not self._trouble(m)]

    def _trouble(self, message: Any) -> bool:
        error = message.error()
        if error is None:
            return False
        if error.code() in NOT_HELD:
            raise Terminal(
                "the resolved topic was made anew or cut short while it was read",
                topic=self._topic,
                fix="Start the application again; when its source has begun anew, rebuild.",
            )
        ours = self._connection.error(error, "follow", topic=self._topic)
        if error.code() != AT_END and not isinstance(ours, Transient):
            raise ours
        return True


class PortTail(Tail):
    """`Tail` over a `LogReader`, for the in-memory log."""

    def __init__(self, reader: LogReader, topic: str) -> None:
        self._reader, self._topic = reader, topic
        self._next: int | None = None

    @override
    def bounds(self) -> tuple[int, int] | None:
        try:
            return self._reader.begin_offsets(self._topic)[0], self._reader.end_offsets(self._topic)[0]
        except Terminal:
            return None

    @override
    def between(self, start: int, end: int) -> Generator[tuple[int, bytes | None]]:
        yield from ((r.offset, r.value) for r in self._reader.read(self._topic, 0, start, end))

    @override
    def follow(self, start: int, wait_s: float) -> list[tuple[int, bytes | None]]:
        """Does not wait."""
        first = start if self._next is None else self._next
        self._next = max(first, self._reader.end_offsets(self._topic)[0])
        return list(self.between(first, self._next))


def newest_cut(
    bootstrap: str,
    topic: str,
    options: Mapping[str, str] | None = None,
    *,
    wait_s: float = 30.0,
    clock: Clock | None = None,
) -> tuple[Cut, dict[tuple[str, int], int]]:
    """The newest resolved record of `topic`, of one source, and its ends, for one who starts there.

    Raises:
        Transient: no record whose ends are known came within `wait_s`.
    """
    clock = clock or SystemClock()
    tail = ResolvedTail(KafkaTail(bootstrap, topic, options), topic)
    until_s = clock.monotonic_s() + wait_s
    while True:
        found = tail.poll(0.2)
        if found is not None:
            return found.cut, dict(found.ends)
        if clock.monotonic_s() > until_s:
            raise Transient(
                "the resolved topic says nothing yet",
                topic=topic,
                options=json.dumps(dict(options or {})),
                waited_s=wait_s,
                fix="Does capture run? See `lyrebird status`.",
            )
        clock.sleep(0.2)
