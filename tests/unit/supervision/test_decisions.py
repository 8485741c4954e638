"""What operator and trigger decide about what they see."""

from __future__ import annotations

from typing import Any

import pytest

from supervision.budget import CrashLoop
from supervision.decisions import (
    AwaitEnd,
    Event,
    FailTry,
    Finish,
    GiveUp,
    HandOver,
    Launch,
    LaunchedGeneration,
    OnAnotherHost,
    Reconnect,
    Refuse,
    Restarts,
    StartAgain,
    Watcher,
    elsewhere,
    is_down,
    on_event,
    on_poll,
    restarts_to_tell,
    untold,
    was_cleaned_away,
)
from supervision.decisions import (
    on_start as decided_at_start,
)
from supervision.processes import HostBoot
from supervision.run_folder import GenerationEnd, ObservedFolder, Run

ME, OTHER = "dag|run|task|-1", "dag|other|task|-1"
HERE, THERE = HostBoot("a", "boot-1"), HostBoot("b", "boot-7")
LEASED_US, LIVES_ON_S = 1_000_000_000, 680.0
OVER_US = LEASED_US + 680_000_000


def on_start(
    view: ObservedFolder, owner: str, *, now_us: int = LEASED_US, launched: LaunchedGeneration | None = None
) -> Launch | Reconnect | AwaitEnd | Refuse | OnAnotherHost:
    return decided_at_start(view, owner, here=HERE, now_us=now_us, launched=launched)


def seen(
    *,
    held: bool = True,
    stop: bool = False,
    token: str | None = "t1",
    owner: str = ME,
    ended: GenerationEnd | None = None,
    place: HostBoot = HERE,
) -> ObservedFolder:
    run = (
        Run(token, owner, guardian_pid=10, pid=11, started_us=0, place=place, lives_on_s=LIVES_ON_S) if token else None
    )
    return ObservedFolder(held=held, stop=stop, run=run, ended=ended, leased_us=LEASED_US)


def test_a_free_lock_is_launched_upon_whatever_the_files_say() -> None:
    for owner in (ME, OTHER):
        for stop in (False, True):
            assert on_start(seen(held=False, owner=owner, stop=stop), ME) == Launch()


def test_my_own_application_is_reconnected_to() -> None:
    assert on_start(seen(), ME) == Reconnect("t1")


def test_another_runs_application_is_refused_by_its_name() -> None:
    assert on_start(seen(owner=OTHER), ME) == Refuse(OTHER)


def test_a_draining_application_is_waited_for_even_if_it_is_mine() -> None:
    assert on_start(seen(stop=True), ME) == AwaitEnd("t1")
    assert on_start(seen(stop=True, owner=OTHER), ME) == AwaitEnd("t1")


def test_a_guardian_that_has_not_said_who_it_is_is_waited_for() -> None:
    assert on_start(seen(token=None), ME) == AwaitEnd()


@pytest.mark.parametrize("held", [False, True])
def test_what_may_live_on_another_host_is_refused_by_that_host_s_name(held: bool) -> None:
    assert on_start(seen(held=held, place=THERE), ME) == OnAnotherHost("b", OVER_US)
    assert on_start(seen(held=held, place=THERE), ME, now_us=OVER_US - 1) == OnAnotherHost("b", OVER_US)


def test_what_ended_on_another_host_or_ran_out_of_its_lease_there_is_started_here() -> None:
    assert on_start(seen(held=False, place=THERE, ended=GenerationEnd("t1", 0, "asked", None)), ME) == Launch()
    assert on_start(seen(held=False, place=THERE), ME, now_us=OVER_US) == Launch()
    # The end of an earlier generation says nothing of this one.
    assert on_start(seen(held=False, place=THERE, ended=GenerationEnd("t0", 0, None, None)), ME) == OnAnotherHost(
        "b", OVER_US
    )


@pytest.mark.parametrize("place", [HostBoot("a", "boot-2"), HostBoot("container-9", "boot-1"), HostBoot()])
def test_a_restarted_host_another_container_of_it_and_an_old_run_json_are_this_host(place: HostBoot) -> None:
    assert on_start(seen(held=False, place=place), ME) == Launch()
    assert on_start(seen(place=place), ME) == Reconnect("t1")


def test_hosts_that_do_not_share_their_folders_are_told_apart_by_what_the_task_keeps() -> None:
    launched = LaunchedGeneration("t1", THERE, LIVES_ON_S)
    empty = seen(held=False, token=None)
    refused = on_start(empty, ME, launched=launched)
    assert refused == OnAnotherHost("b", OVER_US)
    # From its first refusal on nobody renews the lease there, so that it ends by a known time.
    again = LaunchedGeneration("t1", THERE, LIVES_ON_S, until_us=OVER_US)
    assert on_start(empty, ME, now_us=OVER_US - 1, launched=again) == OnAnotherHost("b", OVER_US)
    assert on_start(empty, ME, now_us=OVER_US, launched=again) == Launch()
    assert on_start(empty, ME, launched=LaunchedGeneration("t1", HERE, LIVES_ON_S)) == Launch()
    assert on_start(seen(token="t2", held=False), ME, launched=launched) == OnAnotherHost("b", OVER_US)


