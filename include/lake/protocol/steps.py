"""The questions that the protocol asks of the world, one at a time, and what may be answered."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from include.lake.protocol.cut import Commit, Gap

__all__ = [
    "Action",
    "CutCommitted",
    "Get",
    "Heads",
    "ListAfter",
    "LocalCut",
    "LocalFile",
    "ObjectSeen",
    "PutBody",
    "PutFile",
    "PutFiles",
    "PutOutcome",
    "ReadRange",
    "Steps",
]

PutOutcome = Literal["created", "exists", "unknown"]
"""created: this call wrote it; exists: something was there, nothing is changed; unknown: no answer, either may be."""


class LocalFile(NamedTuple):
    """A finished local file, to be stored under `key`. For the other fields see `cut.CutObject`."""

    key: str
    path: str
    bytes: int
    sha256: str
    records: int
    first: int | None
    last: int | None
    min_ts: int | None
    max_ts: int | None


class LocalCut(NamedTuple):
    """What reading a range gave. `end` is where it stopped; the other fields are those of a commit.

    `min_ts` and `max_ts` span the filtered records, too.
    """

    end: int
    files: tuple[LocalFile, ...]
    filtered: int
    config: str
    versions: Mapping[str, str]
    gaps: tuple[Gap, ...] = ()
    leader_epoch: int | None = None
    min_ts: int | None = None
    max_ts: int | None = None


class ListAfter(NamedTuple):
    """Keys that start with `prefix` and sort after `after`, sorted → tuple of texts."""

    prefix: str
    after: str


class Get(NamedTuple):
    """The bytes of an object → bytes, or None when there is none."""

    key: str


class Heads(NamedTuple):
    """What objects are → tuple of `ObjectSeen`, None for each that is not there."""

    keys: tuple[str, ...]


class ObjectSeen(NamedTuple):
    """An object without its bytes."""

    size_bytes: int
    metadata: Mapping[str, str]


class PutBody(NamedTuple):
    """Write unless something is there (`If-None-Match: *`) → `PutOutcome`."""

    key: str
    body: bytes


class PutFile(NamedTuple):
    """A local file with its metadata, to be written unless something is there."""

    file: LocalFile
    metadata: Mapping[str, str]


class PutFiles(NamedTuple):
    """Write each of them, in any order → tuple of `PutOutcome`, one for each."""

    puts: tuple[PutFile, ...]


class ReadRange(NamedTuple):
    """Read the log from `first` and write local files → `LocalCut`. Earlier local files of the cut may be removed.

    Without `config` (no intent stands) the reader takes the configuration that holds at `first`, and may stop before
    `until` when the files are big enough, but not at `first`, and not when `exact`.
    With `config` it takes that one, or raises `Terminal` when it does not have it, stops at `until` whatever the
    size, and writes a file for each of `keys`, with no records where none belongs there.
    The range is read when a record or the end of the log at `until` or beyond it is seen; `Terminal` when the log
    ends before it (truncated) or offsets go back, or when it has records below `first` of a newer leader than `epoch`,
    that of the last record which is stored (None: not known). Which file a record belongs to, and whether it is
    filtered or refused, depends on the record and the configuration alone: what may be another next time raises
    `Transient`.
    """

    first: int
    until: int
    exact: bool
    config: str = ""
    keys: tuple[str, ...] = ()
    epoch: int | None = None


class CutCommitted(NamedTuple):
    """Told when a cut is whole, whoever wrote it → None. Local files are of no use any more."""

    commit: Commit


Action: TypeAlias = ListAfter | Get | Heads | PutBody | PutFiles | ReadRange | CutCommitted

T = TypeVar("T")
Steps: TypeAlias = Generator[Action, Any, T]
"""A run of the protocol: yields actions, is sent their outcomes, returns a T. May be dropped at any point."""
