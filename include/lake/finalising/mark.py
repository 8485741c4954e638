"""Marks the dates of a topic that are over, and those that got records afterwards.

The durable steps, in this order:

1. the index of the topic's dates has what is new, and opens the dates that it is of
2. `_LATE`, where records came after `_SUCCESS`
3. `_SUCCESS`, by `If-None-Match: *` or `If-Match`; it is not announced yet
4. the index settles the dates whose `_SUCCESS` was found announced and right: nothing of them is read until they change
5. whoever waits for the date is told: an event of the asset `lake://<topic>/dt`, made by the DAG lake_finalise
6. `_SUCCESS` says that it is announced

Who crashes in between begins again: 1 to 3 come to the same, a date that is not settled is looked at again, and what
step 6 has not confirmed is told again. So every edition of a date is told at least once, with the number that tells it
from the others. The index may be lost at any time: then everything is read anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from include.clock import Clock
from include.errors import Terminal
from include.lake.dates.kept import UnusableIndex
from include.lake.definition import LakeGroup
from include.lake.finalising.marker import LATE, SUCCESS, SuccessMarker, marker_key
from include.lake.finalising.plan import DateStep, StandingMarker, TopicPlan, plan_topic
from include.lake.finalising.report import DateReport, TopicReport
from include.lake.finalising.scan import DatedObject, Folder, TopicDates, gather
from include.lake.finalising_policy import zones_of
from include.lake.protocol.inventory import stored_topics
from include.lake.reading.group_log import GroupLog, TopicIdPartition
from include.log.ports import TopicInfo
from include.store.object_store import ObjectStore

__all__ = ["acknowledge", "finalise_groups", "finalise_topic"]

_AT_ONCE: Final = 8


def finalise_groups(
    store: ObjectStore,
    log: GroupLog,
    groups: Mapping[str, LakeGroup],
    clock: Clock,
    topics: Sequence[str] = (),
    *,
    dry_run: bool = False,
) -> Iterable[TopicReport]:
    """A report for each topic of each partition group, as it is made.

    What is wrong with one topic is in its report, and the others go on. May be called again.

    Args:
        store: the bucket of the lake.
        log: tells where partitions end.
        groups: all groups, by name; others than partition groups are passed over.
        clock: tells when the log was asked.
        topics: names; none means all that are stored.
        dry_run: nothing is written.

    Raises:
        Transient: store or log does not answer.
        BackPressure: the store asks to slow down.
    """
    infos = {info.name: info for info in log.topics()}
    for name, group in groups.items():
        if group.kind != "partition":
            continue
        stored = sorted({life.topic for life in stored_topics(store, group.prefix)})
        for topic in (each for each in stored if not topics or each in topics):
            try:
                yield finalise_topic(store, log, name, group, topic, infos.get(topic), clock, dry_run=dry_run)
            except Terminal as error:
                yield TopicReport(name, topic, error=str(error))


def finalise_topic(
    store: ObjectStore,
    log: GroupLog,
    name: str,
    group: LakeGroup,
    topic: str,
    info: TopicInfo | None,
    clock: Clock,
    *,
    dry_run: bool = False,
) -> TopicReport:
    """Marks the dates of one topic that are over, and tells of those that are still open.

    Args:
        store: the bucket of the lake.
        log: tells where partitions end.
        name: of the group.
        group: as it is declared.
        topic: its name.
        info: what the log has by that name, None when it has none.
        clock: tells when the log was asked.
        dry_run: nothing is written.

    Raises:
        Terminal: cuts that readers should find are missing, or an object of the chain or a marker cannot be read.
        Transient: store or log does not answer.
        BackPressure: the store asks to slow down.
    """
    try:
        return _finalised(
            store, log, name, group, gather(store, group.prefix, topic, keep=not dry_run), info, clock, dry_run=dry_run
        )
    except UnusableIndex:
        found = gather(store, group.prefix, topic, keep=not dry_run, anew=True)
        return _finalised(store, log, name, group, found, info, clock, dry_run=dry_run)


def _finalised(
    store: ObjectStore,
    log: GroupLog,
    name: str,
    group: LakeGroup,
    gathered: TopicDates,
    info: TopicInfo | None,
    clock: Clock,
    *,
    dry_run: bool,
) -> TopicReport:
    topic = gathered.topic
    judge = _judge(log, group, gathered, info, clock)
    whole = judge({}, {})
    dates: list[DateReport] = []
    open_: list[Folder] = []
    settled: list[Folder] = []
    for day in sorted(gathered.open):
        folders = gathered.folders(day)
        plan = judge(folders, _standing(store, group.prefix, topic, list(folders)))
        for step in plan.steps:
            key = marker_key(group.prefix, topic, step.folder, SUCCESS)
            if dry_run or not step.writes or _mark(store, group.prefix, topic, step, key):
                dates.append(_reported(step, key))
        open_ += plan.open
        # Of some nothing is left: all was forgotten.
        settled += [*plan.settled, *(gathered.open[day] - folders.keys())]
    if not dry_run:
        # 4. Settled.
        gathered.settle(settled)
    return TopicReport(
        name,
        topic,
        tuple(sorted(dates, key=lambda date: date.folder.split("/"))),
        tuple("/".join(each) for each in sorted(open_)),
        whole.passed_ms,
        whole.holding,
    )


def acknowledge(store: ObjectStore, report: Mapping[str, Any]) -> int:
    """Step 6, of all that a report has told; gives how many. One that was renewed since is left: it is told again."""
    done = 0
    for topic in report["topics"]:
        for date in topic["dates"]:
            stored = store.get(date["key"])
            success = SuccessMarker.parse(stored.body, date["key"]) if stored else None
            if stored is None or success is None or success.announced or success.edition != date["edition"]:
                continue
            body = replace(success, announced=True).to_bytes()
            # Another one in between: the same, or a renewal that has to be told.
            if store.put_if_match(date["key"], body, stored.info.etag) is not None:
                done += 1
    return done


_Judge = Callable[[Mapping[Folder, Sequence[DatedObject]], Mapping[Folder, StandingMarker]], TopicPlan]


def _judge(log: GroupLog, group: LakeGroup, gathered: TopicDates, info: TopicInfo | None, clock: Clock) -> _Judge:
    # Behind the commits: a partition whose head has reached this end had passed this moment.
    observed_ms = clock.now_us() // 1000
    edges: dict[tuple[str, int], tuple[int, int] | None] = {}
    if info is not None:
        tps = [TopicIdPartition(gathered.topic, info.named_id, partition) for partition in range(info.partitions)]
        found = log.edges(tps)
        edges = {(tp.topic_id, tp.partition): found.get(tp) for tp in tps}
    rule = group.rule(gathered.topic)
    zones = zones_of(group.finalise, rule.versions or () if rule else ())
    lateness_s = group.finalise.lateness_of(gathered.topic)
    return lambda folders, standing: plan_topic(gathered, folders, standing, edges, zones, lateness_s, observed_ms)


def _standing(store: ObjectStore, prefix: str, topic: str, folders: Sequence[Folder]) -> dict[Folder, StandingMarker]:
    keys = [marker_key(prefix, topic, folder, SUCCESS) for folder in folders]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(store.get, keys))
    return {
        folder: StandingMarker(SuccessMarker.parse(each.body, key), each.info.etag)
        for folder, key, each in zip(folders, keys, found, strict=True)
        if each is not None
    }


def _mark(store: ObjectStore, prefix: str, topic: str, step: DateStep, key: str) -> bool:
    """Whether the step's `_SUCCESS` stands; not when somebody else wrote one meanwhile, who then tells."""
    # 2. Late.
    if step.late is not None:
        _write_late(store, marker_key(prefix, topic, step.folder, LATE), step.late.to_bytes())
    # 3. Success.
    body = step.success.to_bytes()
    if step.before is None:
        return store.put_if_absent(key, body) is not None
    return store.put_if_match(key, body, step.before.etag) is not None


def _write_late(store: ObjectStore, key: str, body: bytes) -> None:
    """The newest arrival stands; of two who write at once either may, as both have seen late records."""
    found = store.get(key)
    if found is None:
        store.put_if_absent(key, body)
    elif found.body != body:
        store.put_if_match(key, body, found.info.etag)


def _reported(step: DateStep, key: str) -> DateReport:
    hour = step.period.hour
    return DateReport(
        folder="/".join(step.folder),
        date=step.period.day.isoformat(),
        hour=hour,
        change=step.success.change,
        edition=step.success.edition,
        objects=step.success.objects,
        records=step.success.records,
        size_bytes=step.success.size_bytes,
        key=key,
        new=step.writes,
        late=step.late.objects if step.late else (),
    )
