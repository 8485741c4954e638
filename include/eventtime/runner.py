"""The driver's side of a job: plans what tasks do in a batch, and commits what they made. No Spark.

A batch is one transaction of the `Publisher`: outputs, late elements, verdicts, records set aside, input ends, the
pointers of changed buckets and the watermarks behind it. Tasks make their buckets' next versions durable before it; a
batch that was not committed is done again from the versions that the committed pointers name, and one that was is
skipped.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from include.clock import Clock
from include.eventtime.algorithm.calls import FailedCall
from include.eventtime.algorithm.watermark import NEVER, IdleVerdict, TopicPartition, joining
from include.eventtime.committed import CommittedJob, Savepoint, day_of
from include.eventtime.config.definition import DeployedJob, JobSourceDefinition
from include.eventtime.gathering import LateRecord
from include.eventtime.outputs import EVENT_TIME, JobOutput
from include.eventtime.verdicts import Verdicts, verdict_record
from include.eventtime.work import BatchEnd, CarryOutBuckets, JobBatch, JobBucketResult
from include.log import topics
from include.log.planning.plan import BatchPlan
from include.log.ports import LogReader, Record, TopicSpec
from include.log.publishing.dead_letter import DeadLetter, DeadLetterLimit
from include.log.publishing.publisher import Publisher
from include.record import version as versions

__all__ = ["JobRunner", "late_headers"]

LOGGER: Final = logging.getLogger("lyrebird.eventtime")


class JobRunner:
    """Carries batches of one job out; `open` before the first one, and again after `Transient`.

    Args:
        job: what is declared.
        publisher: writes the first output's topic; all others of `specs` are among its own topics.
        reader: of what is committed, and of how far sources are.
        limit: how many records may be set aside.
        clock: when they were.
        verdicts: those that a replay repeats, which decides none itself, with an entry for each partition that the live
            run has come to know; None: the job runs live.
    """

    def __init__(
        self,
        job: DeployedJob,
        publisher: Publisher,
        reader: LogReader,
        limit: DeadLetterLimit,
        clock: Clock,
        verdicts: Verdicts | None = None,
    ) -> None:
        self._job, self._publisher, self._reader = job, publisher, reader
        self._limit, self._clock, self._verdicts = limit, clock, verdicts
        self._letters: list[DeadLetter] = []
        self._sources: Mapping[str, JobSourceDefinition] = {each.topic: each for each in job.entry.sources}
        self._outputs = {name: each.topic for name, each in job.entry.outputs.items()}
        self.committed = CommittedJob(job.entry.buckets)

    @property
    def topics(self) -> list[str]:
        """All that a batch reads."""
        return [*self._sources]

    @staticmethod
    def specs(job: DeployedJob, application: str) -> list[TopicSpec]:
        """The topics that a job writes beside its first output's: other outputs, state, late elements, verdicts."""
        others = [output for output in job.entry.outputs.values() if output.topic != job.topic]
        names = [
            topics.state(job.topic),
            *(make(source.topic, application) for source in job.entry.sources for make in (topics.late, topics.idle)),
        ]
        outputs = [
            (topics.document_spec if each.compacted else topics.event_spec)(each.topic, each.partitions)
            for each in others
        ]
        return [*outputs, *(TopicSpec(name, 1, topics.policy(name)) for name in names)]

    def open(self) -> None:
        """Open the publisher, and read what is committed."""
        self._publisher.open()
        name = topics.state(self._publisher.topic)
        begin, end = self._reader.begin_offsets(name)[0], self._reader.end_offsets(name)[0]
        committed = CommittedJob.read(self._reader.read(name, 0, begin, end), self._job.entry.buckets)
        # A source keeps its rank for ever, as the order of elements rests on it.
        known = dict.fromkeys((*committed.sources, *self._sources))
        lows = {place: low for place, low in committed.lows.items() if place[0] in self._sources}
        self.committed = replace(committed, sources=tuple(known), lows=lows)

    def begin_in_order(self, sources: Sequence[str]) -> None:
        """Begin with nothing, and with the ranks of sources that another run has; for its replay."""
        self.committed = replace(self.committed, sources=tuple(dict.fromkeys((*sources, *self._sources))))

    def begin_with(self, savepoint: Savepoint) -> None:
        """Go on from a savepoint; for a replay, which has committed nothing itself."""
        self.committed = replace(
            self.committed,
            sources=savepoint.sources,
            lows=dict(savepoint.lows),
            watermark=savepoint.watermark,
            pointers=dict(savepoint.pointers),
        )

    def run(self, carry_out: CarryOutBuckets, plan: BatchPlan) -> Counter[str]:
        """Carry a batch out, exactly once, also when it is run again; what it did, nothing when it had been done.

        Raises:
            Terminal: too many records cannot be understood, or too many calls raised; nothing is committed.
        """
        counts: Counter[str] = Counter()
        ends = {
            place: end
            for place, end in plan.ends.items()
            if place[0] in self._sources and (self._verdicts is None or place in self._verdicts)
        }
        moved = any(end > plan.start.get(place, 0) for place, end in plan.ends.items())
        if moved and self._publisher.covers(plan):
            return counts
        work, joined = self._work(plan, ends)
        # The driver knows what buckets wait for: without an element, and before that, no task has anything to do.
        lows, decided, watermark = work.closed({})
        due = self.committed.due
        idle = not work.ranges and (due is None or due > watermark)
        if idle and not decided and not joined and not moved:
            return counts
        pointers: dict[int, bytes] = {}
        self._publisher.begin()
        self._letters.clear()
        for bucket, result in () if idle else carry_out(work):
            self._write(result, counts)
            if result.pointer is not None:
                pointers[bucket] = result.pointer
            if bucket == 0:
                lows, decided, watermark = work.closed(result.lows)
        self._limit.batch(self._letters, max(0, counts["read"] - len(self._letters)))
        for verdict in (*joined, *decided):
            topic = topics.idle(verdict.place[0], self._publisher.application)
            self._publisher.append(topic, *verdict_record(verdict), partition=0)
        counts["verdicts"] += len(joined) + len(decided)
        after = replace(
            self.committed,
            lows=lows,
            watermark=watermark,
            topic_ids={**self.committed.topic_ids, **plan.topic_ids},
            pointers={**self.committed.pointers, **pointers},
        )
        after.savepoints = {**self.committed.savepoints, **self._saved(after, ends)}
        gone = sorted(after.savepoints)[: -self._job.entry.savepoints_days or None]
        records: list[tuple[bytes, bytes | None]] = [*CommittedJob.of_buckets(pointers), after.of_job()]
        for key, value in (*records, *self._savepoints(after, gone)):
            self._publisher.append(topics.state(self._publisher.topic), key, value, partition=0)
        for day in gone:
            del after.savepoints[day]
        self._publisher.commit(plan.ends, part=True)
        self.committed = after
        return counts

    def _saved(self, after: CommittedJob, ends: Mapping[TopicPartition, int]) -> dict[str, Savepoint]:
        """The savepoint of a day whose midnight the watermark has passed in this batch."""
        if after.watermark == NEVER or self._verdicts is not None:
            return {}
        day, before = day_of(after.watermark), self.committed.watermark
        if before == NEVER or day == day_of(before):
            return {}
        outputs = {place: end for place, end in self._publisher.ends.items() if place[0] in self._outputs.values()}
        return {day: Savepoint(after.sources, after.lows, after.watermark, after.pointers, ends, outputs)}

    def _savepoints(self, after: CommittedJob, gone: Sequence[str]) -> Iterator[tuple[bytes, bytes | None]]:
        """The records of those that came and went, as (key, value)."""
        for day in after.savepoints.keys() - self.committed.savepoints.keys() - {*gone}:
            yield Savepoint.key(day), after.savepoints[day].to_bytes()
        for day in gone:
            yield Savepoint.key(day), None

    def _work(self, plan: BatchPlan, ends: Mapping[TopicPartition, int]) -> tuple[JobBatch, list[IdleVerdict]]:
        """What a batch's tasks are told, and what is decided of partitions that join."""
        new = {place: plan.start.get(place, 0) for place in ends if place not in self.committed.lows}
        joined = joining(new.items(), self.committed.watermark)
        lows = {**dict.fromkeys(new, NEVER), **self.committed.lows}
        lows |= {verdict.place: verdict.time for verdict in joined}
        starts = {place: plan.start.get(place, 0) for place in ends}
        ranges = {place: (starts[place], end) for place, end in ends.items() if end > starts[place]}
        if self._verdicts is not None:
            return self._repeated(ranges, lows, starts), []
        closing = BatchEnd(
            {**dict.fromkeys(lows, 0), **ends},
            frozenset(ranges) | self._unread({place: ends.get(place, 0) for place in lows if place not in ranges}),
            {
                place: round(self._sources[place[0]].idle_after_s * 1_000_000)
                for place in lows
                if self._sources[place[0]].idle == "minimum"
            },
            {
                place: cut.position.commit_us
                for place in lows
                for (resolved, _), cut in plan.cuts.items()
                if self._sources[place[0]].idle == "resolved" and topics.resolved_of(place[0]) == resolved
            },
            {place: self._sources[place[0]].bound_us for place in lows},
        )
        return JobBatch(ranges, lows, self.committed.watermark, closing, self.committed.pointers), joined

    def _repeated(
        self,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        lows: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
    ) -> JobBatch:
        """A replay's: what was decided of partitions comes from the verdicts that were written down."""
        verdicts: dict[TopicPartition, list[IdleVerdict]] = {}
        reached = dict(lows)
        for topic_partition in lows:
            start, end = ranges.get(topic_partition, (starts.get(topic_partition, 0),) * 2)
            for verdict in (self._verdicts or {}).get(topic_partition, ()):
                if verdict.next_offset <= start:
                    reached[topic_partition] = max(reached[topic_partition], verdict.time)
                elif verdict.next_offset <= end:
                    verdicts.setdefault(topic_partition, []).append(verdict)
        return JobBatch(ranges, reached, self.committed.watermark, BatchEnd(), self.committed.pointers, verdicts)

    def _unread(self, places: Mapping[TopicPartition, int]) -> frozenset[TopicPartition]:
        """Those of these partitions that have records which the batch does not read."""
        ends = {topic: self._reader.end_offsets(topic) for topic in {topic for topic, _ in places}}
        return frozenset(place for place, end in places.items() if ends[place[0]].get(place[1], 0) > end)

    def _write(self, result: JobBucketResult, counts: Counter[str]) -> None:
        for output in result.outputs:
            self._emit(output)
        for late in result.late:
            topic = topics.late(late.record.topic, self._publisher.application)
            self._publisher.append(topic, late.record.key, late.record.value, headers=late_headers(late), partition=0)
        for refused in result.refused:
            self._set_aside(refused.record, refused.reason)
        for failed in result.failed:
            self._set_aside(self._record_of(failed), failed.reason)
        counts["outputs"] += len(result.outputs)
        counts["failed"] += len(result.failed)
        for (topic, what), count in result.counts.items():
            counts[what] += count
            counts[f"{what} {topic}"] += count

    def _emit(self, output: JobOutput) -> None:
        topic = self._outputs[output.output]
        headers = ((EVENT_TIME, b"%d" % output.time),)
        version = versions.pack(self._job.entry.epoch, output.number)
        if topic == self._publisher.topic:
            self._publisher.write(output.key, output.value, version, headers)
        else:
            self._publisher.append(topic, output.key, output.value, headers=(versions.to_header(version), *headers))

    def _set_aside(self, record: Record, reason: str) -> None:
        letter = DeadLetter(record, self._publisher.application, reason, self._clock.now_us())
        self._letters.append(letter)
        self._publisher.set_aside(letter)

    def _record_of(self, failed: FailedCall) -> Record:
        """What a call that raised had to do, as a record: the element with its fields, or the timer with its name."""
        key, element = str(failed.key).encode(), failed.element
        if element is not None:
            topic = self.committed.sources[element.source]
            return Record(topic, element.partition, element.offset, key, element.value, (), 0)
        name = str(failed.moment.place[1]).encode()
        headers = (("timer", name), (EVENT_TIME, b"%d" % failed.moment.time))
        return Record(self._publisher.topic, 0, 0, key, None, headers, 0)


def late_headers(late: LateRecord) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of a late element: its record's own, then where it was, its time, and the watermark, µs."""
    said = {
        "topic": late.record.topic,
        "partition": late.record.partition,
        "offset": late.record.offset,
        "timestamp_ms": late.record.timestamp_ms,
        "time_us": late.time,
        "watermark_us": late.watermark,
    }
    return (*late.record.headers, *((f"late.{name}", str(value).encode()) for name, value in said.items()))
