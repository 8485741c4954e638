"""A file of elements through the platform: topics made of its lines, the application's own batches, outputs read back.

What `eventtime.replay` does without servers is done here by what runs live: readers, tasks, buckets of the state,
transactions, on servers that nobody else uses. Elements have the places that the file says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import orjson

from include.eventtime.algorithm.calls import CallMoment, Emitted, FailedCall
from include.eventtime.algorithm.order import ArrivedElement, key_text
from include.eventtime.algorithm.watermark import NEVER, IdleVerdict, TopicPartition
from include.eventtime.config.definition import (
    DeployedJob,
    JobEntry,
    JobOutputDefinition,
    JobSourceDefinition,
    TimeField,
)
from include.eventtime.model.process import Process
from include.eventtime.model.typed import DataclassFields
from include.eventtime.opening import OpenedJob, opened_job
from include.eventtime.outputs import EVENT_TIME
from include.eventtime.replay import (
    EPOCH,
    MICROSECOND,
    ElementLine,
    IdleNotice,
    JobReplay,
    LateElement,
    ReplayLine,
    require_keys,
    require_rounds,
)
from include.eventtime.rerun.day import await_readable, carried_out
from include.eventtime.restored import CopiedSpan, MovedSources, RestoredSource
from include.eventtime.work import CarryOutBuckets
from include.log import topics
from include.log.access import LogAccess
from include.log.planning.plan import BatchPlan
from include.log.planning.survey import Survey
from include.log.ports import Record, TopicSpec
from include.log.publishing.dead_letter import DeadLetter
from include.record.codec import Decoder
from include.record.version import from_headers, number_of

__all__ = ["APPLICATION", "file_job", "replayed_file", "written"]

APPLICATION: Final = "replay"
"""Of the job; its topics begin with it, too."""

_KEY, _TIME, _VALUE = "key", "time", "value"
_LONG_S: Final = 1e12
_YEAR_S: Final = 31_536_000.0


def file_job(
    process: Process[Any], lines: Sequence[ReplayLine], *, bound_us: int, batch: int, ideal: bool
) -> DeployedJob:
    """The job that reads a file's sources, by their names; `batch`: most elements of one batch."""
    times = [line.time for line in lines]
    if ideal:
        bound_us = max(times, default=0) - min(times, default=0)
    sources = [
        JobSourceDefinition(
            topic=name,
            key=_KEY,
            time=TimeField(field=_TIME, unit="us"),
            value=_VALUE,
            disorder_s=bound_us / 1_000_000,
            ahead_s=_LONG_S,
        )
        for name in sorted({line.said.source for line in lines})
    ]
    outputs = {name: JobOutputDefinition(topic=f"{APPLICATION}.{name}") for name in process.outputs}
    kind = type(process)
    entry = JobEntry(
        application=APPLICATION,
        process=f"{kind.__module__}.{kind.__qualname__}",
        sources=sources,
        outputs=outputs,
        records_per_batch=batch,
        slice_s=_YEAR_S,
    )
    return DeployedJob(APPLICATION, entry, process)


def written(lines: Sequence[ReplayLine], access: LogAccess) -> MovedSources:
    """Write elements to topics, in the file's partitions and order, in one transaction; where they are."""
    tracks = [(line, line.said) for line in lines if isinstance(line.said, ElementLine)]
    counts: dict[str, int] = {}
    for line in lines:
        counts[line.said.source] = max(counts.get(line.said.source, 0), line.said.partition + 1)
    moved = {source: f"{APPLICATION}.input{rank}" for rank, source in enumerate(sorted(counts))}
    for source, partitions in counts.items():
        access.admin.ensure(TopicSpec(moved[source], partitions))
    old: dict[TopicPartition, list[int]] = {}
    with closing(access.open_writer(f"{APPLICATION}-devices")) as writer:
        writer.begin()
        for line, said in tracks:
            value = orjson.dumps({_KEY: said.key, _TIME: line.time, _VALUE: said.value})
            writer.append(moved[said.source], None, value, partition=said.partition)
            old.setdefault(line.place, []).append(said.offset)
        writer.commit()
    return MovedSources(
        {
            source: RestoredSource(
                moved[source],
                {partition: _spans(old.get((source, partition), [])) for partition in range(partitions)},
            )
            for source, partitions in sorted(counts.items())
        }
    )


def replayed_file(
    job: DeployedJob,
    lines: Sequence[ReplayLine],
    elsewhere: MovedSources,
    access: LogAccess,
    survey: Survey,
    equip: Callable[[DeployedJob, OpenedJob], CarryOutBuckets],
    tell: Callable[[int], None],
    *,
    ideal: bool = False,
    open_end: bool = False,
    fire_all: bool = False,
) -> JobReplay:
    """Run a job over what was written; the same as `eventtime.replay.replay` gives, but in the order of time and key.

    Args:
        job: of `file_job`.
        lines: of the file.
        elsewhere: of `written`.
        access: to log and registry.
        survey: of the log.
        equip: makes what does the work of a batch.
        tell: hears of the watermark after each batch.
        ideal: see `replay`.
        open_end: see `replay`.
        fire_all: see `replay`.

    Raises `SettingsError` where `replay` does.
    """
    require_keys(job.process, lines)
    again = elsewhere.job(job)
    end = None if open_end or not lines else max(line.time for line in lines)
    verdicts = {place: list(those) for place, those in elsewhere.verdicts(_verdicts(lines, ideal, end)).items()}
    opened = opened_job(again, APPLICATION, access, verdicts=verdicts)
    with closing(opened.publisher):
        runner, carry_out = opened.runner, equip(again, opened)
        carried_out(again, runner, carry_out, survey, access.clock, {}, tell=tell)
        ends = {
            (topic, partition): end
            for topic in runner.topics
            for partition, end in access.reader.end_offsets(topic).items()
        }
        nothing_new = BatchPlan(ends, ends, dict(runner.committed.topic_ids))
        rounds = 0
        while fire_all and (due := runner.committed.due) is not None:
            rounds = require_rounds(rounds)
            for place, those in verdicts.items():
                those.append(IdleVerdict(place, 0, due))
            runner.run(carry_out, nothing_new)
        made = JobReplay(watermark=max(runner.committed.watermark, NEVER if end is None else end))
    await_readable(again, access)
    made.emitted += _emitted(again, access)
    made.late += _late(lines, elsewhere, access)
    made.failed += _failed(again, lines, elsewhere, access)
    return made


