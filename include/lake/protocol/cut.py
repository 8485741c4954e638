"""Definitions of a cut in the chain: intent, files and commit of a range [first, next) of one Kafka partition.

Why the intent names the files: it is written when the range has been read and before anything is uploaded. Who takes
the cut over writes exactly these objects, an empty one where compaction has since left nothing, so that when the
commit is written no name of the cut is free any more: a writer that was asleep finds all of them taken, and every
object under a data name is listed in a commit. A manifest of its own would say the same for one more request a cut.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

from include.errors import Terminal
from include.lake.protocol.canonical import choice, dump, load, offset, offset_or_none, text, unreadable, whole
from include.lake.protocol.chain_key import ChainKey

__all__ = ["Commit", "CutObject", "Gap", "GapKind", "Intent", "PlannedFile", "Reason", "gap_kind"]

Reason = Literal["size", "age", "flush", "ending", "backfill"]
"""Why a cut ends where it does: enough bytes; old enough; asked for; the run ends; as the cut that it replaces."""

GapKind = Literal["before", "lost"]
"""before: the log no longer had it when the topic was first stored; lost: retention overtook what is stored."""


class Gap(NamedTuple):
    """Offsets [first, until) that the log no longer had when the cut, or one of its files, was read.

    Files of an attempt before that may hold some of them.
    """

    first: int
    until: int
    kind: GapKind


def gap_kind(first: int, stored: int = 0) -> GapKind:
    """The kind of the gaps of the cut at `first`: below the first cut of a topic nothing was ever promised.

    `stored`: up to where the topic was stored once, by a generation whose commits are gone.
    """
    return "lost" if first or stored else "before"


class PlannedFile(NamedTuple):
    """A file that a cut will have; `first` and `last` are the least and greatest offset in it, None when empty."""

    key: str
    records: int
    first: int | None
    last: int | None


class CutObject(NamedTuple):
    """An object of a cut. Times are of its records, in milliseconds; None where none has one.

    `adopted`: another attempt made its bytes, from records that were not compacted yet or with other libraries.
    """

    key: str
    bytes: int
    sha256: str
    records: int
    first: int | None
    last: int | None
    min_ts: int | None
    max_ts: int | None
    adopted: bool = False


_INTENT: Final = frozenset({"end", "reason", "policy", "config", "writer", "files"})
_COMMIT: Final = frozenset(
    {
        *{"first", "next", "intent", "n_records", "filtered", "quarantined", "min_ts", "max_ts", "gaps"},
        *{"leader_epoch", "config", "versions", "files"},
    }
)
_REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
_GAP_KINDS: Final[tuple[GapKind, ...]] = get_args(GapKind)
_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Intent:
    """The promise of a cut: written once, binding for whoever writes it.

    `config` is the hash of parser and configuration that decide on files and records, `policy` the upload policy in
    words, `writer` who decided. `files` are sorted by key.
    """

    end: int
    reason: Reason
    policy: str
    config: str
    writer: str
    files: tuple[PlannedFile, ...]

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return dump(
            {
                "end": self.end,
                "reason": self.reason,
                "policy": self.policy,
                "config": self.config,
                "writer": self.writer,
                "files": [list(file) for file in self.files],
            }
        )

    def id(self, chain: ChainKey, first: int) -> str:
        """Names this promise; every object that is written for it carries it."""
        return hashlib.sha256(chain.intent(first).encode() + b"\n" + self.to_bytes()).hexdigest()[:32]

    @classmethod
    def parse(cls, body: bytes, chain: ChainKey, first: int) -> Intent:
        """Inverse of `to_bytes`; `Terminal` naming the object for anything else."""
        key = chain.intent(first)
        fields = load(body, key, _INTENT)
        try:
            intent = cls(
                end=offset(fields["end"]),
                reason=choice(fields["reason"], _REASONS),
                policy=text(fields["policy"]),
                config=text(fields["config"]),
                writer=text(fields["writer"]),
                files=tuple(_planned(each) for each in fields["files"]),
            )
            intent.check(chain, first)
        except (TypeError, ValueError, Terminal) as error:
            raise unreadable(key, repr(error)) from error
        return intent

    def check(self, chain: ChainKey, first: int) -> None:
        """Raise `ValueError` or `Terminal` when it cannot be of the cut at `first`."""
        _check_files(self.files, chain, first, self.end)


@dataclass(frozen=True, slots=True)
class Commit:
    """The cut [first, next) is whole. n_records = the records of all `files` + `filtered`.

    `quarantined` are the records in the file of refused ones, `min_ts` and `max_ts` (milliseconds) span all records
    that were read, `versions` names the libraries that decide on bytes.
    """

    first: int
    next: int
    intent: str
    n_records: int
    filtered: int
    quarantined: int
    min_ts: int | None
    max_ts: int | None
    gaps: tuple[Gap, ...]
    leader_epoch: int | None
    config: str
    versions: Mapping[str, str]
    files: tuple[CutObject, ...]

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return dump(
            {
                **{name: getattr(self, name) for name in _COMMIT},
                "versions": dict(self.versions),
                "gaps": [list(gap) for gap in self.gaps],
                "files": [list(file) for file in self.files],
            }
        )

    @classmethod
    def parse(cls, body: bytes, chain: ChainKey, first: int) -> Commit:
        """Inverse of `to_bytes`; `Terminal` naming the object for anything else."""
        key = chain.commit(first)
        fields = load(body, key, _COMMIT)
        try:
            commit = cls(
                first=offset(fields["first"]),
                next=offset(fields["next"]),
                intent=_hex(fields["intent"], 32),
                n_records=offset(fields["n_records"]),
                filtered=offset(fields["filtered"]),
                quarantined=offset(fields["quarantined"]),
                min_ts=_time(fields["min_ts"]),
                max_ts=_time(fields["max_ts"]),
                gaps=tuple(_gap(each) for each in fields["gaps"]),
                leader_epoch=offset_or_none(fields["leader_epoch"]),
                config=text(fields["config"]),
                versions={text(name): text(value) for name, value in fields["versions"].items()},
                files=tuple(_stored(each) for each in fields["files"]),
            )
            if commit.first != first:
                raise ValueError(f"it is of the cut at {commit.first}")
            refused = _check_files(commit.files, chain, first, commit.next)
            if commit.quarantined != refused:
                raise ValueError("the quarantined are not the records of their file")
            if commit.n_records != commit.filtered + sum(file.records for file in commit.files):
                raise ValueError("records read are not those written and filtered")
        except (AttributeError, TypeError, ValueError, Terminal) as error:
            raise unreadable(key, repr(error)) from error
        return commit


def _check_files(files: tuple[PlannedFile | CutObject, ...], chain: ChainKey, first: int, end: int) -> int:
    """Names of this cut, sorted, each once, offsets within it; gives the records of the file of refused ones."""
    if end <= first:
        raise ValueError(f"it ends at {end}, where it begins or before")
    refused, before = 0, ""
    for file in files:
        if file.key <= before:
            raise ValueError(f"{file.key!r} is there twice or out of order")
        before = file.key
        if chain.parse_data(file.key, first).refused:
            refused += file.records
        if (file.records == 0) != (file.first is None) or (file.first is None) != (file.last is None):
            raise ValueError(f"{file.key!r}: offsets without records, or records without")
        if file.first is not None and file.last is not None and not first <= file.first <= file.last < end:
            raise ValueError(f"{file.key!r}: offsets outside the cut")
    return refused


def _planned(value: Any) -> PlannedFile:
    key, records, least, last = value
    return PlannedFile(text(key), offset(records), offset_or_none(least), offset_or_none(last))


def _stored(value: Any) -> CutObject:
    key, size, sha256, records, least, last, min_ts, max_ts, adopted = value
    if type(adopted) is not bool:
        raise ValueError(f"{adopted!r} is no truth value")
    return CutObject(
        text(key),
        offset(size),
        _hex(sha256, 64),
        offset(records),
        offset_or_none(least),
        offset_or_none(last),
        _time(min_ts),
        _time(max_ts),
        adopted,
    )


def _gap(value: Any) -> Gap:
    first, until, kind = value
    if not offset(first) < offset(until):
        raise ValueError(f"a gap from {first} to {until}")
    return Gap(first, until, choice(kind, _GAP_KINDS))


def _time(value: Any) -> int | None:
    return None if value is None else whole(value)


def _hex(value: Any, length: int) -> str:
    if len(text(value)) != length or not _HEX.issuperset(value):
        raise ValueError(f"{value!r} is no hexadecimal of {length} digits")
    return str(value)
