"""Collects what the parts of the demo have to say at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from include.clock import Clock

__all__ = ["ClosePart", "PartSummary", "awaited", "together"]


@dataclass(frozen=True)
class PartSummary:
    """Lines for a person, the same as plain values, and whether all is well."""

    lines: tuple[str, ...]
    values: Mapping[str, Any]
    good: bool


ClosePart = Callable[[Clock], PartSummary]
"""Called when the shop has closed and search was compared; may block for a while; knows servers by the deployment."""


def awaited(look: Callable[[], PartSummary], clock: Clock, within_s: float, every_s: float) -> PartSummary:
    """Look until all is well, or `within_s` are over; the last look."""
    deadline_s = clock.monotonic_s() + within_s
    while not (told := look()).good and clock.monotonic_s() < deadline_s:
        clock.sleep(every_s)
    return told


def together(told: Iterable[PartSummary]) -> PartSummary:
    """All of it as one, in that order; of values of one name the last."""
    lines: list[str] = []
    values: dict[str, Any] = {}
    good = True
    for each in told:
        lines += each.lines
        values |= each.values
        good = good and each.good
    return PartSummary(tuple(lines), values, good)
