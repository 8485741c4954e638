"""A battery that falls too fast: by so many percent within so long."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from pydantic import Field

from include.eventtime.model.duration import Duration
from include.eventtime.model.process import Context, Element, EventTime, Process
from include.settings.deployment import Strict

__all__ = ["Alarm", "Battery", "BatterySettings", "Levels"]

_FORGET: Final = "forget"


class BatterySettings(Strict):
    """Settings of the battery alarm."""

    percent: int = Field(default=20, gt=0, le=100, description="a fall of so many percent is told of")
    within: Duration = Field(default=300_000_000, gt=0, description="when it takes no longer than this")


@dataclass
class Levels:
    """The levels that were seen within the last while, as [time, percent], each higher than all that came later."""

    seen: list[list[int]] = field(default_factory=list)


@dataclass
class Alarm:
    """A battery fell to `level` from `before`, which it had at `since`."""

    device: str
    at: EventTime
    level: int
    before: int
    since: EventTime


class Battery(Process[Levels]):
    """Tells each fall once: from the level that it came to, the next one has to be as deep again."""

    state = Levels
    settings_type = BatterySettings
    outputs: ClassVar = {"alarms": Alarm}

    def on_element(self, element: Element, ctx: Context[Levels]) -> None:
        """A track; one without a level tells nothing."""
        level = element.value.get("battery")
        if type(level) is not int:
            return
        oldest = element.time - self.settings.within
        seen = [[time, before] for time, before in ctx.state.seen if time >= oldest and before > level]
        if seen and seen[0][1] - level >= self.settings.percent:
            ctx.emit("alarms", Alarm(str(ctx.key), element.time, level, seen[0][1], seen[0][0]))
            seen = []
        ctx.state.seen = [*seen, [element.time, level]]
        ctx.set_timer(_FORGET, element.time + self.settings.within + 1)

    def on_timer(self, name: str, time: int, ctx: Context[Levels]) -> None:
        """All that was seen is too old to compare with."""
        ctx.state.seen = []
