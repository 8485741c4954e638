"""Ends of batches by the records' timestamps, so that partitions of unequal length are read side by side in time.

What a reader buffers until all partitions have come as far is bounded by one slice then, instead of by the longest
partition. It is a hint for memory and no more: nothing rests on it, and timestamps may be what they like.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from include.clock import Clock
from include.log.planning.plan import Partition
from include.log.planning.survey import Survey

__all__ = ["TimeSlices"]

_FEW: Final = 10_000
"""Unread offsets that are read as they are: to bound them would save nothing."""


class TimeSlices:
    """Where slices of `slice_ms` end, at multiples of it since 1970."""

    def __init__(self, survey: Survey, slice_ms: int, clock: Clock) -> None:
        self._survey, self._slice_ms, self._clock = survey, slice_ms, clock
        self._number = 0

    def ends(self, starts: Mapping[Partition, int], ends: Mapping[Partition, int]) -> dict[Partition, int]:
        """Where the first slice ends that has something after `starts`.

        `ends`, where little is left, and where no slice up to now has anything.
        """
        if sum(max(0, end - starts[at]) for at, end in ends.items()) <= _FEW:
            return dict(ends)
        last = self._clock.now_us() // 1_000 // self._slice_ms + 1
        # The slice before may not be through: a batch has limits of its own.
        for number in (self._number, self._number + 1):
            if 0 < number <= last and self._moves(starts, slice_ends := self._at(number, ends)):
                self._number = number
                return slice_ends
        low, high = 0, last
        while low < high:
            middle = (low + high) // 2
            moves = self._moves(starts, self._at(middle, ends))
            low, high = (low, middle) if moves else (middle + 1, high)
        self._number = low
        slice_ends = self._at(low, ends)
        return slice_ends if self._moves(starts, slice_ends) else dict(ends)

    def _at(self, number: int, ends: Mapping[Partition, int]) -> dict[Partition, int]:
        found = self._survey.offsets(list(ends), number * self._slice_ms)
        return {at: min(end, found.get(at, end)) for at, end in ends.items()}

    @staticmethod
    def _moves(starts: Mapping[Partition, int], ends: Mapping[Partition, int]) -> bool:
        return any(end > starts[at] for at, end in ends.items())
