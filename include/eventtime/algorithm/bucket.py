"""A bucket's work of a batch: buffer what is early, and bring each key that is due to the watermark.

The index of timers is lazy: a key stands there at one time, not later than its first timer. A timer that moves on, as
that of a device which goes on sending does with each element, changes nothing there; when the time has come, the
key's own timers say whether one is due, and the key is put at the next one's time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from include.eventtime.algorithm.buffer import WaitingElements, unpacked
from include.eventtime.algorithm.calls import Calls, Emitted, FailedCall
from include.eventtime.algorithm.kept import KeptState
from include.eventtime.algorithm.order import (
    ELEMENTS,
    TIMERS,
    ArrivedElement,
    kept_key,
    time_of,
    timer_key,
    timer_of,
)
from include.state.reading import BucketRows

__all__ = ["BucketOutput", "drain"]


@dataclass
class BucketOutput:
    """What a bucket's work made.

    Args:
        rows: what is put and (None) deleted in the bucket's state.
        due: the least time, µs, for which something is buffered or the index has a key; None: there is nothing.
        emitted: outputs; those of one key in order.
        failed: calls that raised.
        buffered: by how much the number of buffered elements has grown.
        timers: by how much the number of timers has grown.
    """

    rows: dict[bytes, bytes | None] = field(default_factory=dict)
    due: int | None = None
    emitted: list[Emitted] = field(default_factory=list)
    failed: list[FailedCall] = field(default_factory=list)
    buffered: int = 0
    timers: int = 0


def drain(calls: Calls[Any], state: BucketRows, arrived: Iterable[ArrivedElement], until: int) -> BucketOutput:
    """Take a batch's elements, none of them late, and advance the bucket to the watermark `until`, µs.

    Again with the same arguments, on the state as it was, it gives the same.
    """
    out, waiting = BucketOutput(), WaitingElements()
    elements: dict[bytes, list[ArrivedElement]] = {}
    for element in arrived:
        if element.time <= until:
            elements.setdefault(element.key, []).append(element)
        else:
            waiting.add(element)
            out.buffered += 1
    buffered = _Due(state, ELEMENTS, until)
    for row, packed in buffered:
        out.rows[row] = None
        for element in unpacked(packed):
            if element.time <= until:
                elements.setdefault(element.key, []).append(element)
                out.buffered -= 1
            else:
                waiting.add(element)
    out.rows |= waiting.rows()
    timers = _Due(state, TIMERS, until)
    for key, _ in timers:
        elements.setdefault(timer_of(key), [])
    found = _advance(calls, state, elements, until, out)
    out.due = min(
        (time for time in (waiting.first(), buffered.next, timers.next, *found) if time is not None), default=None
    )
    return out


def _advance(
    calls: Calls[Any], state: BucketRows, elements: dict[bytes, list[ArrivedElement]], until: int, out: BucketOutput
) -> list[int]:
    """Bring these keys to `until`; gives the times at which the index has them then."""
    keys = sorted(elements)
    rows = [kept_key(key) for key in keys]
    times = []
    for key, row, stored in zip(keys, rows, state.get(rows), strict=True):
        kept = KeptState.from_bytes(stored)
        index, timers = kept.index, len(kept.timers)
        emitted, failed = calls.advance(kept, key, sorted(elements[key]), until)
        out.emitted += emitted
        out.failed += failed
        out.timers += len(kept.timers) - timers
        kept.index = _moved(kept, until)
        if kept.index != index:
            if index is not None:
                out.rows[timer_key(index, key)] = None
            if kept.index is not None:
                out.rows[timer_key(kept.index, key)] = b""
        if kept.index is not None:
            times.append(kept.index)
        packed = kept.to_bytes()
        if packed != stored:
            out.rows[row] = packed
    return times


def _moved(kept: KeptState, until: int) -> int | None:
    """Where the index is to have the key: as it has it, unless that has passed or is later than its first timer."""
    first = min(kept.timers.values(), default=None)
    if kept.index is None or kept.index <= until or (first is not None and first < kept.index):
        return first
    return kept.index


class _Due:
    """What the state has of a kind up to a time; `next`, once all was given: the time of the first one after it."""

    def __init__(self, state: BucketRows, prefix: bytes, until: int) -> None:
        self._state, self._prefix, self._until = state, prefix, until
        self.next: int | None = None

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        for key, value in self._state.scan(self._prefix):
            time = time_of(key)
            if time > self._until:
                self.next = time
                return
            yield key, value
