"""Sessions of a rider: tracks that follow each other within a gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import Field

from include.eventtime.model.duration import Duration
from include.eventtime.model.process import Context, Element, EventTime, Process
from include.settings.deployment import Strict

__all__ = ["Current", "Session", "SessionSettings", "Sessions"]

_END: Final = "end"


class SessionSettings(Strict):
    """Settings of the session counter."""

    gap: Duration = Field(default=600_000_000, gt=0, description="a session ends after so long without a track")


@dataclass
class Current:
    """The sessions that have begun, and the last one's tracks."""

    sessions: int = 0
    begin: EventTime = 0
    last: EventTime = 0
    tracks: int = 0


@dataclass
class Session:
    """The rider's session `number`, from 1, is over."""

    rider: str
    number: int
    begin: EventTime
    end: EventTime
    tracks: int


class Sessions(Process[Current]):
    """Writes each session when it is over; a track just when the gap ends belongs to it still."""

    state = Current
    settings_type = SessionSettings
    outputs: ClassVar = {"sessions": Session}

    def on_element(self, element: Element, ctx: Context[Current]) -> None:
        """A track."""
        current = ctx.state
        if current.tracks == 0:
            current.sessions += 1
            current.begin = element.time
        current.last = element.time
        current.tracks += 1
        ctx.set_timer(_END, element.time + self.settings.gap)

    def on_timer(self, name: str, time: int, ctx: Context[Current]) -> None:
        """The session is over."""
        current = ctx.state
        told = Session(str(ctx.key), current.sessions, current.begin, current.last, current.tracks)
        ctx.emit("sessions", told)
        current.tracks = 0
