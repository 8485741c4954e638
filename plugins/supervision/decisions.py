"""Decides for operator and trigger, as functions of what they see. No Airflow, no files, no clock.

A generation is one start of an application, named by its token. An application that ended because somebody asked is
started again by a task that still wants it: a clear may let the new try meet the application that the old one's trigger
is just about to stop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from include.incidents.supervision import is_crash
from supervision.budget import CrashLoop
from supervision.guardian import EXITS_KEPT
from supervision.processes import HostBoot
from supervision.run_folder import ObservedFolder

__all__ = [
    "ONE_HOST",
    "AwaitEnd",
    "Event",
    "FailTry",
    "Finish",
    "GiveUp",
    "HandOver",
    "Keep",
    "Launch",
    "LaunchedGeneration",
    "OnAnotherHost",
    "Reconnect",
    "Refuse",
    "Restarts",
    "RunState",
    "StartAgain",
    "Watcher",
    "What",
    "elsewhere",
    "incidents",
    "is_down",
    "on_event",
    "on_keep",
    "on_poll",
    "on_start",
    "restarts_to_tell",
    "untold",
    "was_cleaned_away",
]

ONE_HOST = "Let Airflow's workers and triggerer run on one host: docs/production.md. Then clear the task."
"""What to do about a stream that meets two hosts."""
_TOLD_EVERY_US: Final = 3_600_000_000
_TOLD_OF_US: Final = 86_400_000_000
_UNSTARTED: Final = "killed while it waited"
# Of tasks in Airflow: "" is one that is not scheduled yet.
_TO_BEGIN: Final = frozenset({"", "scheduled", "queued", "up_for_retry"})
_OVER: Final = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
# Sooner nobody knows whether the restart has helped.
_RUNS_AFTER_US: Final = 60_000_000

What = Literal["exited", "stalled", "replaced", "due", "undrained", "elsewhere"]
"""Why a trigger fires: the generation ended; it reports nothing any more; another one runs; it runs well, and its run
in Airflow is old enough to be followed by a new one; it was to end, and did not in time; it was started on another
host, where this trigger cannot watch it."""
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
    """It has to end before another one starts.

    Attributes:
        token: the generation that drains, for a trigger to await; None: a guardian is about to say who it is, which
            takes a moment.
    """

    token: str | None = None


@dataclass(frozen=True)
class Refuse:
    """Another run holds the application."""

    owner: str


@dataclass(frozen=True)
class OnAnotherHost:
    """It may live on another host, whose processes and locks nobody sees here.

    Attributes:
        host: that one.
        until_us: nothing of it lives after that, unless its lease is renewed meanwhile.
    """

    host: str
    until_us: int


@dataclass(frozen=True)
class LaunchedGeneration:
    """The generation that a task has launched last and not seen ending; kept with the task, beside all run folders.

    Attributes:
        token: the generation.
        place: where.
        lives_on_s: see `Run`.
        until_us: set when it was first refused for being elsewhere: from then on nobody renews its lease.
    """

    token: str
    place: HostBoot
    lives_on_s: float
    until_us: int | None = None


@dataclass(frozen=True)
class Event:
    """A trigger's message to the task.

    Attributes:
        what: see `What`.
        token: the generation that it watched.
        rc: exit status; None when nobody was left to say it.
        why: what made it end, see `GenerationEnd`; or that its guardian was killed before it had started it.
        problem: for a person, where there is more to say.
        incidents: what the application reports and the trigger could not tell, as progress.json has it.
        gave_up: see `GenerationEnd`.
        awaited: its end was only waited for, so that another one starts, however it has ended.
    """

    what: What
    token: str
    rc: int | None = None
    why: str | None = None
    problem: str | None = None
    incidents: list[dict[str, Any]] = field(default_factory=list)
    gave_up: dict[str, Any] | None = None
    awaited: bool = False


@dataclass(frozen=True)
class FailTry:
    """Fail this try: the next one may find it otherwise."""

    because: str


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
class Restarts:
    """Crashes of an application that runs again.

    Attributes:
        count: how many were not told yet.
        more: that there were more, of which nothing is kept any more.
        last: how the newest generation of these ended, as `exits.json` has it.
    """

    count: int
    more: bool
    last: Mapping[str, Any]


@dataclass(frozen=True)
class StartAgain:
    """Start a new generation.

    Attributes:
        because: for the log and the error.
        spends: whether the restart budget pays for it.
        stop_first: the old generation still runs, without progress.
        waits_on: the old one was to start later, and never did; what is left of its time is waited first.
    """

    because: str
    spends: bool
    stop_first: bool = False
    waits_on: bool = False


@dataclass(frozen=True)
class Watcher:
    """The task that watches an application; kept with it in Airflow's database, from which both go together.

    Attributes:
        task: its id there. Each try has another one.
        try_number: of it.
    """

    task: str
    try_number: int


def on_start(
    seen: ObservedFolder, owner: str, *, here: HostBoot, now_us: int, launched: LaunchedGeneration | None = None
) -> Launch | Reconnect | AwaitEnd | Refuse | OnAnotherHost:
    """Decides what a task that wants its application running does next.

    A free lock says that the application is dead only on the host that the lock is of. What was started on another one
    is taken for alive until its guardian there must have ended it: without a renewal of the lease it does.

    Args:
        seen: the folder now.
        owner: the task.
        here: where this is asked, and a launch would be.
        now_us: wall clock.
        launched: what the task itself knows; hosts may not share their run folders.
    """
    run = seen.run
    if run is not None and run.place.is_elsewhere(here):
        until_us = seen.leased_us + round(run.lives_on_s * 1_000_000)
        ended = seen.ended is not None and seen.ended.token == run.token
        if seen.held or (not ended and now_us < until_us):
            return OnAnotherHost(run.place.host, until_us)
    if not seen.held:
        return _unless_elsewhere(seen, launched, here, now_us)
    if seen.run is None:
        return AwaitEnd()
    if seen.stop:
        return AwaitEnd(seen.run.token)
    if seen.run.owner == owner:
        return Reconnect(seen.run.token)
    return Refuse(seen.run.owner)


def _unless_elsewhere(
    seen: ObservedFolder, launched: LaunchedGeneration | None, here: HostBoot, now_us: int
) -> Launch | OnAnotherHost:
    """What is to be done where nobody runs, as far as this host's folder says."""
    if launched is None or not launched.place.is_elsewhere(here):
        return Launch()
    if seen.run is not None and seen.run.token == launched.token:
        return Launch()  # the hosts share the folder, which was judged
    until_us = launched.until_us or now_us + round(launched.lives_on_s * 1_000_000)
    return OnAnotherHost(launched.place.host, until_us) if now_us < until_us else Launch()


