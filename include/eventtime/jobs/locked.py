"""A scooter that moves while it is locked: two topics, tracks and locks, in one order of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import Field

from include.eventtime.model.process import Context, Element, EventTime, Process
from include.settings.deployment import Strict

__all__ = ["Lock", "LockedSettings", "Moved", "MovedWhileLocked"]

_METRES_OF_A_DEGREE: Final = 111_320


class LockedSettings(Strict):
    """Settings of the alarm."""

    metres: int = Field(default=50, gt=0, description="how far a locked scooter may be from where it was locked")


@dataclass
class Lock:
    """Whether a scooter is locked, and its first place since then, in degrees."""

    locked: bool = False
    place: list[float] | None = None
    told: bool = False


@dataclass
class Moved:
    """A locked scooter is `metres` from where it was locked, along one axis at least."""

    device: str
    at: EventTime
    metres: int


class MovedWhileLocked(Process[Lock]):
    """A record with `locked` is of the locks; one with `lat` and `lon` is a track. Tells once in each lock.

    A degree counts as 111,320 m in both directions: cosines differ between hosts in their last digit, and a replay on
    another host has to give the same.
    """

    state = Lock
    settings_type = LockedSettings
    outputs: ClassVar = {"alarms": Moved}

    def on_element(self, element: Element, ctx: Context[Lock]) -> None:
        """A lock or a track."""
        value = element.value
        if "locked" in value:
            ctx.state = Lock(locked=bool(value["locked"]))
            return
        lock = ctx.state
        if not lock.locked or lock.told:
            return
        place = [float(value["lat"]), float(value["lon"])]
        if lock.place is None:
            lock.place = place
            return
        degrees = max(abs(place[0] - lock.place[0]), abs(place[1] - lock.place[1]))
        metres = round(degrees * _METRES_OF_A_DEGREE)
        if metres > self.settings.metres:
            lock.told = True
            ctx.emit("alarms", Moved(str(ctx.key), element.time, metres))
