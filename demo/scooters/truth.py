"""Derives what an offline detector has to say from what the fleet knows of itself; nothing here is the detector's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from demo.scooters.plan import TIMEOUT_US, Silence

__all__ = ["Known", "statuses"]


class Known(NamedTuple):
    """A scooter's status from `at` on; its last track before that was at `last_seen`, both µs."""

    device: str
    at: int
    status: str
    last_seen: int


def statuses(silences: Iterable[Silence], until_us: int) -> set[Known]:
    """All statuses up to a time: offline once a silence has lasted for the timeout, online with the track behind it.

    A track just when the timeout ends keeps its scooter online.
    """
    known = set()
    for device, last, following in silences:
        if following is None or following - last > TIMEOUT_US:
            known.add(Known(device, last + TIMEOUT_US, "offline", last))
            if following is not None:
                known.add(Known(device, following, "online", last))
    return {each for each in known if each.at <= until_us}
