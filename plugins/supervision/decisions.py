"""Decides for operator and trigger, as functions of what they see. No Airflow, no files, no clock.

A generation is one start of an application, named by its token. An application that ended because somebody asked is
started again by a task that still wants it: a clear may let the new try meet the application that the old one's trigger
is just about to stop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from supervision.run_folder import Observed

__all__ = [
    "AwaitEnd",
    "Event",
    "Finish",
    "GiveUp",
    "HandOver",
    "Keep",
    "Launch",
    "Reconnect",
    "Refuse",
    "RunState",
    "StartAgain",
    "What",
    "incidents",
    "on_event",
    "on_keep",
    "on_poll",
    "on_start",
    "untold",
]

What = Literal["exited", "stalled", "replaced", "due"]
"""Why a trigger fires: the generation ended; it reports nothing any more; another one runs; it runs well, and its run
in Airflow is old enough to be followed by a new one."""
RunState = Literal["active", "over", "gone"]
"""Of the run in Airflow that owns an application: queued or running; ended; not in Airflow's database."""


@dataclass(frozen=True)
class Launch:
    """Nobody runs: start a new generation."""


@dataclass(frozen=True)
class Reconnect:
    """My own earlier try has left it running: go on watching that generation."""

    token: str


@dataclass(frozen=True)
class AwaitEnd:
    """It is draining, or just being started: look again in a moment."""


@dataclass(frozen=True)
class Refuse:
    """Another run holds the application."""

    owner: str


@dataclass(frozen=True)
class Event:
    """A trigger's message to the task.

    Attributes:
        what: see `What`.
        token: the generation that it watched.
        rc: exit status; None when nobody was left to say it.
        why: what made it end, see `Ended`.
        problem: for a person, where there is more to say.
        incidents: what the application reports and the trigger could not tell, as progress.json has it.
        gave_up: see `Ended`.
    """

    what: What
    token: str
    rc: int | None = None
    why: str | None = None
    problem: str | None = None
    incidents: list[dict[str, Any]] = field(default_factory=list)
    gave_up: dict[str, Any] | None = None


@dataclass(frozen=True)
class Finish:
    """The application ended by itself, well."""


@dataclass(frozen=True)
class GiveUp:
    """Fail now: a restart would meet the same, or stand in another one's way.

    Attributes:
        incident: `id`, `kind`, `text` and `fix` of what the mail tells.
    """

    incident: dict[str, Any]


@dataclass(frozen=True)
class HandOver:
    """A new run takes the application as it runs; this one ends well."""


@dataclass(frozen=True)
class Keep:
    """What the keeper does about an application.

    Attributes:
        renew_lease: it runs, and its owner is there or will be.
        start: a new run of its DAG; of one that runs, as its new owner.
        tell_paused: its DAG is paused, so that nothing of it would be mended.
    """

    renew_lease: bool = False
    start: bool = False
    tell_paused: bool = False


@dataclass(frozen=True)
class StartAgain:
    """Start a new generation.

    Attributes:
        because: for the log and the error.
        spends: whether the restart budget pays for it.
        stop_first: the old generation still runs, without progress.
    """

    because: str
    spends: bool
    stop_first: bool = False


def on_start(seen: Observed, owner: str) -> Launch | Reconnect | AwaitEnd | Refuse:
    """Decides what a task that wants its application running does next."""
    if not seen.held:
        return Launch()
    if seen.stop or seen.run is None:
        return AwaitEnd()
    if seen.run.owner == owner:
        return Reconnect(seen.run.token)
    return Refuse(seen.run.owner)


def on_poll(seen: Observed, token: str, *, silent_s: float, stall_after_s: float, due: bool = False) -> Event | None:
    """Decides which event a trigger that watches generation `token` fires, if any.

    Args:
        seen: the folder now.
        token: the watched generation.
        silent_s: seconds since its progress last changed.
        stall_after_s: from when on silence is a stall.
        due: whether its run in Airflow is old enough to be followed by a new one.
    """
    if seen.run is None or seen.run.token != token:
        return Event("replaced", token)
    if not seen.held:
        if seen.ended is None or seen.ended.token != token:
            return Event("exited", token, problem="its guardian was killed, and it with it")
        return Event("exited", token, seen.ended.rc, seen.ended.why, seen.ended.problem, gave_up=seen.ended.gave_up)
    # While it drains, the guardian's own deadlines hold.
    if silent_s >= stall_after_s and not seen.stop:
        return Event("stalled", token, problem=f"it made no progress for {stall_after_s:g} s")
    return Event("due", token) if due and not seen.stop else None


def incidents(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Those of a progress report; what is no incident is passed over."""
    found = report.get("incidents")
    return [each for each in found if isinstance(each, dict) and each.get("id")] if isinstance(found, list) else []


def untold(report: Mapping[str, Any], told: Collection[str]) -> list[dict[str, Any]]:
    """Incidents of a progress report that are not among the ids `told`."""
    return [each for each in incidents(report) if each["id"] not in told]


def on_event(event: Event) -> Finish | GiveUp | HandOver | StartAgain:
    """Decides what the task does about its trigger's event, once its incidents are told."""
    if event.what == "due":
        return HandOver()
    if event.what == "replaced":
        return StartAgain("another generation took its place", spends=False)
    if event.what == "stalled":
        return StartAgain(event.problem or "it made no progress", spends=True, stop_first=True)
    if event.rc and event.gave_up:
        return GiveUp(event.gave_up)
    if event.why is not None:
        return StartAgain(f"it was made to end: {event.why}", spends=False)
    if event.rc == 0:
        return Finish()
    if event.problem is not None:
        return StartAgain(event.problem, spends=True)
    if event.rc is not None and event.rc < 0:
        return StartAgain(f"it was ended by signal {-event.rc}", spends=True)
    return StartAgain(f"it ended with status {event.rc}", spends=True)


def on_keep(seen: Observed, run: RunState, *, paused: bool) -> Keep:
    """Decides what the keeper does about an application that a run of its DAG has started.

    A run that is over has ended it: a person who wants it stopped marks the run, and a failure was mailed. A run that
    is gone was cleaned away with its task; what it kept running shall run, unless it had ended well, or as asked.

    Args:
        seen: its run folder.
        run: its owner's.
        paused: whether its DAG is.
    """
    if run == "over" or seen.run is None:
        return Keep()
    if run == "active":
        return Keep(renew_lease=seen.held and not seen.stop, tell_paused=paused)
    if seen.held:
        # One that drains is left to end; then the next look starts it.
        wanted = not seen.stop
    else:
        wanted = seen.ended is None or not (seen.ended.why == "asked" or seen.ended.rc == 0 or seen.ended.gave_up)
        # Ended by its lease, it drained well.
        wanted = wanted or (seen.ended is not None and seen.ended.why == "lease expired")
    return Keep(start=wanted and not paused, tell_paused=wanted and paused)
