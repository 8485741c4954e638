"""GTID sets of both flavours: which transactions of a server somebody has seen.

MariaDB keeps one sequence number for each replication domain (`0-1-25,1-2-7`): having seen `d-s-n` means having
seen all of domain `d` up to `n`. MySQL keeps intervals for each server uuid and tag (`uuid:1-5:9,uuid:tag:1-3`).
Both are immutable here; `parse(str(x)) == x`.
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from include.errors import Terminal

__all__ = ["Flavour", "GtidSet", "MariadbGtidSet", "MysqlGtidSet", "parse_gtid_set"]

Flavour = Literal["mariadb", "mysql"]

_MYSQL_SID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MYSQL_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
Interval = tuple[int, int]


@dataclass(frozen=True)
class MariadbGtidSet:
    """The last `server-sequence` seen of each domain: {domain: (server, sequence)}."""

    last: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> MariadbGtidSet:
        """Read `0-1-25,1-2-7` (blanks allowed, empty = nothing seen); raises `Terminal` on anything else."""
        last: dict[int, tuple[int, int]] = {}
        for part in _parts(text):
            numbers = part.split("-")
            if len(numbers) != 3 or not all(_is_number(n) for n in numbers):
                raise Terminal("not a MariaDB GTID", gtid=part, fix="Expected domain-server-sequence.")
            domain, server, sequence = map(int, numbers)
            if domain in last:
                raise Terminal("a MariaDB GTID position names a domain twice", gtid=text)
            last[domain] = (server, sequence)
        return cls(last)

    def __str__(self) -> str:
        return ",".join(f"{d}-{s}-{n}" for d, (s, n) in sorted(self.last.items()))

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.last.items())))

    def add(self, gtid: str) -> MariadbGtidSet:
        """The set after one more transaction; an older one of its domain changes nothing."""
        numbers = gtid.split("-")
        if len(numbers) == 3 and all(map(_is_number, numbers)):
            # Without the parser, as this is asked for each transaction.
            domain, server, sequence = int(numbers[0]), int(numbers[1]), int(numbers[2])
            before = self.last.get(domain)
            return (
                self if before and before[1] >= sequence else MariadbGtidSet({**self.last, domain: (server, sequence)})
            )
        if len(MariadbGtidSet.parse(gtid).last) != 1:
            raise Terminal("not one MariaDB GTID", gtid=gtid, fix="Expected domain-server-sequence.")
        return self.add(re.sub(r"[\s,]+", "", gtid))

    def follow(self, source: str, first: int, last: int) -> MariadbGtidSet | None:
        """The set after the transactions `first` to `last` of a source, `domain-server`; None if any is in it."""
        domain, _, server = source.partition("-")
        return self._later(int(domain), int(server), first, last)

    def _later(self, domain: int, server: int, first: int, last: int) -> MariadbGtidSet | None:
        before = self.last.get(domain)
        if before is not None and before[1] >= first:
            return None
        return MariadbGtidSet({**self.last, domain: (server, last)})

    def contains(self, other: MariadbGtidSet) -> bool:
        """Whether everything in `other` has been seen here."""
        return all(d in self.last and self.last[d][1] >= n for d, (_, n) in other.last.items())

    def union(self, other: MariadbGtidSet) -> MariadbGtidSet:
        """The later of both in each domain."""
        merged = dict(self.last)
        for domain, (server, sequence) in other.last.items():
            if domain not in merged or merged[domain][1] < sequence:
                merged[domain] = (server, sequence)
        return MariadbGtidSet(merged)


@dataclass(frozen=True)
class MysqlGtidSet:
    """Sorted, disjoint, closed intervals for each `uuid` or `uuid:tag`."""

    seen: Mapping[str, tuple[Interval, ...]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> MysqlGtidSet:
        """Read `uuid:1-5:9,uuid:tag:1-3` (case of uuids and blanks do not count); raises `Terminal` otherwise."""
        seen: dict[str, list[Interval]] = {}
        for part in _parts(text):
            sid, *rest = part.split(":")
            if not _MYSQL_SID.fullmatch(sid) or not rest or _MYSQL_TAG.fullmatch(rest[-1]):
                raise Terminal("not a MySQL GTID", gtid=part, fix="Expected uuid[:tag]:first-last[:…].")
            source = sid.lower()
            for piece in rest:
                if _MYSQL_TAG.fullmatch(piece):
                    source = f"{sid.lower()}:{piece}"
                    continue
                seen.setdefault(source, []).append(_interval(piece, part))
        return cls({source: _merge(parts) for source, parts in seen.items()})

    def __str__(self) -> str:
        return ",".join(
            f"{source}:" + ":".join(f"{a}-{b}" if a < b else f"{a}" for a, b in parts)
            for source, parts in sorted(self.seen.items())
        )

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.seen.items())))

    def add(self, gtid: str) -> MysqlGtidSet:
        """The set with one more transaction in it; itself when it has that already."""
        source, _, number = gtid.rpartition(":")
        if source in self.seen and _is_number(number):
            # Without the parser, as this is asked for each transaction: nearly always it is a source's next one.
            longer = self._longer(source, int(number), int(number))
            if longer is not None:
                return longer
        added = MysqlGtidSet.parse(gtid)
        return self if self.contains(added) else self.union(added)

    def follow(self, source: str, first: int, last: int) -> MysqlGtidSet | None:
        """The set with the transactions `first` to `last` of a source, `uuid[:tag]`; None if any is in it."""
        longer = self._longer(source, first, last)
        if longer is not None:
            return longer
        added = MysqlGtidSet({source: ((first, last),)})
        return self.union(added) if added.subtract(self) == added else None

    def _longer(self, source: str, first: int, last: int) -> MysqlGtidSet | None:
        """With a source's last interval made longer; None where `first` does not follow it."""
        parts = self.seen.get(source)
        if not parts or parts[-1][1] + 1 != first:
            return None
        return MysqlGtidSet({**self.seen, source: (*parts[:-1], (parts[-1][0], last))})

    def contains(self, other: MysqlGtidSet) -> bool:
        """Whether every transaction of `other` is in this set."""
        return not other.subtract(self).seen

    def union(self, other: MysqlGtidSet) -> MysqlGtidSet:
        """Transactions that are in either set."""
        sources = self.seen.keys() | other.seen.keys()
        return MysqlGtidSet({s: _merge((*self.seen.get(s, ()), *other.seen.get(s, ()))) for s in sources})

    def subtract(self, other: MysqlGtidSet) -> MysqlGtidSet:
        """Transactions that are in this set and not in `other`."""
        left: dict[str, tuple[Interval, ...]] = {}
        for source, parts in self.seen.items():
            rest = _without(parts, other.seen.get(source, ()))
            if rest:
                left[source] = rest
        return MysqlGtidSet(left)

    def encode(self) -> bytes:
        """As COM_BINLOG_DUMP_GTID and PREVIOUS_GTIDS carry it; interval ends are exclusive there."""
        tagged = any(":" in source for source in self.seen)
        count = len(self.seen)
        head = struct.pack("<Q", count) if not tagged else bytes((1,)) + struct.pack("<Q", count)[:6] + bytes((1,))
        parts = [head]
        for source, intervals in sorted(self.seen.items()):
            sid, _, tag = source.partition(":")
            parts.append(uuid.UUID(sid).bytes)
            if tagged:
                parts.append(bytes((len(tag) << 1,)) + tag.encode())
            parts.append(struct.pack("<Q", len(intervals)))
            parts += [struct.pack("<QQ", a, b + 1) for a, b in intervals]
        return b"".join(parts)


