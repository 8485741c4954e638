"""Definition of a backfill's selection: dates or offsets, the parser's configuration, where records come from."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from include.errors import SettingsError
from include.lake.dates.event_hours import CalendarPeriod
from include.lake.parsing.zones import zone
from include.lake.protocol.canonical import choice, offset, text

__all__ = ["BackfillOrigin", "BackfillSelection", "Days", "Offsets", "days_of", "parse_offsets", "span_ms"]

BackfillOrigin = Literal["raw", "kafka", "secor"]
"""raw: the objects of a backup group; kafka: the log, while it has the records; secor: an archive that Secor wrote."""

Offsets = Mapping[int, tuple[int, int]]
"""By Kafka partition [from, until)."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MS = dt.timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Days:
    """The days from `first` to `last`, both with them."""

    first: dt.date
    last: dt.date

    def __post_init__(self) -> None:
        if self.last < self.first:
            raise SettingsError(
                "the last day lies before the first", first=str(self.first), last=str(self.last), fix="Swap them."
            )

    def __contains__(self, day: dt.date) -> bool:
        return self.first <= day <= self.last

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"


def days_of(since: str, until: str) -> Days | None:
    """The days as a person writes them, YYYY-MM-DD; None without a first one. `SettingsError` for what are none."""
    if until and not since:
        raise SettingsError("a last day without a first one", until=until, fix="Give --from, too.")
    if not since:
        return None
    return Days(_day(since), _day(until or since))


def _day(written: str) -> dt.date:
    try:
        return dt.date.fromisoformat(written)
    except ValueError:
        raise SettingsError("not a day", got=written, fix="Write YYYY-MM-DD.") from None


@dataclass(frozen=True)
class BackfillSelection:
    """One request. Exactly one of `days` and `offsets` is given; at most one of `version` and `as_of`.

    Without `version` and `as_of` the parser is what the deployment declares now. `raw` is the backup group's name where
    records come from it, the archive's folder in the bucket where they come from Secor, else "".
    """

    group: str
    topic: str
    days: Days | None = None
    offsets: Offsets = field(default_factory=dict)
    version: int | None = None
    as_of: dt.datetime | None = None
    origin: BackfillOrigin = "raw"
    raw: str = ""

    def __post_init__(self) -> None:
        if (self.days is None) == (not self.offsets):
            raise SettingsError("a backfill is of dates or of offsets", fix="Give --from and --to, or --offsets.")
        if self.version is not None and self.as_of is not None:
            raise SettingsError(
                "a backfill takes one version of the parser, or those of a time",
                version=self.version,
                as_of=str(self.as_of),
                fix="Leave one of them out.",
            )
        if self.as_of is not None and self.as_of.tzinfo is None:
            raise SettingsError("a time without its zone", as_of=str(self.as_of), fix="Write it as 2026-11-21T00:00Z.")
        for partition, (first, until) in self.offsets.items():
            if partition < 0 or not 0 <= first < until:
                raise SettingsError(
                    "no range of offsets", partition=partition, offsets=f"{first}-{until}", fix="Write 0:100-200."
                )

    @property
    def parser(self) -> str:
        """The parser's configuration in words."""
        if self.version is not None:
            return f"version {self.version}"
        return f"as of {self.as_of.isoformat()}" if self.as_of is not None else "as declared now"

    @property
    def what(self) -> str:
        """Dates or offsets in words."""
        if self.days is not None:
            return str(self.days)
        ranges = (f"{p}:{first}-{until}" for p, (first, until) in sorted(self.offsets.items()))
        return f"offsets {', '.join(ranges)}"

    def to_json(self) -> dict[str, Any]:
        """Plain values, the same for the same request."""
        return {
            "group": self.group,
            "topic": self.topic,
            "days": [str(self.days.first), str(self.days.last)] if self.days else None,
            "offsets": {str(partition): list(ends) for partition, ends in self.offsets.items()},
            "version": self.version,
            "as_of": self.as_of.astimezone(dt.UTC).isoformat() if self.as_of else None,
            "origin": self.origin,
            "raw": self.raw,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BackfillSelection:
        """Inverse of `to_json`; KeyError, TypeError or ValueError for anything else."""
        days, as_of = value["days"], value["as_of"]
        return cls(
            group=text(value["group"]),
            topic=text(value["topic"]),
            days=Days(*map(dt.date.fromisoformat, days)) if days else None,
            offsets={int(p): (offset(first), offset(until)) for p, (first, until) in value["offsets"].items()},
            version=None if value["version"] is None else offset(value["version"]),
            as_of=dt.datetime.fromisoformat(as_of) if as_of else None,
            origin=choice(value["origin"], get_args(BackfillOrigin)),
            raw=text(value["raw"]),
        )


def parse_offsets(texts: Iterable[str]) -> dict[int, tuple[int, int]]:
    """`0:100-200` → partition 0, [100, 200); `SettingsError` for another form, or a partition named twice."""
    ranges: dict[int, tuple[int, int]] = {}
    for written in texts:
        partition, colon, ends = written.partition(":")
        first, dash, until = ends.partition("-")
        numbers = (partition, first, until)
        if not (colon and dash and all(number.isascii() and number.isdigit() for number in numbers)):
            raise SettingsError("no range of offsets", got=written, fix="Write partition:from-until: 0:100-200.")
        if int(partition) in ranges:
            raise SettingsError("a partition is named twice", got=written, fix="Make a backfill for each range.")
        ranges[int(partition)] = int(first), int(until)
    return ranges


def span_ms(days: Days, zones: Iterable[str]) -> tuple[int, int]:
    """[from, until) in epoch milliseconds that the days have in any of the zones."""
    begins, ends = [], []
    for name in zones:
        midnight = dt.datetime.combine(days.first, dt.time(), zone(name))
        begins.append((midnight - _EPOCH) // _MS)
        # A day that a zone skipped has no end of its own: that of the day before it is where it would be.
        last = days.last
        while (end := CalendarPeriod(last).end_ms(name)) is None:
            last -= dt.timedelta(days=1)
        ends.append(end)
    return min(begins), max(ends)
