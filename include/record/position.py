"""Positions: where something stands in a binlog, in a source as a whole, in the log.

Only `BinlogPosition` and `LogOffset` have a total order; GTID sets are ordered partly (see `gtid`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from include.errors import Terminal
from include.record.gtid import Flavour, GtidSet, parse_gtid_set

__all__ = ["BinlogPosition", "LogOffset", "SourcePosition"]

_FILE = re.compile(r"(.*)\.([0-9]+)")


@dataclass(frozen=True, slots=True)
class BinlogPosition:
    """A byte in a server's binlog; ordered by file number, then by byte.

    `file` is as the server names it (`bin.000007`); files of one server share all but the number.
    """

    file: str
    pos: int

    @classmethod
    def parse(cls, text: str) -> BinlogPosition:
        """Read `bin.000007:4711`."""
        file, colon, pos = text.rpartition(":")
        if not colon or not (pos.isascii() and pos.isdigit()) or not _FILE.fullmatch(file):
            raise Terminal("not a binlog position", position=text, fix="Expected FILE.NUMBER:BYTE.")
        return cls(file, int(pos))

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}"

    @property
    def order(self) -> tuple[int, int]:
        """Sorts positions of one server; raises `Terminal` for a file without a number."""
        match = _FILE.fullmatch(self.file)
        if match is None:
            raise Terminal("a binlog file name without a number has no order", file=self.file)
        return int(match[2]), self.pos

    def __lt__(self, other: BinlogPosition) -> bool:
        return self.order < other.order

    def __le__(self, other: BinlogPosition) -> bool:
        return self.order <= other.order

    def __gt__(self, other: BinlogPosition) -> bool:
        return self.order > other.order

    def __ge__(self, other: BinlogPosition) -> bool:
        return self.order >= other.order


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """The end of a transaction of a source: its GTID set, its place in the binlog, its commit time (µs UTC)."""

    flavour: Flavour
    gtids: GtidSet
    binlog: BinlogPosition
    commit_us: int

    def covers(self, other: SourcePosition) -> bool:
        """Whether all up to `other` is up to here too: by GTIDs where they are kept, else by file and byte.

        Without GTIDs both have to be of one server.
        """
        if str(self.gtids) or str(other.gtids):
            return self.gtids.contains(other.gtids)  # type: ignore[arg-type]
        return self.binlog >= other.binlog

    def to_json(self) -> dict[str, Any]:
        """Plain values, as resolved records and `--json` carry them."""
        return {
            "flavour": self.flavour,
            "gtids": str(self.gtids),
            "file": self.binlog.file,
            "pos": self.binlog.pos,
            "commit_us": self.commit_us,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SourcePosition:
        """Inverse of `to_json`."""
        flavour: Flavour = value["flavour"]
        return cls(
            flavour,
            parse_gtid_set(value["gtids"], flavour),
            BinlogPosition(value["file"], value["pos"]),
            value["commit_us"],
        )


@dataclass(frozen=True, slots=True, order=True)
class LogOffset:
    """A record's place in the log. `offset` was read, `next_offset` is what is committed."""

    topic: str
    partition: int
    offset: int

    @property
    def next_offset(self) -> int:
        """Where reading goes on after this record."""
        return self.offset + 1

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}@{self.offset}"