def elsewhere(token: str, place: HostBoot, here: HostBoot) -> Event | None:
    """Decides whether a trigger may watch generation `token`, started at `place`, from here; the event if not."""
    if not place.is_elsewhere(here):
        return None
    problem = (
        f"it was started on host {place.host}, and its trigger runs on host {here.host}, which cannot watch it: "
        f"without a trigger on {place.host} it ends there by itself"
    )
    return Event("elsewhere", token, problem=problem)


def on_poll(
    seen: ObservedFolder,
    token: str,
    *,
    silent_s: float,
    stall_after_s: float,
    due: bool = False,
    end_within_s: float = 0.0,
    awaited_s: float = 0.0,
) -> Event | None:
    """Decides which event a trigger that watches generation `token` fires, if any.

    Args:
        seen: the folder now.
        token: the watched generation.
        silent_s: seconds since its progress last changed.
        stall_after_s: from when on silence is a stall.
        due: whether its run in Airflow is old enough to be followed by a new one.
        end_within_s: it was asked to end, and nothing but its end is awaited, for so long; 0: it shall run.
        awaited_s: for how long that has been awaited.
    """
    if end_within_s:
        return _on_awaiting(seen, token, end_within_s=end_within_s, awaited_s=awaited_s)
    if seen.run is None or seen.run.token != token:
        return Event("replaced", token)
    if not seen.held:
        if seen.ended is None or seen.ended.token != token:
            if seen.run.waits:
                return Event("exited", token, why=_UNSTARTED)
            return Event("exited", token, problem="its guardian was killed, and it with it")
        return Event("exited", token, seen.ended.rc, seen.ended.why, seen.ended.problem, gave_up=seen.ended.gave_up)
    # While it drains, the guardian's own deadlines hold.
    if silent_s >= stall_after_s and not seen.stop:
        return Event("stalled", token, problem=f"it made no progress for {stall_after_s:g} s")
    return Event("due", token) if due and not seen.stop else None


def _on_awaiting(seen: ObservedFolder, token: str, *, end_within_s: float, awaited_s: float) -> Event | None:
    if seen.run is None or seen.run.token != token:
        return Event("replaced", token, awaited=True)
    if not seen.held:
        return Event("exited", token, awaited=True)
    if awaited_s < end_within_s:
        return None
    return Event("undrained", token, problem=f"the old one did not end within {end_within_s:g} s", awaited=True)


