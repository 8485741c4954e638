"""Plans a stream's batches: keeps what is known of its topics between two questions of Spark.

Lives in the process that Spark keeps beside the driver for as long as a query runs. It knows no Spark, and no Kafka
but through `Survey` and `ResolvedTail`s; a restart loses nothing, as all that counts is in the offsets.

Topics may appear while it runs (applications start before capture has made all topics) and grow partitions. A topic
that was made anew under its old name ends the stream: its offsets mean other records.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from include.clock import Clock
from include.errors import Terminal, Transient
from include.log.planning.plan import (
    BatchGoal,
    Cut,
    Partition,
    ResolvedSource,
    StreamOffset,
    StreamSpec,
    governed,
    step,
)
from include.log.planning.steps import ResolvedSteps, size_of
from include.log.planning.survey import Survey
from include.log.planning.tail import ResolvedTail
from include.log.planning.time_slices import TimeSlices
from include.log.ports import TopicInfo

__all__ = ["BatchPlanner", "bounded"]

LOGGER: Final = logging.getLogger("lyrebird.stream")
_LOOK_EVERY_S: Final = 2.0
_ASK_EVERY_S: Final = 0.05
_SAY_EVERY_S: Final = 30.0

_Goals = dict[str, BatchGoal]
"""Resolved topic → later records of it, with their ends in topics of the stream."""


class BatchPlanner:
    """The planner of one stream; not for use from several threads."""

    def __init__(self, spec: StreamSpec, survey: Survey, tails: Iterable[ResolvedTail], clock: Clock) -> None:
        """`tails`: one for each of the resolved topics that the stream is cut at."""
        self._spec = spec
        self._survey = survey
        self._tails = tuple(tails)
        self._governed = {
            each.topic: frozenset(name for name in spec.topics if governed(name, each.topic)) for each in self._tails
        }
        self._free = [name for name in spec.topics if not any(name in of for of in self._governed.values())]
        self._steps = {
            each.topic: ResolvedSteps(each.tail, each.topic, self._governed[each.topic]) for each in self._tails
        }
        self._clock = clock
        self._limits = spec.most()
        self._topics: dict[str, TopicInfo] = {}
        self._begins: dict[Partition, int] = {}
        self._looked_s: float | None = None
        self._missing: frozenset[str] | None = None
        self._target: tuple[dict[Partition, int], _Goals] | None = None
        self._newest: dict[Partition, int] = {}
        self._away_s: float | None = None
        self._said_s = 0.0
        self._slices = None if spec.slice_s is None else TimeSlices(survey, round(spec.slice_s * 1_000), clock)

    def latest(self, start: StreamOffset, wait_s: float = 0.0) -> StreamOffset:
        """The end of the batch after `start`; `start` itself when nothing came within `wait_s`.

        A log that does not answer is nothing new either: it is waited for, for ever, and said so in the process's
        log. Once frozen this holds too: a bounded run ends with what had been planned.

        Raises:
            Terminal: a topic was made anew, or the log does not hold `start` any more.
        """
        try:
            end = self._wait_for_news(start, wait_s)
        except Transient as error:
            self._say_away(error)
            return start
        if self._away_s is not None:
            LOGGER.warning("the log answers again after %.0f s", self._clock.monotonic_s() - self._away_s)
            self._away_s = None
        return end

    def _wait_for_news(self, start: StreamOffset, wait_s: float) -> StreamOffset:
        until_s = self._clock.monotonic_s() + wait_s
        while True:
            left_s = max(0.0, until_s - self._clock.monotonic_s())
            found = self._next(start, left_s)
            if found is not None or left_s == 0.0:
                return found or start
            if not self._tails or any(tail.newest is None for tail in self._tails):
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
            if any(tail.newest is not None for tail in self._tails):
                # Else lag would be measured against resolved records alone.
                self._newest.update(self._survey.offsets(self._partitions(self._spec.topics), "end"))
        offer = self._target or self._offer(wait_s, start)
        if offer is None:
            return None
        available, goals = offer
        if self._slices is not None:
            self._ask_begins(available, start)
            starts = {at: start.ends.get(at, self._begins.get(at, 0)) for at in available}
            available = self._slices.ends(starts, available)
        goal = start.goal or _together(self._nearer(start, goals).values())
        self._ask_begins({**available, **(goal.ends if goal else {})}, start)
        limits = self._limits
        end = step(start, available=available, begins=self._begins, ids=self._ids(), goal=goal, limits=limits)
        if end is not None:
            # After the offsets were asked for: so they are those of the topics that have these ids. What is made
            # anew later than this, but before the batch has been read, shows in the next batch only.
            self._look(start)
        return end

    def _nearer(self, start: StreamOffset, goals: _Goals) -> _Goals:
        """Records on the way to these, where they are too far away."""
        most = self._spec.cut_limit
        sizes = {topic: size_of(start.ends, goal.ends) for topic, goal in goals.items()}
        if most is None or sum(sizes.values()) <= most:
            return goals
        share = max(1, most // sum(size > 0 for size in sizes.values()))
        return {topic: self._steps[topic].next(start, goal, share) for topic, goal in goals.items()}

    def _ids(self) -> dict[str, str]:
        return {name: info.topic_id for name, info in self._topics.items()}

    def _offer(self, wait_s: float, start: StreamOffset) -> tuple[dict[Partition, int], _Goals] | None:
        """What may be read now: next offsets of the partitions that no cut speaks for, and where to go with the rest.

        None: nothing later is resolved, and a stream with cuts moves with them only.
        """
        goals = self._later(0.0 if start.goal else wait_s, start)
        if self._tails and not goals and start.goal is None:
            return None
        available = self._survey.offsets(self._partitions(self._free), "end")
        for ends in (available, *(goal.ends for goal in goals.values())):
            self._newest.update(ends)
        return available, goals

    def _later(self, wait_s: float, start: StreamOffset) -> _Goals:
        """Of each resolved topic what is later than start's; waits for the first of them."""
        # Each of several is waited for in turn, and a short while only, as any of them may be next.
        wait_s = wait_s if len(self._tails) == 1 else min(wait_s, _ASK_EVERY_S)
        goals: _Goals = {}
        for tail in self._tails:
            newest = tail.poll(0.0 if goals else wait_s)
            if newest is None or newest.offset <= start.reached(tail.topic):
                continue
            spoken = self._governed[tail.topic]
            ends = {at: end for at, end in newest.ends.items() if at[0] in spoken}
            named = {topic for topic, _ in ends}
            if named - self._topics.keys():
                self._look(start)
            # A topic that the log does not show yet waits for the next cut, with this one not taken: no batch may be
            # cut at a record and lack what that record speaks for.
            if not named - self._topics.keys():
                goals[tail.topic] = BatchGoal(newest.cuts, ends)
        return goals

    def _partitions(self, topics: tuple[str, ...] | list[str]) -> list[Partition]:
        return [(t, p) for t in topics if t in self._topics for p in range(self._topics[t].partitions)]

    def _look(self, start: StreamOffset) -> None:
        """Which topics are there, and are they still the ones that our offsets belong to?"""
        asked = {*self._spec.topics, *self._spec.cut_at}
        infos = self._survey.topics(asked)
        for name, info in infos.items():
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
        missing = frozenset(asked - infos.keys())
        if missing and missing != self._missing:
            LOGGER.warning("waiting for topics that do not exist yet: %s", ", ".join(sorted(missing)))
        self._missing = missing
        # A topic that is gone keeps its id here: should it come back as another one, it is noticed.
        self._topics.update(infos)

    def _ask_begins(self, available: Mapping[Partition, int], start: StreamOffset) -> None:
        """The first offset of each partition that is met for the first time."""
        new = [partition for partition in available if partition not in self._begins]
        if not new:
            return
        begins = self._survey.offsets(new, "begin")
        for partition, begin in begins.items():
            first = start.ends.get(partition)
            if first is not None and first < begin:
                raise _removed(partition, first, begin)
        self._begins.update(begins)