GtidSet = MariadbGtidSet | MysqlGtidSet


def parse_gtid_set(text: str, flavour: Flavour) -> GtidSet:
    """The set of the server's own kind."""
    return MariadbGtidSet.parse(text) if flavour == "mariadb" else MysqlGtidSet.parse(text)


def _parts(text: str) -> list[str]:
    return [part for part in re.sub(r"\s+", "", text).split(",") if part]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _interval(text: str, whole: str) -> Interval:
    first, dash, last = text.partition("-")
    if not _is_number(first) or (dash and not _is_number(last)):
        raise Terminal("not a MySQL GTID interval", gtid=whole, interval=text)
    a, b = int(first), int(last or first)
    if a < 1 or b < a:
        raise Terminal("a MySQL GTID interval is empty or starts below 1", gtid=whole, interval=text)
    return a, b


def _merge(parts: Iterable[Interval]) -> tuple[Interval, ...]:
    merged: list[Interval] = []
    for a, b in sorted(parts):
        if merged and a <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(b, merged[-1][1]))
        else:
            merged.append((a, b))
    return tuple(merged)


def _without(parts: Iterable[Interval], holes: Iterable[Interval]) -> tuple[Interval, ...]:
    left = list(parts)
    for x, y in holes:
        cut: list[Interval] = []
        for a, b in left:
            if y < a or b < x:
                cut.append((a, b))
                continue
            if a < x:
                cut.append((a, x - 1))
            if y < b:
                cut.append((y + 1, b))
        left = cut
    return tuple(left)