def _verdicts(lines: Sequence[ReplayLine], ideal: bool, end: int | None) -> dict[TopicPartition, list[IdleVerdict]]:
    """Those of the file, and at the end of each partition that everything has come up to `end`."""
    verdicts: dict[TopicPartition, list[IdleVerdict]] = {line.place: [] for line in lines}
    reached = dict.fromkeys(verdicts, 0)
    for line in lines:
        if isinstance(line.said, IdleNotice) and not ideal:
            verdicts[line.place].append(IdleVerdict(line.place, line.reaches, line.time))
        reached[line.place] = line.reaches + isinstance(line.said, ElementLine)
    if end is not None:
        for place, those in verdicts.items():
            those.append(IdleVerdict(place, reached[place], end))
    return verdicts


def _emitted(job: DeployedJob, access: LogAccess) -> Iterator[Emitted]:
    decode = Decoder(access.registry.schema)
    for output, each in job.entry.outputs.items():
        times = DataclassFields(job.process.outputs[output]).times()
        for record in _records(each.topic, access):
            key: Any = decode(record.key or b"")
            value: Any = decode(record.value or b"")
            for name in times:
                if value[name] is not None:
                    value[name] = (value[name] - EPOCH) // MICROSECOND
            moment = CallMoment(int(dict(record.headers)[EVENT_TIME] or b""), False, ())
            yield Emitted(moment, key[_KEY], number_of(from_headers(record.headers)), output, value)


def _late(lines: Sequence[ReplayLine], elsewhere: MovedSources, access: LogAccess) -> list[LateElement]:
    line_at = {(line.place, line.said.offset): line for line in lines if isinstance(line.said, ElementLine)}
    late_elements = []
    for source, restored in elsewhere.sources.items():
        for letter in _records(topics.late(restored.topic, APPLICATION), access):
            said = {name: (value or b"").decode() for name, value in letter.headers}
            partition = int(said["late.partition"])
            line = line_at[(source, partition), restored.was(partition, int(said["late.offset"]))]
            late_elements.append(LateElement(line, int(said["late.watermark_us"])))
    return sorted(late_elements, key=lambda late: late.line.number)


def _failed(
    job: DeployedJob, lines: Sequence[ReplayLine], elsewhere: MovedSources, access: LogAccess
) -> list[FailedCall]:
    """Calls that raised, out of the topics of what is set aside, which have the file's offsets."""
    line_at = {(line.place, line.said.offset): line for line in lines if isinstance(line.said, ElementLine)}
    ranks = {source: rank for rank, source in enumerate(elsewhere.sources)}
    failed_calls = []
    for letter in (DeadLetter.parse(dead) for dead in _records(topics.dead(job.topic, APPLICATION), access)):
        said = {name: (value or b"").decode() for name, value in letter.record.headers}
        key = job.process.key((letter.key or b"").decode())
        failed_calls.append(
            FailedCall(CallMoment(int(said[EVENT_TIME]), True, (key, said["timer"])), key, None, letter.reason)
        )
    for source, restored in elsewhere.sources.items():
        for letter in (DeadLetter.parse(dead) for dead in _records(topics.dead(restored.topic, APPLICATION), access)):
            record, key = letter.record, job.process.key((letter.key or b"").decode())
            time = line_at[(source, record.partition), record.offset].time
            element = ArrivedElement(
                time, ranks[source], record.partition, record.offset, key_text(key), letter.value or b""
            )
            failed_calls.append(FailedCall(CallMoment(time, False, element[1:4]), key, element, letter.reason))
    return sorted(failed_calls, key=lambda failed: failed.moment)


def _records(topic: str, access: LogAccess) -> Iterator[Record]:
    if access.admin.describe(topic) is None:
        return
    begins = access.reader.begin_offsets(topic)
    for partition, end in access.reader.end_offsets(topic).items():
        yield from access.reader.read(topic, partition, begins[partition], end)


def _spans(offsets: Sequence[int]) -> list[CopiedSpan]:
    """Old offsets that rise, written one behind the other from 0 on."""
    spans: list[CopiedSpan] = []
    for new, old in enumerate(offsets):
        if spans and spans[-1][0] + spans[-1][2] == old:
            spans[-1] = (spans[-1][0], spans[-1][1], spans[-1][2] + 1)
        else:
            spans.append((old, new, 1))
    return spans
