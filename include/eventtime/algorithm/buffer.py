"""Elements that wait for the watermark, as rows of the embedded store: those of a quarter of a second make one row.

A row of their own each would cost more than the calls of the process. A row's key is that of its earliest element, so
rows are found by time, and no two have one key. The row in which the watermark stands is taken apart and what is not
due is put again, under another key.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from include.eventtime.algorithm.order import ArrivedElement, element_key

__all__ = ["WaitingElements", "unpacked"]

_SPAN_US: Final = 250_000
_COUNT: Final = struct.Struct(">I")


class WaitingElements:
    """Elements that a bucket has to keep."""

    def __init__(self) -> None:
        self._spans: dict[int, list[ArrivedElement]] = {}

    def add(self, element: ArrivedElement) -> None:
        """One of them."""
        self._spans.setdefault(element.time // _SPAN_US, []).append(element)

    def rows(self) -> dict[bytes, bytes]:
        """What is put of all of them."""
        return {element_key(min(elements)): _packed(elements) for elements in self._spans.values()}

    def first(self) -> int | None:
        """The earliest time, µs."""
        return min(self._spans[min(self._spans)]).time if self._spans else None


def unpacked(row: bytes) -> Iterator[ArrivedElement]:
    """The elements of a row."""
    (count,) = _COUNT.unpack_from(row)
    head = _head(count)
    numbers = head.unpack_from(row, _COUNT.size)
    times, sources, partitions, offsets, keys, values = (
        numbers[column * count : (column + 1) * count] for column in range(6)
    )
    start = _COUNT.size + head.size
    for time, source, partition, offset, key, value in zip(
        times, sources, partitions, offsets, keys, values, strict=True
    ):
        middle, end = start + key, start + key + value
        yield ArrivedElement(time, source, partition, offset, row[start:middle], row[middle:end])
        start = end


def _packed(elements: Sequence[ArrivedElement]) -> bytes:
    times, sources, partitions, offsets, keys, values = zip(*elements, strict=True)
    numbers = _head(len(elements)).pack(
        *times, *sources, *partitions, *offsets, *map(len, keys), *map(len, values)
    )  # fmt: skip
    return b"".join((_COUNT.pack(len(elements)), numbers, *_turns(keys, values)))


def _turns(keys: Iterable[bytes], values: Iterable[bytes]) -> Iterator[bytes]:
    for key, value in zip(keys, values, strict=True):
        yield key
        yield value


def _head(count: int) -> struct.Struct:
    return struct.Struct(f">{count}q{count}H{count}I{count}Q{count}I{count}I")
