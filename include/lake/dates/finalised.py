"""Finds the partition names that are over, by the commits of all Kafka partitions of a topic.

A Kafka partition has passed the event time that enough of its committed records have reached. One record with a
timestamp in the future is not enough (`witnesses`), and no timestamp passes the present. A partition that is read to
its end has passed the moment at which that was seen; one that has records, but nothing committed, holds all names
back. A name is over when its last instant lies at least the declared lateness before the least passed time.

`_SUCCESS` keeps the heads that it was decided by. So what came too late is a matter of offsets, not of clocks: a cut
from its partition's head on, also one that was committed while `_SUCCESS` was being written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from include.lake.dates.event_hours import CalendarPeriod

__all__ = ["CommittedTimes", "PartitionProgress", "came_late", "finished", "passed"]


class CommittedTimes(NamedTuple):
    """The event times of a commit: how many records were written, the least and the greatest time, in ms."""

    records: int
    min_ms: int
    max_ms: int


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """The progress of one Kafka partition. `observed_ms` is when `end` was asked for, after `head` was read.

    `head` is None while its chain has no commit; `end` is the log's last stable offset. `commits` are recent ones in
    any order; leaving out old ones moves no passed time forward.
    """

    head: int | None
    end: int
    observed_ms: int
    commits: Sequence[CommittedTimes] = ()

    @property
    def drained(self) -> bool:
        """Whether all that the log had was committed; of a partition that never had a record, that there is none."""
        return self.end == 0 if self.head is None else self.head >= self.end


def passed(progress: PartitionProgress, now_ms: int, witnesses: int = 2) -> int | None:
    """Event time in ms that at least `witnesses` committed records have reached, now at most; None when unknown."""
    reached = _reached(progress.commits, witnesses)
    if progress.drained:
        reached = progress.observed_ms if reached is None else max(reached, progress.observed_ms)
    return None if reached is None else min(reached, now_ms)


def finished(
    names: Iterable[tuple[str, ...]],
    partitions: Iterable[PartitionProgress],
    zone_name: str,
    lateness_s: int,
    now_ms: int,
    witnesses: int = 2,
) -> list[tuple[str, ...]]:
    """Those of `names` that are over in the zone, sorted; names without a date never are.

    Args:
        names: partition names of folders.
        partitions: all Kafka partitions of the topic, those without commits too; without any, nothing is over.
        zone_name: name of the zone, in the tz database, that the names' dates are of.
        lateness_s: seconds that records may come late.
        now_ms: the present, in epoch milliseconds; no partition passes it.
        witnesses: number of records that have to have reached a time.

    Raises:
        ValueError: there is no such zone.
    """
    times = [passed(partition, now_ms, witnesses) for partition in partitions]
    known = [time for time in times if time is not None]
    if not times or len(known) < len(times):
        return []
    until = min(known) - lateness_s * 1000
    return sorted(folder for folder in set(names) if _over(folder, zone_name, until))


def came_late(heads: Mapping[int, int], partition: int, first: int) -> bool:
    """Whether a file of the cut that begins at `first` came after the `_SUCCESS` that keeps these heads.

    It is to be asked of each committed file below a finished name; true asks for `_LATE` and for that date to be run
    again. A partition without a head had nothing committed then: it did not exist or was empty.
    """
    return first >= heads.get(partition, 0)


def _reached(commits: Sequence[CommittedTimes], witnesses: int) -> int | None:
    """The greatest time that is known to be reached by that many records."""
    # Of a commit's times only the ends are known: one record has the greatest, all others at least the least.
    steps = [(each.max_ms, 1) for each in commits if each.records > 0]
    steps += [(each.min_ms, each.records - 1) for each in commits if each.records > 1]
    seen = 0
    for time, records in sorted(steps, reverse=True):
        seen += records
        if seen >= witnesses:
            return time
    return None


def _over(names: tuple[str, ...], zone_name: str, until_ms: int) -> bool:
    period = CalendarPeriod.of(names)
    end = period.end_ms(zone_name) if period else None
    return end is not None and end <= until_ms