def bounded(spec: StreamSpec, survey: Survey, end: Mapping[str, Mapping[int, int]]) -> StreamOffset:
    """All that `spec` covers, to `end` where it names a partition and to the last stable offset where not.

    Raises:
        Terminal: a topic does not exist, or the log does not hold an offset of `spec.start` any more.
    """
    infos = survey.topics(spec.topics)
    missing = sorted(set(spec.topics) - infos.keys())
    if missing:
        raise Terminal("topic does not exist", topic=missing, fix="Does what writes it run? See `lyrebird status`.")
    partitions = [(name, p) for name, info in sorted(infos.items()) for p in range(info.partitions)]
    starts = survey.offsets(partitions, "begin")
    ends = survey.offsets(partitions, "end")
    for topic_partition in partitions:
        topic, partition = topic_partition
        first = spec.start.get(topic, {}).get(partition, starts[topic_partition])
        if first < starts[topic_partition]:
            raise _removed(topic_partition, first, starts[topic_partition])
        starts[topic_partition] = first
        ends[topic_partition] = max(
            first, min(ends[topic_partition], end.get(topic, {}).get(partition, ends[topic_partition]))
        )
    return StreamOffset(starts, ends, {name: info.topic_id for name, info in infos.items()})


def _together(goals: Iterable[BatchGoal]) -> BatchGoal | None:
    """One goal of those of several resolved topics, which speak for different topics."""
    cuts, ends = dict[ResolvedSource, Cut](), dict[Partition, int]()
    for goal in goals:
        cuts |= goal.cuts
        ends |= goal.ends
    return BatchGoal(cuts, ends) if cuts else None


def _removed(at: Partition, offset: int, begin: int) -> Terminal:
    return Terminal(
        "records were removed from the log before they were read",
        topic=at[0],
        partition=at[1],
        offset=offset,
        log_begins=begin,
        fix="Rebuild the copy from the beginning of the topic.",
    )