def test_a_trigger_on_another_host_is_a_refusal_that_ends_the_task() -> None:
    event = elsewhere("t1", THERE, HERE)
    assert event is not None
    assert event.what == "elsewhere"
    outcome = on_event(event)
    assert isinstance(outcome, GiveUp)
    assert "host b" in outcome.incident["text"]
    assert "host a" in outcome.incident["text"]
    assert elsewhere("t1", HERE, HERE) is None
    assert elsewhere("t1", HostBoot(), HERE) is None


def poll(view: ObservedFolder, silent_s: float = 0) -> Event | None:
    return on_poll(view, "t1", silent_s=silent_s, stall_after_s=60)


def test_a_running_application_fires_nothing() -> None:
    assert poll(seen(), silent_s=59) is None


def test_silence_is_a_stall_but_not_while_it_drains() -> None:
    assert poll(seen(), silent_s=60) == Event("stalled", "t1", problem="it made no progress for 60 s")
    assert poll(seen(stop=True), silent_s=600) is None


def await_end(view: ObservedFolder, awaited_s: float = 0) -> Event | None:
    return on_poll(view, "t1", silent_s=600, stall_after_s=60, due=True, end_within_s=100, awaited_s=awaited_s)


def test_of_one_that_was_asked_to_end_nothing_but_its_end_is_awaited() -> None:
    for stop in (False, True):
        assert await_end(seen(stop=stop), awaited_s=99) is None
    late = await_end(seen(stop=True), awaited_s=100)
    assert late is not None
    assert on_event(late) == FailTry("the old one did not end within 100 s")


@pytest.mark.parametrize(
    ("view", "what"),
    [
        (seen(held=False, ended=GenerationEnd("t1", 1, "asked", None, gave_up={"text": "gone"})), "exited"),
        (seen(held=False, ended=GenerationEnd("t1", 0, None, None)), "exited"),
        (seen(held=False), "exited"),
        (seen(token="t2"), "replaced"),
    ],
)
def test_however_it_ended_the_next_one_starts_without_cost(view: ObservedFolder, what: str) -> None:
    event = await_end(view, awaited_s=1000)
    assert event is not None
    assert event.what == what
    assert on_event(event) == StartAgain("the old one has ended", spends=False)


def test_one_that_runs_well_is_due_for_a_new_run_when_its_own_is_old() -> None:
    def when_due(view: ObservedFolder, silent_s: float = 0) -> Event | None:
        return on_poll(view, "t1", silent_s=silent_s, stall_after_s=60, due=True)

    assert when_due(seen()) == Event("due", "t1")
    assert when_due(seen(stop=True)) is None
    stalled, gone = when_due(seen(), silent_s=60), when_due(seen(held=False))
    assert stalled is not None
    assert gone is not None
    assert (stalled.what, gone.what) == ("stalled", "exited")
    assert on_event(Event("due", "t1")) == HandOver()


def test_an_end_is_told_with_its_status_and_reason() -> None:
    ended = GenerationEnd("t1", rc=3, why=None, problem=None)
    assert poll(seen(held=False, ended=ended)) == Event("exited", "t1", 3, None)


@pytest.mark.parametrize("ended", [None, GenerationEnd("t0", 0, None, None)])
def test_an_end_that_nobody_recorded_is_a_killed_guardian(ended: GenerationEnd | None) -> None:
    event = poll(seen(held=False, ended=ended))
    assert event is not None
    assert (event.what, event.rc) == ("exited", None)
    assert isinstance(on_event(event), StartAgain)


def test_one_whose_guardian_is_killed_while_it_waits_goes_on_waiting_without_cost() -> None:
    run = Run("t1", ME, guardian_pid=10, pid=None, started_us=0, start_after_s=600)
    killed = poll(ObservedFolder(held=False, stop=False, run=run, ended=None))
    assert killed is not None
    outcome = on_event(killed)
    assert isinstance(outcome, StartAgain)
    assert (outcome.spends, outcome.waits_on) == (False, True)
    # One that was asked to end while it waited is started at once by who still wants it.
    asked = poll(ObservedFolder(held=False, stop=False, run=run, ended=GenerationEnd("t1", 0, "asked", None)))
    assert asked is not None
    assert on_event(asked) == StartAgain("it was made to end: asked", spends=False)


