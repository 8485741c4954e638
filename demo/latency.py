"""From commit to searchable: pairs each committed order row with the moment when search first showed it."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Latencies", "percentile"]


@dataclass(frozen=True, slots=True)
class _Awaited:
    row_id: int
    committed_us: int


class Latencies:
    """Fed by the shop's threads (`committed`) and by the one that searches (`seen`).

    Search shows an order's newest row, so a row counts as seen once that row or a later one of its order is shown.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._awaited: dict[int, list[_Awaited]] = {}
        self._seconds: list[float] = []

    def committed(self, order_id: int, row_id: int, committed_us: int) -> None:
        """A row in a final state was committed at `committed_us` (wall clock)."""
        with self._lock:
            self._awaited.setdefault(order_id, []).append(_Awaited(row_id, committed_us))

    def awaited(self, most: int) -> list[int]:
        """Orders with a row that has not been seen, the longest awaited first."""
        with self._lock:
            waiting = sorted(self._awaited, key=lambda order: self._awaited[order][0].committed_us)
        return waiting[:most]

    def seen(self, shown: Iterable[tuple[int, int]], at_us: int) -> None:
        """Search showed these (order, row) at `at_us`."""
        with self._lock:
            for order_id, row_id in shown:
                rows = self._awaited.get(order_id, [])
                self._seconds.extend(max(0, at_us - r.committed_us) / 1e6 for r in rows if r.row_id <= row_id)
                left = [r for r in rows if r.row_id > row_id]
                if left:
                    self._awaited[order_id] = left
                else:
                    self._awaited.pop(order_id, None)

    def seconds(self) -> list[float]:
        """All latencies so far, in the order in which they were seen."""
        with self._lock:
            return list(self._seconds)

    def waiting(self) -> int:
        """Rows not seen yet."""
        with self._lock:
            return sum(map(len, self._awaited.values()))


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least `share` (0..1] of `values` do not exceed; None without values."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
