"""The report of a run over the dates of the lake, for people and as JSON; asset events are made of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from include.clock import iso
from include.errors import Terminal
from include.lake.finalising.marker import MarkerChange

__all__ = ["AssetUpdate", "DateReport", "TopicReport", "asset_updates", "counted", "refuse_errors", "together"]

_SAID: Final[Mapping[MarkerChange, str]] = {
    "finished": "is over",
    "late": "got records after it was over: run it again",
    "replaced": "was made again by a backfill: run it again",
}


@dataclass(frozen=True, slots=True)
class DateReport:
    """A day, or an hour of it (0-23), to be told. `key` is its `_SUCCESS`; `late` are the objects that came late.

    `new`: this run has marked it; else an earlier one did, and nobody was told.
    """

    folder: str
    date: str
    hour: int | None
    change: MarkerChange
    edition: int
    objects: int
    records: int
    size_bytes: int
    key: str
    new: bool
    late: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One topic of a group. `open` are folders that are not over; `holding` Kafka partitions that hold all back.

    `error`: why nothing can be said.
    """

    group: str
    topic: str
    dates: tuple[DateReport, ...] = ()
    open: tuple[str, ...] = ()
    passed_ms: int | None = None
    holding: tuple[int, ...] = ()
    error: str = ""

    def lines(self) -> list[str]:
        """For a person."""
        if self.error:
            return [f"{self.group}, {self.topic}: {self.error}"]
        if self.passed_ms is not None:
            reached = f"all partitions have passed {iso(self.passed_ms * 1000)}"
        elif self.holding:
            reached = f"nothing is over: partition {', '.join(map(str, self.holding))} waits, nothing of it is known"
        else:
            reached = "nothing is stored"
        lines = [f"{self.group}, {self.topic}: {reached}; {counted(len(self.open), 'date')} open"]
        for date in self.dates:
            size = f"{counted(date.objects, 'object')}, {counted(date.records, 'record')}"
            lines.append(f"  {date.folder} {_SAID[date.change]} (edition {date.edition}; {size})")
            lines += [f"    late: {key}" for key in date.late]
        return lines


@dataclass(frozen=True, slots=True)
class AssetUpdate:
    """An event of the asset `uri`; `extra` says which date of which group, and why."""

    uri: str
    extra: dict[str, Any]


def counted(number: int, thing: str) -> str:
    """`1 date`, `2 dates`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def together(reports: Iterable[TopicReport]) -> dict[str, Any]:
    """All of them as JSON."""
    return {"topics": [dataclasses.asdict(each) for each in reports]}


def asset_updates(report: Mapping[str, Any]) -> list[AssetUpdate]:
    """An event for each date of a report; telling one twice tells the same."""
    shown = ("folder", "date", "hour", "change", "edition", "objects", "records", "size_bytes")
    return [
        AssetUpdate(
            f"lake://{topic['topic']}/dt",
            {"group": topic["group"], "topic": topic["topic"], **{name: date[name] for name in shown}},
        )
        for topic in report["topics"]
        for date in topic["dates"]
    ]


def refuse_errors(report: Mapping[str, Any]) -> int:
    """The number of topics, when nothing is wrong with any of them; `Terminal` with the first that is."""
    wrong = [topic for topic in report["topics"] if topic["error"]]
    if wrong:
        first = wrong[0]
        raise Terminal(
            f"the dates of {counted(len(wrong), 'topic')} cannot be told",
            group=first["group"],
            topic=first["topic"],
            reason=first["error"],
            fix="See to it; the other topics are done.",
        )
    return len(report["topics"])