def test_one_that_is_killed_after_its_slow_try_began_is_a_crash() -> None:
    run = Run("t1", ME, guardian_pid=10, pid=11, started_us=0, start_after_s=600)
    killed = poll(ObservedFolder(held=False, stop=False, run=run, ended=None))
    assert killed is not None
    assert on_event(killed) == StartAgain("its guardian was killed, and it with it", spends=True)


def downs(
    *, held: bool, pid: int | None = None, ended: GenerationEnd | None = None, owner: str = ME, noted: bool = True
) -> bool:
    run = Run("t1", owner, guardian_pid=10, pid=pid, started_us=0, start_after_s=600)
    return is_down(
        ObservedFolder(held=held, stop=False, run=run, ended=ended), CrashLoop(1, 2, 600) if noted else None, "dag"
    )


def test_what_waits_for_its_slow_try_is_down_and_what_runs_is_not() -> None:
    assert downs(held=True)
    assert not downs(held=True, pid=11)
    # Another guardian has the lock, and has not said yet who it is.
    assert not downs(held=True, ended=GenerationEnd("t1", 0, "asked", None))
    assert downs(held=True, ended=GenerationEnd("t0", 3, None, None))
    assert not is_down(ObservedFolder(held=True, stop=False, run=None, ended=None), CrashLoop(1, 2, 600), "dag")


@pytest.mark.parametrize("pid", [None, 11])
@pytest.mark.parametrize(
    ("ended", "down"),
    [
        (None, True),
        (GenerationEnd("t0", 0, "asked", None), True),
        (GenerationEnd("t1", 3, None, None), True),
        (GenerationEnd("t1", 0, "stalled", None), True),
        (GenerationEnd("t1", 0, "lease expired", None), True),
        (GenerationEnd("t1", 0, "asked", None), False),
        (GenerationEnd("t1", 0, None, None), False),
        (GenerationEnd("t1", 1, None, None, {"id": "stopped:1"}), False),
    ],
)
def test_between_two_slow_tries_it_is_down_while_its_task_wants_it(
    ended: GenerationEnd | None, down: bool, pid: int | None
) -> None:
    assert downs(held=False, pid=pid, ended=ended) == down
    assert not downs(held=False, pid=pid, ended=ended, noted=False)
    assert not downs(held=False, pid=pid, ended=ended, owner="dag2|run|task|-1")


@pytest.mark.parametrize("held", [True, False])
def test_another_generation_replaces_mine_whether_it_lives_or_not(held: bool) -> None:
    assert poll(seen(token="t2", held=held)) == Event("replaced", "t1")


def test_an_application_that_ends_well_by_itself_finishes_the_task() -> None:
    assert on_event(Event("exited", "t", 0, None)) == Finish()


@pytest.mark.parametrize("why", ["asked", "lease expired"])
def test_one_that_was_made_to_end_is_started_again_without_cost(why: str) -> None:
    outcome = on_event(Event("exited", "t", 0, why))
    assert isinstance(outcome, StartAgain)
    assert not outcome.spends
    assert not outcome.stop_first


def test_a_replaced_generation_costs_a_restart_so_that_it_is_not_replaced_for_ever() -> None:
    outcome = on_event(Event("replaced", "t"))
    assert isinstance(outcome, StartAgain)
    assert outcome.spends


def test_a_crash_costs_a_restart() -> None:
    outcome = on_event(Event("exited", "t", 3))
    assert outcome == StartAgain("it ended with status 3", spends=True)


GAVE_UP = {"id": "stopped:1", "kind": "stopped", "text": "it was purged", "fix": "lyrebird capture check"}


def test_an_application_that_gave_up_is_not_started_again() -> None:
    ended = GenerationEnd("t1", rc=1, why=None, problem=None, gave_up=GAVE_UP)
    event = poll(seen(held=False, ended=ended))
    assert event == Event("exited", "t1", 1, gave_up=GAVE_UP)
    assert on_event(event) == GiveUp(GAVE_UP)
    # Asked to end, it found that it cannot: the next one would not either.
    assert on_event(Event("exited", "t1", 1, "lease expired", gave_up=GAVE_UP)) == GiveUp(GAVE_UP)


def test_an_end_that_is_well_is_no_giving_up() -> None:
    assert on_event(Event("exited", "t1", 0, gave_up=GAVE_UP)) == Finish()


def test_a_signal_is_told_as_such() -> None:
    outcome = on_event(Event("exited", "t", -9))
    assert outcome == StartAgain("it was ended by signal 9", spends=True)


def test_a_stalled_application_is_stopped_first_and_costs_a_restart() -> None:
    outcome = on_event(Event("stalled", "t", problem="it made no progress for 60 s"))
    assert outcome == StartAgain("it made no progress for 60 s", spends=True, stop_first=True)


TOLD_NOW = {"id": "aside:t:9", "kind": "aside", "text": "t is set aside", "fix": "resume it"}


