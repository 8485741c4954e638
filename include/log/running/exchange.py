"""Cuts and joins what tasks of `batches_spark.exchange` pass on, on both sides of its shuffle, without Spark.

Frames and results travel in pieces of a megabyte, as each object that passes through a JVM is there as a whole, several
times. Of results sizes are known first: small ones come with them, large ones in shares.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

__all__ = [
    "FramePiece",
    "InlineResults",
    "StoredResults",
    "applied",
    "frames_of",
    "near",
    "partition_of_bucket",
    "passed_on",
    "placed",
    "shared",
    "whole",
]

T = TypeVar("T")
_PIECE: Final = 1 << 20


class FramePiece(NamedTuple):
    """A part of a frame of a task, or of a bucket's result: whose it is, its number there, whether it is the last."""

    owner: int
    number: int
    last: bool
    data: bytes


@dataclass(frozen=True)
class InlineResults:
    """All results of a task."""

    pieces: tuple[FramePiece, ...]


@dataclass(frozen=True)
class StoredResults:
    """Results of a task that are left where they are: sizes of their pieces, in order."""

    sizes: tuple[int, ...]


def partition_of_bucket(bucket: int, buckets: int, tasks: int) -> int:
    """The task of a bucket: neighbours go to one, so that tasks in order give buckets in order."""
    if not 0 <= bucket < buckets:
        raise ValueError(f"bucket {bucket} of {buckets}")
    return bucket * tasks // buckets


def frames_of(
    read: Callable[[Any], Mapping[int, bytes]], numbered: tuple[int, Any]
) -> Iterator[tuple[int, FramePiece]]:
    """(bucket, piece) of each frame that `read` makes of a share."""
    task, share = numbered
    for bucket, frame in read(share).items():
        for piece in _pieces(task, frame):
            yield bucket, piece


def applied(
    apply: Callable[[int, list[bytes]], object], arrived: Iterable[tuple[int, FramePiece]]
) -> Iterator[FramePiece]:
    """Pieces of what `apply` makes of each bucket's frames: buckets in order, each one's frames by their tasks."""
    for bucket, frames in _by_bucket(arrived):
        yield from _pieces(bucket, pickle.dumps(apply(bucket, frames), pickle.HIGHEST_PROTOCOL))


def passed_on(
    middle: Callable[[int, list[bytes]], Mapping[int, bytes]], arrived: Iterable[tuple[int, FramePiece]]
) -> Iterator[tuple[int, FramePiece]]:
    """(bucket, piece) of each frame that `middle` makes of a bucket's frames, for the buckets of the next stage."""
    for bucket, frames in _by_bucket(arrived):
        for to, frame in middle(bucket, frames).items():
            for piece in _pieces(bucket, frame):
                yield to, piece


def near(most: int, results: Iterable[FramePiece]) -> Iterator[InlineResults | StoredResults]:
    """A task's results where they have at most so many bytes, else their sizes."""
    kept: list[FramePiece] = []
    sizes: list[int] = []
    size = 0
    for piece in results:
        sizes.append(len(piece.data))
        size += len(piece.data)
        if size <= most:
            kept.append(piece)
        else:
            kept.clear()
    yield InlineResults(tuple(kept)) if size <= most else StoredResults(tuple(sizes))


def shared(found: Iterable[InlineResults | StoredResults], most: int) -> tuple[dict[int, list[int]], int]:
    """For each task with far results the share of each of its pieces, and how many shares there are.

    A share is of one task, has pieces that follow each other, and at most so many bytes, or one piece.
    """
    shares: dict[int, list[int]] = {}
    number = -1
    for task, each in enumerate(found):
        if isinstance(each, StoredResults):
            shares[task], room = [], -1
            for size in each.sizes:
                room -= size
                if room < 0:
                    number, room = number + 1, most - size
                shares[task].append(number)
    return shares, number + 1


def placed(
    shares: Mapping[int, Sequence[int]], task: int, results: Iterable[FramePiece]
) -> Iterable[tuple[int, FramePiece]]:
    """(share, piece) of a task's results where they are far; they are not made again where they are not."""
    return zip(shares.get(task, ()), results, strict=task in shares)


def whole(pieces: Iterable[FramePiece]) -> Iterator[tuple[int, bytes]]:
    """(owner, bytes) of what was cut, of pieces in order."""
    parts: list[bytes] = []
    for piece in pieces:
        if piece.number != len(parts):
            # An answer with a hole in it would be wrong without a word.
            raise RuntimeError(f"piece {piece.number} of {piece.owner} came where {len(parts)} was to come")
        parts.append(piece.data)
        if piece.last:
            yield piece.owner, b"".join(parts)
            parts = []
    if parts:
        raise RuntimeError("the last piece did not come")


def _by_bucket(arrived: Iterable[tuple[int, FramePiece]]) -> Iterator[tuple[int, list[bytes]]]:
    """Buckets in order, each one's frames by their owners."""
    buckets: dict[int, list[FramePiece]] = {}
    for bucket, piece in arrived:
        buckets.setdefault(bucket, []).append(piece)
    for bucket in sorted(buckets):
        yield bucket, [frame for _, frame in whole(sorted(buckets.pop(bucket)))]


def _pieces(owner: int, data: bytes) -> Iterator[FramePiece]:
    # Nothing is one piece, too.
    count = max(1, -(-len(data) // _PIECE))
    for number in range(count):
        yield FramePiece(owner, number, number == count - 1, data[number * _PIECE : (number + 1) * _PIECE])
