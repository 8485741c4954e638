"""A day of a job once more: from the savepoint of its midnight, over the same sources and verdicts, to the next one's.

Outputs go to topics of their own, `<topic>.replay-<name>`, and are compared with the live ones. A replay that is ended
halfway leaves these topics behind; the next one takes another name.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from include.clock import Clock, iso
from include.errors import SettingsError, Terminal, Transient
from include.eventtime.algorithm.watermark import NEVER, TopicPartition
from include.eventtime.committed import Savepoint, day_of, read_committed
from include.eventtime.config.definition import DeployedJob
from include.eventtime.opening import OpenedJob, opened_job
from include.eventtime.rerun.comparison import compared, outputs_in
from include.eventtime.rerun.report import ReplayReport
from include.eventtime.restored import MovedSources
from include.eventtime.runner import JobRunner
from include.eventtime.verdicts import recorded
from include.eventtime.work import CarryOutBuckets
from include.log import topics
from include.log.access import LogAccess
from include.log.planning.plan import StreamSpec
from include.log.planning.planner import BatchPlanner
from include.log.planning.survey import Survey
from include.log.ports import LogReader
from include.log.publishing.unended import unended
from include.state.opening import StatePlace
from include.state.pointer import BucketPointer
from include.store.object_store import ObjectStore

__all__ = [
    "Day",
    "NotReached",
    "await_readable",
    "carried_out",
    "day_to_replay",
    "patient",
    "remove_replay",
    "replay_job",
    "replayed_day",
    "take_savepoint",
]

_THREADS: Final = 8
_READABLE_S: Final = 30.0
_NOWHERE: Final = MovedSources({})


class NotReached(SettingsError):
    """The live run has not come to a day: it can be replayed later."""


@dataclass(frozen=True)
class Day:
    """What is replayed: outputs with an event time in (after, until], µs.

    Args:
        day: the day, `2026-11-02`.
        savepoint: what it begins with; None: with nothing, at the sources' beginnings.
        until: where the live run's next savepoint stands, or how far it has come.
        places: the partitions that it has come to know: of a captured table none before its first row.
        sources: its topics in the order that it met them in, which is that of their elements at one time.
    """

    day: str
    savepoint: Savepoint | None
    until: int
    places: frozenset[TopicPartition]
    sources: tuple[str, ...]

    @property
    def after(self) -> int:
        """The watermark that it begins with."""
        return NEVER if self.savepoint is None else self.savepoint.watermark


def day_to_replay(job: DeployedJob, reader: LogReader, day: str, elsewhere: MovedSources = _NOWHERE) -> Day:
    """From where to where a day is replayed; `elsewhere`: where its sources are now.

    Raises:
        NotReached: the live run has not come to its begin.
        SettingsError: it is no day.
        Terminal: there is no savepoint of it, and the sources' beginnings are gone.
    """
    try:
        following = (dt.date.fromisoformat(day) + dt.timedelta(days=1)).isoformat()
    except (ValueError, OverflowError) as error:
        raise SettingsError("not a day", got=day, allowed="such as 2026-11-02") from error
    committed = read_committed(reader, job.topic)
    if committed is None or committed.watermark == NEVER or day_of(committed.watermark) < day:
        reached = "nothing" if committed is None or committed.watermark == NEVER else iso(committed.watermark)
        raise NotReached("the live run has not come to this day", job=job.name, day=day, reached=reached)
    savepoint = committed.savepoints.get(day)
    later = [each.watermark for each in committed.savepoints.values() if day_of(each.watermark) >= following]
    until = min([*later, committed.watermark])
    if savepoint is None:
        for source in job.entry.sources:
            for partition, begin in reader.begin_offsets(elsewhere.topic(source.topic)).items():
                if begin:
                    raise Terminal(
                        "there is no savepoint of this day, and a source's beginning is gone",
                        job=job.name,
                        day=day,
                        topic=elsewhere.topic(source.topic),
                        partition=partition,
                        savepoints=sorted(committed.savepoints),
                        fix="Choose one of these days, or restore the topic with `lyrebird lake restore`.",
                    )
    return Day(day, savepoint, until, frozenset(committed.lows), committed.sources)


def patient(job: DeployedJob, patience_us: int) -> DeployedJob:
    """The same job, for which elements may be so much later."""
    sources = [
        each.model_copy(update={"disorder_s": each.disorder_s + patience_us / 1_000_000}) for each in job.entry.sources
    ]
    return replace(job, entry=job.entry.model_copy(update={"sources": sources}))


def replay_job(job: DeployedJob, name: str) -> DeployedJob:
    """The same job with outputs of its own."""
    outputs = {
        output: each.model_copy(update={"topic": f"{each.topic}.replay-{name}", "compacted": False, "partitions": 1})
        for output, each in job.entry.outputs.items()
    }
    return replace(job, entry=job.entry.model_copy(update={"outputs": outputs}))


def replayed_day(
    job: DeployedJob,
    day: Day,
    name: str,
    access: LogAccess,
    survey: Survey,
    equip: Callable[[DeployedJob, OpenedJob], CarryOutBuckets],
    tell: Callable[[int], None],
    elsewhere: MovedSources = _NOWHERE,
    patience_us: int = 0,
) -> ReplayReport:
    """Run a day again and compare it with what was live.

    Args:
        job: as it runs live, or `patient`.
        day: of `day_to_replay`; its savepoint's state is where `equip` looks for it (`take_savepoint`).
        name: of this replay; nobody had it before.
        access: to log and registry.
        survey: of the log.
        equip: makes what does the work of a batch.
        tell: hears of the watermark after each batch.
        elsewhere: where its sources are now.
        patience_us: by how much longer than the live run it waits; verdicts are that much earlier then, too.

    Raises `Transient` when its outputs cannot be read, as a broker holds their transaction's end back.
    """
    again, application = elsewhere.job(replay_job(job, name)), _application(job, name)
    ids = {
        output: (_newest(access, f"{definition.topic}-key"), _newest(access, f"{definition.topic}-value"))
        for output, definition in job.entry.outputs.items()
    }
    sources = [source.topic for source in job.entry.sources]
    found = {**dict.fromkeys(day.places, ()), **recorded(access.reader, sources, job.entry.application)}
    verdicts = {
        place: [verdict._replace(time=verdict.time - patience_us) for verdict in those]
        for place, those in elsewhere.verdicts(found).items()
    }
    opened = opened_job(again, application, access, ids=ids, verdicts=verdicts)
    with closing(opened.publisher):
        savepoint = None if day.savepoint is None else elsewhere.savepoint(day.savepoint)
        starts = _begin(opened.runner, savepoint, [elsewhere.topic(source) for source in day.sources])
        counts = carried_out(
            again, opened.runner, equip(again, opened), survey, access.clock, starts, until=day.until, tell=tell
        )
        watermark = opened.runner.committed.watermark
    # The live run may have another one open: then what counts lies before that.
    unended(access.reader, [topic for _, topic in _outputs(job)], access.clock)
    await_readable(again, access)
    reached = min(day.until, watermark) if patience_us else day.until
    begins = {} if day.savepoint is None else day.savepoint.outputs
    live, replayed = (
        outputs_in(access.reader, _outputs(each), day.after, reached, begin)
        for each, begin in ((job, begins), (again, {}))
    )
    return ReplayReport(
        job.name,
        day.day,
        day.after,
        day.until,
        watermark,
        counts["read"],
        counts["late"],
        compared(live, replayed),
        patience_us,
    )


def carried_out(
    job: DeployedJob,
    runner: JobRunner,
    carry_out: CarryOutBuckets,
    survey: Survey,
    clock: Clock,
    starts: Mapping[str, Mapping[int, int]],
    *,
    until: int | None = None,
    tell: Callable[[int], None],
) -> Counter[str]:
    """Carries out what is there now, batch by batch, until the watermark is at `until`.

    Args:
        job: the job that runs.
        runner: of its batches.
        carry_out: does the work of a batch.
        survey: of the log.
        clock: paces looks at the log.
        starts: topic → partition → next offset.
        until: event time, µs; None: all that is there.
        tell: hears of the watermark, µs, after each batch.

    Returns:
        What the batches did, added up by name.

    Raises:
        Terminal: a topic was made anew, the log does not hold a start any more, or too much is set aside.
        Transient: the log does not answer.
    """
    entry, done = job.entry, Counter[str]()
    spec = StreamSpec("-", tuple(runner.topics), starts, total_limit=entry.records_per_batch, slice_s=entry.slice_s)
    planner, at = BatchPlanner(spec, survey, [], clock), spec.initial()
    planner.freeze(at)
    while (until is None or runner.committed.watermark < until) and (latest := planner.latest(at)) != at:
        at = latest
        done.update(runner.run(carry_out, latest.plan()))
        tell(runner.committed.watermark)
    return done


def await_readable(again: DeployedJob, access: LogAccess) -> None:
    """A broker says that a transaction is committed before readers see it: wait for what a replay has written.

    Raises `Transient` when it cannot be read, as a broker holds a transaction's end back.
    """
    left = unended(access.reader, [topic for _, topic in _outputs(again)], access.clock, _READABLE_S)
    if left:
        (topic, partition), offset = min(left.items())
        raise Transient(
            "what the replay has written cannot be read yet", topic=topic, partition=partition, offset=offset
        )


def take_savepoint(savepoint: Savepoint, store: ObjectStore, stage: str, live: StatePlace, own: StatePlace) -> None:
    """Copy what a savepoint's state is made of to where a replay has its own, which the live run does not clear up."""
    moved = [
        (key, own.objects(store, stage, bucket).prefix + key.removeprefix(objects.prefix))
        for bucket, pointer in savepoint.pointers.items()
        for objects in (live.objects(store, stage, bucket),)
        for key in sorted(objects.named(BucketPointer.from_bytes(pointer)))
    ]

    def copy(keys: tuple[str, str]) -> None:
        found = store.get(keys[0])
        if found is None:
            raise Terminal("an object that a savepoint is made of is gone", key=keys[0])
        store.put(keys[1], found.body)

    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(copy, moved))