def test_only_incidents_that_nobody_was_told_are_news() -> None:
    report = {"rows": 3, "incidents": [TOLD_NOW, TOLD_NOW | {"id": "purge:1"}]}
    assert [each["id"] for each in untold(report, [])] == ["aside:t:9", "purge:1"]
    assert [each["id"] for each in untold(report, ["aside:t:9"])] == ["purge:1"]


@pytest.mark.parametrize("report", [{}, {"incidents": None}, {"incidents": 3}, {"incidents": ["x", {}, {"id": ""}]}])
def test_a_report_without_incidents_has_no_news(report: dict[str, Any]) -> None:
    assert untold(report, []) == []


S, HOUR = 1_000_000, 3_600_000_000
NOW = 100 * HOUR
KILLED = {"token": "k", "rc": -9, "why": None, "ended_us": NOW - 600 * S}
CRASHED = {"token": "c", "rc": 3, "why": None, "ended_us": NOW - 300 * S}
STALLED = {"token": "s", "rc": 0, "why": "stalled", "ended_us": NOW - 200 * S}
ASKED = {"token": "a", "rc": 0, "why": "asked", "ended_us": NOW - 100 * S}


def to_tell(
    exits: list[dict[str, Any]],
    *,
    ran_s: int = 60,
    told: tuple[int, int] = (0, 0),
    down: CrashLoop | None = None,
    held: bool = True,
    stop: bool = False,
) -> Restarts | None:
    # It was started long ago: what it has reported counts.
    run = Run("t1", ME, guardian_pid=10, pid=11, started_us=NOW - HOUR)
    view = ObservedFolder(held=held, stop=stop, run=run, ended=None)
    return restarts_to_tell(view, exits, told=told, down=down, ran_us=ran_s * S, now_us=NOW)


def test_crashes_and_standstills_that_a_restart_mended_are_told_and_ends_that_were_asked_for_are_not() -> None:
    assert to_tell([KILLED, CRASHED, STALLED, ASKED]) == Restarts(3, False, STALLED)
    rebooted = KILLED | {"rc": None, "why": "its host was restarted"}
    rebooted_once = KILLED | {"rc": None, "why": None, "problem": "its host was restarted"}
    gave_up = CRASHED | {"why": "gave up"}
    for unlike in ([ASKED], [rebooted], [rebooted_once], [gave_up], []):
        assert to_tell(unlike) is None


def test_a_restart_is_told_once_it_has_held_for_a_minute() -> None:
    assert to_tell([KILLED], ran_s=59) is None
    assert to_tell([KILLED], held=False) is None
    assert to_tell([KILLED], stop=True) is None


def test_restarts_are_told_once_an_hour_at_most_with_those_of_between() -> None:
    told_us = KILLED["ended_us"]
    assert isinstance(told_us, int)
    assert to_tell([KILLED, CRASHED, STALLED], told=(told_us, NOW - HOUR + 1)) is None
    assert to_tell([KILLED, CRASHED, STALLED], told=(told_us, NOW - HOUR)) == Restarts(2, False, STALLED)
    assert to_tell([KILLED], told=(told_us, 0)) is None


def test_ends_of_days_ago_are_no_news() -> None:
    assert to_tell([KILLED | {"ended_us": NOW - 24 * HOUR}]) is None


def test_of_what_is_down_one_mail_has_told() -> None:
    assert to_tell([KILLED, CRASHED], down=CrashLoop(since_us=0, next_us=0, well_after_s=600)) is None


def test_a_clock_that_was_set_back_keeps_no_restart_silent() -> None:
    assert to_tell([KILLED], told=(NOW + 10 * HOUR, NOW + 10 * HOUR)) == Restarts(1, False, KILLED)


def test_where_not_all_ends_are_kept_there_may_have_been_more() -> None:
    assert to_tell([KILLED] * 50) == Restarts(50, True, KILLED)
    assert to_tell([KILLED | {"ended_us": NOW - 24 * HOUR}, *[KILLED] * 49]) == Restarts(49, False, KILLED)


MINE = Watcher("mine", 2)


@pytest.mark.parametrize(
    ("kept", "state", "cleaned_away"),
    [
        (MINE, None, True),
        (None, None, True),
        (MINE, "failed", False),
        (MINE, "", False),
        (Watcher("next", 3), "deferred", False),
        (Watcher("anew", 1), "deferred", True),
        (Watcher("anew", 2), "deferred", True),
        (None, "queued", True),
        (None, "running", None),
        (None, "deferred", None),
        # Of a version that kept nothing.
        (None, "success", False),
    ],
)
def test_a_task_that_was_cleaned_away_is_told_from_one_that_was_marked_or_cleared(
    kept: Watcher | None, state: str | None, cleaned_away: bool | None
) -> None:
    assert was_cleaned_away(MINE, kept, state) is cleaned_away
