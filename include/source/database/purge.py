"""Estimates how long a server still keeps the binlog from which capture goes on, and counts the bytes to its end.

A server purges whole files, the oldest first: when the last write of one is older than its limit of time, or when all
together exceed its limit of bytes. It does not purge a file that a replica is reading, so the horizon says how long
capture may be away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from include.record.position import BinlogPosition

__all__ = ["WARN_HOURS", "ListedBinlogFile", "PurgeHorizon", "Retention", "Started", "horizon", "lag_bytes"]

WARN_HOURS = 24.0
"""A horizon below asks for a person."""
_HOUR_US = 3_600_000_000
# An oldest file younger than this part of the limit was not purged by it.
_MUCH = 2
_MISSING = "the server has no file of that name; was another one put in its place?"


@dataclass(frozen=True, slots=True)
class ListedBinlogFile:
    """A file as SHOW BINARY LOGS tells it."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Retention:
    """The server's own limits.

    Attributes:
        age_s: of time; 0: none, None: not known.
        total_bytes: of bytes; 0: none.
        rule: what the limit of time is called, or why it is not known; "": as servers have it.
        at_once: files go as soon as no replica reads them.
        up_s: for how long the server runs; None: not known.
    """

    age_s: float | None
    total_bytes: int = 0
    rule: str = ""
    at_once: bool = False
    up_s: float | None = None


@dataclass(frozen=True, slots=True)
class PurgeHorizon:
    """Hours until the file may be purged, and on what they rest; None: never, or unknown, as `basis` says."""

    hours: float | None
    basis: str

    @property
    def short(self) -> bool:
        """Whether a person should act."""
        return self.hours is not None and self.hours < WARN_HOURS


Started = Callable[[str], int | None]
"""When the server began a file, µs UTC; None when it does not tell."""


def lag_bytes(files: Sequence[ListedBinlogFile], position: BinlogPosition) -> int | None:
    """Bytes of binlog after the position; None when its file is not among `files`, which are the oldest first."""
    at = _index(files, position.file)
    if at is None:
        return None
    return max(0, sum(file.size_bytes for file in files[at:]) - position.pos)


def horizon(
    files: Sequence[ListedBinlogFile], retention: Retention, position: BinlogPosition, started: Started, now_us: int
) -> PurgeHorizon:
    """Estimates when the position's file may be purged. `files`: the oldest first; asks `started` of three at most."""
    index = _index(files, position.file)
    if index is None:
        if files and _older(position, files[0].name):
            return PurgeHorizon(0.0, "the server has purged the file")
        return PurgeHorizon(None, f"unknown: {_MISSING}")
    if retention.at_once:
        return PurgeHorizon(0.0, retention.rule)
    retention = _believed(files, retention, started, now_us)
    limits = [
        limit
        for limit in (
            _by_age(files, index, retention, started, now_us),
            _by_size(files, index, retention, started, now_us),
        )
        if limit is not None
    ]
    known = [limit for limit in limits if limit.hours is not None]
    if known:
        return min(known, key=lambda limit: limit.hours or 0.0)
    return limits[0] if limits else PurgeHorizon(None, "never: the server purges nothing by itself")


def _believed(files: Sequence[ListedBinlogFile], retention: Retention, started: Started, now_us: int) -> Retention:
    """The limit of time, or the age of the oldest file, where files have gone long before that limit."""
    limit_s, up_s = retention.age_s, retention.up_s
    if limit_s is None or up_s is None or retention.total_bytes or _number(files[0].name) <= 1:
        return retention
    first_us = started(files[0].name)
    age_s = None if first_us is None else max(0.0, (now_us - first_us) / 1e6)
    if age_s is None or age_s * _MUCH >= min(limit_s or up_s, up_s):
        return retention
    return replace(retention, age_s=age_s, rule="the age of its oldest file, as somebody purges before its own limit")


def _number(file: str) -> int:
    number = file.rpartition(".")[2]
    return int(number) if number.isdigit() else 0


def _by_age(
    files: Sequence[ListedBinlogFile], at: int, retention: Retention, started: Started, now_us: int
) -> PurgeHorizon | None:
    if retention.age_s is None:
        return PurgeHorizon(None, retention.rule or "unknown: the server does not tell its limit of time")
    if retention.age_s <= 0:
        return None
    rule = retention.rule or "its limit of time"
    if at == len(files) - 1:
        return PurgeHorizon(retention.age_s / 3600, f"{rule}; the file is still being written")
    # The next file began when this one was written last.
    written_us = started(files[at + 1].name)
    if written_us is None:
        return PurgeHorizon(None, "unknown: the server does not tell the age of its files")
    return PurgeHorizon(
        max(0.0, (written_us - now_us) / _HOUR_US + retention.age_s / 3600), f"{rule}, from the last write"
    )


def _by_size(
    files: Sequence[ListedBinlogFile], at: int, retention: Retention, started: Started, now_us: int
) -> PurgeHorizon | None:
    if retention.total_bytes <= 0:
        return None
    room = retention.total_bytes - sum(file.size_bytes for file in files[at:])
    if room <= 0 and at < len(files) - 1:
        return PurgeHorizon(0.0, "its limit of bytes")
    first_us = started(files[0].name)
    if first_us is None or first_us >= now_us:
        return PurgeHorizon(None, "unknown: the server does not tell the age of its files")
    written = sum(file.size_bytes for file in files)
    hours = max(0, room) / max(written, 1) * (now_us - first_us) / _HOUR_US
    return PurgeHorizon(hours, "its limit of bytes, at the rate of writes since its oldest file")


def _index(files: Sequence[ListedBinlogFile], name: str) -> int | None:
    return next((i for i, file in enumerate(files) if file.name == name), None)


def _older(position: BinlogPosition, first: str) -> bool:
    base, _, _ = position.file.rpartition(".")
    return base == first.rpartition(".")[0] and position < BinlogPosition(first, 0)
