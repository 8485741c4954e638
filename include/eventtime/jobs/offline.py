"""The offline detector: a device that sends nothing for a while is offline, until it sends again.

| track at | | writes |
|---|---|---|
| 17:30:15, 17:30:20, 17:30:25 | | nothing: a device's first track tells nothing new |
| | 18:00:25, 30 minutes after the last | offline at 18:00:25, last seen at 17:30:25 |
| 18:00:32 | | online at 18:00:32, last seen at 17:30:25 |

A track at the very time at which the device would be offline keeps it online.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from pydantic import Field

from include.eventtime.model.duration import Duration
from include.eventtime.model.process import Context, Element, EventTime, Process
from include.settings.deployment import Strict

__all__ = ["Offline", "OfflineSettings", "Seen", "Status"]

_SILENCE: Final = "silence"


class OfflineSettings(Strict):
    """Settings of the offline detector."""

    timeout: Duration = Field(default=1_800_000_000, gt=0, description="silence after which a device is offline")


@dataclass
class Seen:
    """What is known of a device."""

    at: EventTime | None = None
    offline: bool = False


@dataclass
class Status:
    """What a device is since `at`; `last_seen`: its last track before that."""

    device: str
    status: Literal["offline", "online"]
    at: EventTime
    last_seen: EventTime


class Offline(Process[Seen]):
    """Writes each status to two outputs: `status` is to be a compacted topic, `events` one that keeps all."""

    state = Seen
    settings_type = OfflineSettings
    outputs: ClassVar = {"status": Status, "events": Status}

    def on_element(self, element: Element, ctx: Context[Seen]) -> None:
        """A track."""
        seen = ctx.state
        if seen.offline and seen.at is not None:
            self._tell(ctx, "online", seen.at)
        seen.at, seen.offline = element.time, False
        ctx.set_timer(_SILENCE, element.time + self.settings.timeout)

    def on_timer(self, name: str, time: int, ctx: Context[Seen]) -> None:
        """No track since the last one."""
        if ctx.state.at is not None:
            ctx.state.offline = True
            self._tell(ctx, "offline", ctx.state.at)

    def _tell(self, ctx: Context[Seen], status: Literal["offline", "online"], last_seen: int) -> None:
        told = Status(str(ctx.key), status, ctx.time, last_seen)
        ctx.emit("status", told)
        ctx.emit("events", told)
