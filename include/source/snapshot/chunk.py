"""Definitions of what a snapshot's workers hand over: rows of a key range, in pieces, with their binlog position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from include.errors import LyrebirdError
from include.record.position import SourcePosition
from include.source.rows.shape import EncodedImage, TableShape
from include.source.snapshot.watermark_window import SnapshotSpan, StreamPlace
from include.source.state.key_range import KeyRange

__all__ = ["Chunk", "ChunkFailed", "ChunkPiece", "RemainingRanges"]


@dataclass(eq=False, slots=True)
class Chunk:
    """A range of a table's rows, read in one snapshot; `since`: the stream's place before that was opened.

    `sorted_by`: the key that it was cut by. `read` counts its rows. `given_up`: nothing more of it is wanted.
    """

    table: str
    rows: KeyRange
    since: StreamPlace
    sorted_by: str = ""
    span: SnapshotSpan | None = None
    shape: TableShape | None = None
    given_up: bool = False
    read: int = 0


@dataclass(slots=True)
class ChunkPiece:
    """Some rows of a chunk; `high`: nothing beyond it shows in them. `last`: there are no more; `gone`: no table.

    `absent`: the images are of keys that were asked for and have no row.
    """

    chunk: Chunk
    images: list[EncodedImage]
    high: SourcePosition
    last: bool = False
    gone: bool = False
    absent: bool = False


@dataclass(slots=True)
class ChunkFailed:
    """A worker could not go on with that table; "": with none."""

    error: LyrebirdError
    table: str = ""


class RemainingRanges(NamedTuple):
    """The ranges of a table that are left to read, and the key that they were cut by."""

    ranges: tuple[KeyRange, ...]
    sorted_by: str
