"""Gathers a topic's dates from its commits: the objects of each folder that readers read, heads, and times reached.

Commits have no event times, but names have: records below `dt=2026-11-21/hr=10` are of that hour. Where in it a
partition is, the Kafka timestamps of its records tell, kept within the hour: so a backlog of old records moves no
further than their own names say, and a lateness shorter than an hour can be declared for days as well.

Of dates whose `_SUCCESS` says what they have nothing is gathered again until something of them changes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from include.lake.dates.event_hours import CalendarPeriod
from include.lake.dates.finalised import CommittedTimes
from include.lake.dates.kept import DateIndex, NamedTimes, UnusableIndex, folders_of
from include.lake.dates.reading import catch_up, partitions_of
from include.lake.protocol.generations import lives
from include.lake.protocol.pointer import read_pointer
from include.store.object_store import ObjectStore

__all__ = ["DatedObject", "Folder", "NamedTimes", "TopicDates", "committed_times", "gather"]

Folder = tuple[str, ...]
"""Names below the topic down to a date, or to an hour of it."""


class DatedObject(NamedTuple):
    """An object of a date; `first` is that of its cut."""

    key: str
    sha256: str
    records: int
    bytes: int
    topic_id: str
    partition: int
    first: int


@dataclass
class TopicDates:
    """One topic of a group, all its lives. `open` has also folders of replaced cuts, which may have nothing now."""

    topic: str
    indexes: Sequence[DateIndex] = ()
    heads: dict[str, dict[int, int]] = field(default_factory=dict)
    times: dict[tuple[str, int], Sequence[NamedTimes]] = field(default_factory=dict)
    open: dict[str, set[Folder]] = field(default_factory=dict)
    """By day: folders that are not known to be as their `_SUCCESS` says."""

    def folders(self, day: str) -> dict[Folder, list[DatedObject]]:
        """What readers read in the open folders of a day; `UnusableIndex` where that is to be gathered again."""
        folders: dict[Folder, list[DatedObject]] = {}
        for index in self.indexes:
            for file in index.of_day(day).values():
                for folder in self.open[day] & set(folders_of(file.names(index.topic.prefix))):
                    objects = folders.setdefault(folder, [])
                    if index.reads(file):
                        life = index.topic.topic_id
                        one = DatedObject(
                            file.key, file.sha256, file.records, file.bytes, life, file.partition, file.first
                        )
                        objects.append(one)
        return folders

    def settle(self, folders: Collection[Folder]) -> None:
        """Keep that these are as they have to be: they are not looked at until something of them changes."""
        names = {"/".join(folder) for folder in folders}
        for index in self.indexes:
            index.open -= names
            # Where another one was faster, the next run finds the same.
            index.save()


def gather(store: ObjectStore, prefix: str, topic: str, *, keep: bool = True, anew: bool = False) -> TopicDates:
    """Read what is new; with `keep` it is not read again. `anew`: read everything.

    The store's errors as they come; `Terminal` for a hole in what readers find.
    """
    indexes = [DateIndex.read(store, life, read_pointer(store, life)) for life in lives(store, prefix, topic)]
    if not anew:
        try:
            return _gathered(topic, indexes, keep=keep)
        except UnusableIndex:
            pass
    for index in indexes:
        index.clear()
    return _gathered(topic, indexes, keep=keep)


def _gathered(topic: str, indexes: Sequence[DateIndex], *, keep: bool) -> TopicDates:
    dates = TopicDates(topic, indexes)
    for index in indexes:
        catch_up(index, partitions_of(index), save=index.save if keep else None)
        index.raise_floors()
        if keep:
            index.save()
        life = index.topic.topic_id
        dates.heads[life] = {}
        for partition, mark in index.marks.items():
            dates.times[life, partition] = mark.times
            # Where all is forgotten, everything below the floor was committed.
            if mark.first >= 0 or mark.next:
                dates.heads[life][partition] = mark.next
        for name in index.open:
            folder = tuple(name.split("/"))
            period = CalendarPeriod.of(folder)
            if period is not None:
                dates.open.setdefault(period.day.isoformat(), set()).add(folder)
    return dates


def committed_times(times: Sequence[NamedTimes], zone_name: str) -> list[CommittedTimes]:
    """The same as event times in a zone."""
    committed = []
    for period, records, least, most, _ in times:
        if period is None:
            if least is not None and most is not None:
                committed.append(CommittedTimes(records, least, most))
            continue
        begin, end = period.begin_ms(zone_name), period.end_ms(zone_name)
        if begin is not None and end is not None:
            low = begin if least is None else min(max(least, begin), end - 1)
            high = low if most is None else min(max(most, begin), end - 1)
            committed.append(CommittedTimes(records, low, high))
    return committed
