"""Plans the next steps for a topic's dates, from what was gathered and the markers that stand. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from include.lake.dates.event_hours import CalendarPeriod
from include.lake.dates.finalised import PartitionProgress, came_late, finished, passed
from include.lake.finalising.marker import LateArrivals, SuccessMarker, digest_of
from include.lake.finalising.scan import DatedObject, Folder, TopicDates, committed_times

__all__ = ["DateStep", "StandingMarker", "TopicPlan", "plan_topic"]

# Nothing passes it: no record is committed, and some wait.
_NOTHING: Final = (None, 1)


@dataclass(frozen=True, slots=True)
class StandingMarker:
    """A `_SUCCESS` that stands, with the etag by which it is replaced."""

    success: SuccessMarker
    etag: str


@dataclass(frozen=True, slots=True)
class DateStep:
    """One folder. `success` is to stand there; `late`, if any, before it; `before` is what stands.

    Where `success` stands already, those who wait for the date have only to be told.
    """

    folder: Folder
    period: CalendarPeriod
    success: SuccessMarker
    before: StandingMarker | None = None
    late: LateArrivals | None = None

    @property
    def writes(self) -> bool:
        """Whether anything is to be written."""
        return self.before is None or self.before.success != self.success


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """`open`: folders with objects that are not over, sorted.

    `passed_ms`: event time that all Kafka partitions have passed.
    `holding` are the partitions of which nothing tells (no commit, and records that wait; or a truncated log): while
    there is one, `passed_ms` is None and no date is over.
    """

    steps: tuple[DateStep, ...]
    open: tuple[Folder, ...]
    passed_ms: int | None
    holding: tuple[int, ...]
    settled: tuple[Folder, ...] = ()
    """Folders of which nothing is to be done until something of them changes."""


def plan_topic(
    gathered: TopicDates,
    folders: Mapping[Folder, Sequence[DatedObject]],
    standing: Mapping[Folder, StandingMarker],
    edges: Mapping[tuple[str, int], tuple[int, int] | None],
    zones: Sequence[str],
    lateness_s: int,
    observed_ms: int,
) -> TopicPlan:
    """Plans what is to be done about `folders`. A date is over when it is so in every one of `zones`.

    Args:
        gathered: what commits say of the topic's dates.
        folders: some of those that are open, with the objects that readers read in each.
        standing: markers that stand, by folder.
        edges: (id of the topic, partition) → (first offset held, end), of all partitions that the log has now; None: it
            did not tell. Other partitions are gone from the log: nothing comes of them any more.
        zones: names of zones in the tz database.
        lateness_s: seconds that records may come late.
        observed_ms: when the log was asked for `edges`, in epoch milliseconds.

    Raises:
        ValueError: one of `zones` is none.
    """
    known = {key: _head(gathered, key) for key in (*gathered.times, *edges)}
    over = set(folders)
    reached: list[int | None] = []
    holding: set[int] = set()
    for zone_name in zones:
        progress = {key: _progress(gathered, key, head, edges, zone_name, observed_ms) for key, head in known.items()}
        over &= set(finished(folders, progress.values(), zone_name, lateness_s, observed_ms))
        for key, partition in progress.items():
            reached.append(passed(partition, observed_ms))
            if reached[-1] is None:
                holding.add(key[1])
    steps = [_step(gathered, folder, objects, standing.get(folder), over) for folder, objects in folders.items()]
    left = {step.folder for step in steps if step is not None}
    still_open = {
        folder for folder, objects in folders.items() if objects and folder not in over and folder not in standing
    }
    times = [each for each in reached if each is not None]
    return TopicPlan(
        steps=tuple(sorted((step for step in steps if step is not None), key=lambda step: step.folder)),
        open=tuple(sorted(still_open)),
        passed_ms=min(times) if times and not holding else None,
        holding=tuple(sorted(holding)),
        settled=tuple(sorted(folders.keys() - left - still_open)),
    )


def _head(gathered: TopicDates, place: tuple[str, int]) -> int | None:
    return gathered.heads.get(place[0], {}).get(place[1])


def _progress(
    gathered: TopicDates,
    place: tuple[str, int],
    head: int | None,
    edges: Mapping[tuple[str, int], tuple[int, int] | None],
    zone_name: str,
    observed_ms: int,
) -> PartitionProgress:
    commits = committed_times(gathered.times.get(place, []), zone_name)
    if place not in edges:
        return PartitionProgress(head, head or 0, observed_ms, commits)
    found = edges[place]
    if found is None or (head is not None and found[1] < head):
        return PartitionProgress(*_NOTHING, observed_ms)
    begin, end = found
    if head is None and begin == end:
        # Retention has emptied it before anything was stored.
        end = 0
    return PartitionProgress(head, end, observed_ms, commits)


def _step(
    gathered: TopicDates,
    folder: Folder,
    objects: Sequence[DatedObject],
    standing: StandingMarker | None,
    over: set[Folder],
) -> DateStep | None:
    period = CalendarPeriod.of(folder)
    assert period is not None  # noqa: S101 - only dated folders are gathered
    now = SuccessMarker(
        edition=1,
        change="finished",
        heads=gathered.heads,
        objects=len(objects),
        records=sum(dated.records for dated in objects),
        size_bytes=sum(dated.bytes for dated in objects),
        digest=_digest(objects),
    )
    if standing is None:
        return DateStep(folder, period, now) if folder in over and objects else None
    before = standing.success
    late = [dated for dated in objects if came_late(before.heads.get(dated.topic_id, {}), dated.partition, dated.first)]
    if late:
        now = replace(now, edition=before.edition + 1, change="late")
        keys = tuple(sorted(dated.key for dated in late))
        return DateStep(folder, period, now, standing, LateArrivals(now.edition, before.heads, gathered.heads, keys))
    if _digest(objects) != before.digest:
        return DateStep(folder, period, replace(now, edition=before.edition + 1, change="replaced"), standing)
    return None if before.announced else DateStep(folder, period, before, standing)


def _digest(objects: Sequence[DatedObject]) -> str:
    return digest_of((each.key, each.sha256) for each in objects)