def remove_replay(
    job: DeployedJob,
    name: str,
    access: LogAccess,
    store: ObjectStore,
    own: StatePlace,
    elsewhere: MovedSources = _NOWHERE,
) -> None:
    """Removes the topics of a replay and its state; harmless when they are gone.

    Args:
        job: as it runs live.
        name: of the replay.
        access: to the log.
        store: the object store with the state.
        own: place of the replay's state.
        elsewhere: where its sources are now.

    Raises:
        BackPressure: the store asks to slow down.
        Terminal: the store refuses access.
        Transient: log or store do not answer.
    """
    again, application = elsewhere.job(replay_job(job, name)), _application(job, name)
    first = again.topic
    names = {
        first,
        *(spec.name for spec in JobRunner.specs(again, application)),
        *(make(first) for make in (topics.resolved, topics.requests, topics.answers)),
        *(topics.dead(topic, application) for topic in (first, *(source.topic for source in again.entry.sources))),
    }
    for topic in names.intersection(access.admin.names()):
        access.admin.delete(topic)
    for info in list(store.list(own.prefix)):
        store.delete(info.key)


def _application(job: DeployedJob, name: str) -> str:
    return f"{job.entry.application}-replay-{name}"


def _begin(runner: JobRunner, savepoint: Savepoint | None, sources: Sequence[str]) -> dict[str, dict[int, int]]:
    """Let a runner begin with a savepoint, or with nothing; the sources' next offsets."""
    if savepoint is None:
        runner.begin_in_order(sources)
        return {}
    runner.begin_with(savepoint)
    starts: dict[str, dict[int, int]] = {}
    for (topic, partition), end in savepoint.ends.items():
        starts.setdefault(topic, {})[partition] = end
    return starts


def _outputs(job: DeployedJob) -> list[tuple[str, str]]:
    return [(output, each.topic) for output, each in job.entry.outputs.items()]


def _newest(access: LogAccess, subject: str) -> int:
    found = access.registry.newest(subject)
    if found is None:
        raise Terminal("the live run has registered no schema", subject=subject)
    return found