def incidents(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Those of a progress report; what is no incident is passed over."""
    found = report.get("incidents")
    return [each for each in found if isinstance(each, dict) and each.get("id")] if isinstance(found, list) else []


def untold(report: Mapping[str, Any], told: Collection[str]) -> list[dict[str, Any]]:
    """Incidents of a progress report that are not among the ids `told`."""
    return [each for each in incidents(report) if each["id"] not in told]


def on_event(event: Event) -> FailTry | Finish | GiveUp | HandOver | StartAgain:
    """Decides what the task does about its trigger's event, once its incidents are told."""
    if event.what == "elsewhere":
        return GiveUp({"text": event.problem, "fix": ONE_HOST})
    if event.what == "undrained":
        return FailTry(event.problem or "the old one did not end")
    if event.awaited:
        return StartAgain("the old one has ended", spends=False)
    if event.what == "due":
        return HandOver()
    if event.what == "replaced":
        # Paid for: a folder that always names another one would start it for ever.
        return StartAgain("another generation took its place", spends=True)
    if event.what == "stalled":
        return StartAgain(event.problem or "it made no progress", spends=True, stop_first=True)
    return _on_exit(event)


def _on_exit(event: Event) -> Finish | GiveUp | StartAgain:
    if event.rc and event.gave_up:
        return GiveUp(event.gave_up)
    if event.why == _UNSTARTED:
        return StartAgain("its guardian was killed while it waited to start it", spends=False, waits_on=True)
    if event.why is not None:
        return StartAgain(f"it was made to end: {event.why}", spends=False)
    if event.rc == 0:
        return Finish()
    if event.problem is not None:
        return StartAgain(event.problem, spends=True)
    if event.rc is not None and event.rc < 0:
        return StartAgain(f"it was ended by signal {-event.rc}", spends=True)
    return StartAgain(f"it ended with status {event.rc}", spends=True)


def was_cleaned_away(mine: Watcher, kept: Watcher | None, state: str | None) -> bool | None:
    """Decides why a trigger is told to kill: its task was marked or cleared, or taken by a clean-up of the database.

    Where a clean-up leaves the run, the scheduler makes its tasks anew, which look like cleared ones but for their
    tries: these begin at 1 again.

    Args:
        mine: the task of the trigger.
        kept: who watches, as Airflow's database has it; asked before `state`. A new try deletes it as it begins.
        state: of the task that is there now; "": none yet; None: no task is there.

    Returns:
        Whether its task was cleaned away; None: whoever is there is just about to say who it is.
    """
    if state is None:
        return True
    if kept is not None:
        return kept != mine and kept.try_number <= mine.try_number
    if state in _OVER:
        return False
    return True if state in _TO_BEGIN else None


def on_keep(seen: ObservedFolder, run: RunState, *, paused: bool) -> Keep:
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
    # One that drains is left to end; then the next look starts it.
    wanted = not seen.stop if seen.held else _is_wanted(seen)
    return Keep(start=wanted and not paused, tell_paused=wanted and paused)


def is_down(seen: ObservedFolder, down: CrashLoop | None, dag: str) -> bool:
    """Decides whether an application of `dag` only waits for its next slow try, after restarts that did not help.

    Between two slow tries its lock is free, for long where its DAG is paused; it is its run's then, too, unless that
    was marked.

    Args:
        seen: its run folder.
        down: as the folder has it.
        dag: the one that keeps it running.
    """
    if seen.run is None:
        return False
    if seen.held:
        # Of a guardian that has not said who it is yet, only the last one's files are there.
        return seen.run.waits and (seen.ended is None or seen.ended.token != seen.run.token)
    return down is not None and seen.run.owner.startswith(f"{dag}|") and _is_wanted(seen)


def _is_wanted(seen: ObservedFolder) -> bool:
    """Whether who had started what is dead would start it again; as `_on_exit`, but for what somebody has ended."""
    ended = seen.ended
    if seen.run is None or ended is None or ended.token != seen.run.token:
        return True
    if ended.rc and ended.gave_up:
        return False
    # Ended as stalled or by its lease, it drained well.
    return ended.rc != 0 if ended.why is None else ended.why != "asked"


def restarts_to_tell(
    seen: ObservedFolder,
    exits: Sequence[Mapping[str, Any]],
    *,
    told: tuple[int, int],
    down: CrashLoop | None,
    ran_us: int,
    now_us: int,
) -> Restarts | None:
    """Decides whether a mail tells now that an application crashed and was started again: one an hour at most.

    Args:
        seen: its run folder.
        exits: how its earlier generations ended, the newest last.
        told: up to which end they were told, and when; 0: never.
        down: that it is down was told in a mail of its own.
        ran_us: for how long it runs, with progress.
        now_us: wall clock.
    """
    # What the clock was set back behind is forgotten: it would keep it silent until then.
    ended_us, told_us = (at if at <= now_us else 0 for at in told)
    if not seen.held or seen.stop or down is not None or now_us - told_us < _TOLD_EVERY_US or ran_us < _RUNS_AFTER_US:
        return None
    after_us = max(ended_us, now_us - _TOLD_OF_US)
    crashes = [each for each in exits if is_crash(each) and each.get("ended_us", 0) > after_us]
    more = len(exits) >= EXITS_KEPT and exits[0].get("ended_us", 0) > after_us
    return Restarts(len(crashes), more, crashes[-1]) if crashes else None
