"""Plans a stream's batches: keeps what is known of its topics between two questions of Spark.

Lives in the process that Spark keeps beside the driver for as long as a query runs. It knows no Spark, and no Kafka
but through `Survey` and `ResolvedTail`; a restart loses nothing, as all that counts is in the offsets.

Topics may appear while it runs (applications start before capture has made all topics) and grow partitions. A topic
that was made anew under its old name ends the stream: its offsets mean other records.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from include.clock import Clock
from include.errors import Terminal, Transient
from include.log.plan import Cut, Limits, Partition, StreamOffset, StreamSpec, governed, step
from include.log.ports import TopicInfo
from include.log.steps import Steps
from include.log.survey import Survey
from include.log.tail import ResolvedTail

__all__ = ["Planner", "bounded"]

LOGGER: Final = logging.getLogger("lyrebird.stream")
_LOOK_EVERY_S: Final = 2.0
_ASK_EVERY_S: Final = 0.05
_SAY_EVERY_S: Final = 30.0

_Offer = tuple[dict[Partition, int], Cut | None]


class Planner:
    """The planner of one stream; not for use from several threads."""

    def __init__(self, spec: StreamSpec, survey: Survey, tail: ResolvedTail | None, clock: Clock) -> None:
        self._spec = spec
        self._steps: Steps | None = None
        if tail is not None and spec.cut_limit is not None:
            self._steps = Steps(tail.tail, tail.topic, spec.topics, spec.cut_limit)
        self._survey = survey
        self._tail = tail
        self._clock = clock
        self._limits = Limits(spec.limit, spec.limits)
        self._topics: dict[str, TopicInfo] = {}
        self._begins: dict[Partition, int] = {}
        self._looked_s: float | None = None
        self._missing: frozenset[str] | None = None
        self._target: _Offer | None = None
        self._newest: dict[Partition, int] = {}
        self._away_s: float | None = None
        self._said_s = 0.0

    def latest(self, start: StreamOffset, wait_s: float = 0.0) -> StreamOffset:
        """The end of the batch after `start`; `start` itself when nothing came within `wait_s`.

        A log that does not answer is nothing new either: it is waited for, for ever, and said so in the process's
        log. Once frozen this holds too: a bounded run ends with what had been planned.

        Raises:
            Terminal: a topic was made anew, or the log does not hold `start` any more.
        """
        try:
            found = self._wait_for_news(start, wait_s)
        except Transient as error:
            self._say_away(error)
            return start
        if self._away_s is not None:
            LOGGER.warning("the log answers again after %.0f s", self._clock.monotonic_s() - self._away_s)
            self._away_s = None
        return found

    def _wait_for_news(self, start: StreamOffset, wait_s: float) -> StreamOffset:
        until_s = self._clock.monotonic_s() + wait_s
        while True:
            left_s = max(0.0, until_s - self._clock.monotonic_s())
            found = self._next(start, left_s)
            if found is not None or left_s == 0.0:
                return found or start
            if self._tail is None or self._tail.newest is None:
                self._clock.sleep(min(_ASK_EVERY_S, left_s))

    def _say_away(self, error: Transient) -> None:
        now_s = self._clock.monotonic_s()
        if self._away_s is None:
            self._away_s = now_s
        elif now_s - self._said_s < _SAY_EVERY_S:
            return
        self._said_s = now_s
        LOGGER.warning("no batch is planned while the log does not answer: %s", error)

    def freeze(self, start: StreamOffset) -> None:
        """From now on go to what is there now, in as many steps as the limits ask for, and no further."""
        self._look(start)
        self._looked_s = self._clock.monotonic_s()
        self._target = self._offer(0.0, start)

    def newest(self) -> Mapping[Partition, int]:
        """The ends that were seen last, whether planned or not: what lag is measured against."""
        return self._newest

    def _next(self, start: StreamOffset, wait_s: float) -> StreamOffset | None:
        now_s = self._clock.monotonic_s()
        if self._looked_s is None or now_s - self._looked_s >= _LOOK_EVERY_S:
            self._look(start)
            self._looked_s = now_s
            if self._tail is not None and self._tail.newest is not None:
                # Else lag would be measured against resolved records alone.
                self._newest.update(self._survey.offsets(self._partitions(self._spec.topics), "end"))
        offer = self._target or self._offer(wait_s, start)
        if offer is None:
            return None
        available, cut = offer
        self._ask_begins(available, start)
        if self._steps is not None and cut is not None:
            cut, available = self._step_to(start, cut, available)
        found = step(start, available=available, begins=self._begins, ids=self._ids(), cut=cut, limits=self._limits)
        if found is not None:
            # After the offsets were asked for: so they are those of the topics that have these ids. What is made
            # anew later than this, but before the batch has been read, shows in the next batch only.
            self._look(start)
        return found

    def _step_to(
        self, start: StreamOffset, cut: Cut, available: dict[Partition, int]
    ) -> tuple[Cut, dict[Partition, int]]:
        """A cut on the way to this one, where it is too far away, and what may be read up to there."""
        nearer, ends = self._steps.next(start, (cut, available)) if self._steps else (cut, available)
        if nearer is cut:
            return cut, available
        free = {at: end for at, end in available.items() if not governed(at[0], self._spec.cut_at or "")}
        return nearer, {**free, **ends}

    def _ids(self) -> dict[str, str]:
        return {name: info.topic_id for name, info in self._topics.items()}

    def _offer(self, wait_s: float, start: StreamOffset) -> _Offer | None:
        """What may be read now: next offsets of all partitions, and the cut that they belong to."""
        if self._tail is None or self._spec.cut_at is None:
            available = self._survey.offsets(self._partitions(self._spec.topics), "end")
            self._newest.update(available)
            return available, None
        found = self._tail.poll(wait_s)
        if found is None:
            return None
        cut, ends = found
        if start.cut is not None and cut.resolved_offset <= start.cut.resolved_offset:
            return None
        wanted = {at: end for at, end in ends.items() if at[0] in self._spec.topics}
        if {topic for topic, _ in wanted} - self._topics.keys():
            self._look(start)
        # A topic that the log does not show yet waits for the next cut, with this one not taken: no batch may be
        # cut at a record and lack what that record speaks for.
        if {topic for topic, _ in wanted} - self._topics.keys():
            return None
        free = [topic for topic in self._spec.topics if not governed(topic, self._spec.cut_at)]
        wanted.update(self._survey.offsets(self._partitions(free), "end"))
        self._newest.update(wanted)
        return wanted, cut

    def _partitions(self, topics: tuple[str, ...] | list[str]) -> list[Partition]:
        return [(t, p) for t in topics if t in self._topics for p in range(self._topics[t].partitions)]

    def _look(self, start: StreamOffset) -> None:
        """Which topics are there, and are they still the ones that our offsets belong to?"""
        asked = set(self._spec.topics)
        if self._spec.cut_at is not None:
            asked.add(self._spec.cut_at)
        found = self._survey.topics(asked)
        for name, info in found.items():
            for known in (self._topics.get(name), start.ids.get(name), self._spec.topic_ids.get(name)):
                known_id = known.topic_id if isinstance(known, TopicInfo) else known
                if known_id is not None and known_id != info.topic_id:
                    raise Terminal(
                        "topic was made anew: the offsets of this copy belong to the old one",
                        topic=name,
                        had_id=known_id,
                        has_id=info.topic_id,
                        fix="Rebuild the copy from the beginning of the new topic.",
                    )
        missing = frozenset(asked - found.keys())
        if missing and missing != self._missing:
            LOGGER.warning("waiting for topics that do not exist yet: %s", ", ".join(sorted(missing)))
        self._missing = missing
        # A topic that is gone keeps its id here: should it come back as another one, it is noticed.
        self._topics.update(found)

    def _ask_begins(self, available: Mapping[Partition, int], start: StreamOffset) -> None:
        """The first offset of each partition that is met for the first time."""
        new = [at for at in available if at not in self._begins]
        if not new:
            return
        begins = self._survey.offsets(new, "begin")
        for at, begin in begins.items():
            first = start.ends.get(at)
            if first is not None and first < begin:
                raise _removed(at, first, begin)
        self._begins.update(begins)


def bounded(spec: StreamSpec, survey: Survey, end: Mapping[str, Mapping[int, int]]) -> StreamOffset:
    """All that `spec` covers, to `end` where it names a partition and to the last stable offset where not.

    Raises:
        Terminal: a topic does not exist, or the log does not hold an offset of `spec.start` any more.
    """
    found = survey.topics(spec.topics)
    missing = sorted(set(spec.topics) - found.keys())
    if missing:
        raise Terminal("topic does not exist", topic=missing, fix="Does what writes it run? See `lyrebird status`.")
    partitions = [(name, p) for name, info in sorted(found.items()) for p in range(info.partitions)]
    starts = survey.offsets(partitions, "begin")
    ends = survey.offsets(partitions, "end")
    for at in partitions:
        topic, partition = at
        first = spec.start.get(topic, {}).get(partition, starts[at])
        if first < starts[at]:
            raise _removed(at, first, starts[at])
        starts[at] = first
        ends[at] = max(first, min(ends[at], end.get(topic, {}).get(partition, ends[at])))
    return StreamOffset(starts, ends, {name: info.topic_id for name, info in found.items()})


def _removed(at: Partition, offset: int, begin: int) -> Terminal:
    return Terminal(
        "records were removed from the log before they were read",
        topic=at[0],
        partition=at[1],
        offset=offset,
        log_begins=begin,
        fix="Rebuild the copy from the beginning of the topic.",
    )
