"""`StreamingOperator`: keeps one long-running application running, without holding a worker.

`execute` starts the guardian (or finds its own application still running) and defers; `resume` acts on the trigger's
event. The order of its steps, with what a crash between them leaves:

1. decide by the run folder, and by what this task has launched before (`decisions.on_start`);
2. note with the task what is launched, and launch: the guardian runs, nobody watches → a retry of this task
   reconnects, else the lease ends it;
3. defer: the trigger watches.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, DagRunTriggerException

from include.clock import SystemClock, iso
from include.errors import Terminal, Transient
from include.incidents.supervision import DOWN
from include.settings.applications import Alerts
from supervision.airflow_conf import airflow_settings
from supervision.alerts import tell
from supervision.budget import CrashLoop, RestartBudget
from supervision.decisions import (
    ONE_HOST,
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
    StartAgain,
    on_event,
    on_start,
)
from supervision.launch import application_environment, launch
from supervision.links import ApplicationLogLink
from supervision.posting import ensure_sender
from supervision.processes import HostBoot, here
from supervision.refusing import NoRetry
from supervision.run_folder import KEEPERS, RunFolder, lives_on_s, run_folder
from supervision.trigger import ApplicationTrigger
from supervision.watchers import keep_watcher

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

__all__ = ["StreamingOperator"]

_RESTARTS_KEY = "restarts_us"
_LAUNCHED_KEY = "launched"
_RENEWED = "renewed__"
_TAIL_LINES = 60
# What a mail shows of it.
_LAST_WORDS = 3
# Beside what it gets to end: SIGTERM, SIGKILL, and the last of its processes.
_ENDED_AFTER_S = 40.0
# A guardian says who it is at once.
_SAID_WITHIN_S = 10.0


class StreamingOperator(BaseOperator):
    """Runs a command as the only instance of `application` on this host, for as long as the task wants it.

    The task succeeds when the application ends by itself with status 0, and fails without another try when it says that
    no restart would help. A crash or a stall starts it again at once while the restart budget lasts; then slowly, which
    one mail tells, or, where the budget has no `then_every_s`, the try fails (Airflow's retries and mails follow). Its
    guardian waits for the next slow try, so that the application stays this run's.
    Marking the task or its run failed or successful, or clearing it, drains the application: it gets `grace_s` to end
    cleanly.

    Args:
        application: its name; names the run folder `$LYREBIRD_STATE/run/<application>` too (templated).
        argv: the command (templated). It runs in the project's folder.
        stall_after_s: without a change of its progress.json for so long, it is stopped and started again. Must
            exceed its longest batch.
        start_within_s: the same until its first report.
        grace_s: what it gets between the request to end and SIGTERM.
        lease_ttl_s: how long it may run while no triggerer watches it; longer than the outage of the triggerer that
            it shall survive.
        restarts: the budget, see `RestartBudget`.
        poll_s: seconds between the trigger's looks.
        renew_after_s: a run in Airflow that is older hands the application, as it runs, over to a new run of its DAG,
            and ends well: before a clean-up of Airflow's database takes it. 0: never.
        alerts: who is mailed about incidents that the application reports while it runs; None: only the log says.
        kwargs: those of every operator of Airflow.
    """

    template_fields: Sequence[str] = ("application", "argv")
    operator_extra_links = (ApplicationLogLink(),)
    ui_color = "#dfeee8"

    def __init__(
        self,
        *,
        application: str,
        argv: Sequence[str] = (),
        stall_after_s: float = 120.0,
        start_within_s: float = 300.0,
        grace_s: float = 60.0,
        lease_ttl_s: float = 300.0,
        restarts: RestartBudget | None = None,
        poll_s: float = 2.0,
        renew_after_s: float = 7 * 86_400.0,
        alerts: Alerts | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.argv = argv
        self.stall_after_s = stall_after_s
        self.start_within_s = start_within_s
        self.grace_s = grace_s
        self.lease_ttl_s = lease_ttl_s
        self.restarts = restarts or RestartBudget(most=5, window_s=600.0, then_every_s=600.0)
        self.poll_s = poll_s
        self.renew_after_s = renew_after_s
        self.alerts = alerts
        self._launched: str | None = None

    def command(self, names: dict[str, str]) -> list[str]:
        """The command to run; may add to `names`, its environment. Called once for each launch."""
        del names
        return list(self.argv)

    def execute(self, context: Context) -> None:
        """Start the application, or find it again, and defer."""
        self._start(context)

    def resume(self, context: Context, event: dict[str, Any], start_after_s: float = 0.0) -> None:
        """Act on the trigger's event. A worker that dies in here leaves it to the retry's `execute`.

        `start_after_s`: what its guardian shall wait, once the end is there that the trigger has awaited.
        """
        told = Event(**event)
        outcome = on_event(told)
        launched = _launched(context)
        if told.what == "exited" and launched is not None and launched.token == told.token:
            # Seen to its end, wherever it was.
            context["task_state_store"].set(_LAUNCHED_KEY, {})
        # What ends the task is in the mail of its failure.
        last = outcome.incident.get("id") if isinstance(outcome, GiveUp) else None
        # What the trigger could not tell.
        if tell(self._folder, self.alerts, [each for each in told.incidents if each["id"] != last]):
            ensure_sender()
        if isinstance(outcome, GiveUp):
            self._give_up(outcome.incident)
        if isinstance(outcome, HandOver):
            run = self._folder.observe().run
            if run is not None and run.token == told.token:
                self._hand_over(context, told.token)
            # Its folder is on another host, or it was replaced.
            self._start(context)
        if isinstance(outcome, Finish):
            self._note_down(None)
            self.log.info("%s has ended by itself, with status 0", self.application)
            return
        self.log.warning("%s: %s", self.application, outcome.because)
        if isinstance(outcome, FailTry):
            raise self._undrained(outcome.because)
        if outcome.spends:
            self._show_log()
        ends = outcome.stop_first and self._folder.ask_to_end(told.token, told.what)
        if outcome.spends:
            start_after_s = self._spend(context, outcome)
        elif outcome.waits_on:
            start_after_s = self._left_to_wait_s()
        if ends:
            self._await_end(context, told.token, start_after_s)
        self._start(context, start_after_s)

    def on_kill(self) -> None:
        """This try was ended between launch and deferral: drain what it has launched."""
        if self._launched is not None:
            self._folder.ask_to_end(self._launched)

    @property
    def _folder(self) -> RunFolder:
        return run_folder(self.application)

    def _start(self, context: Context, start_after_s: float = 0.0) -> NoReturn:
        """Launch or reconnect, then defer: returns only by raising."""
        owner = _owner(context)
        clock = SystemClock()
        deadline = clock.monotonic_s() + _SAID_WITHIN_S
        while clock.monotonic_s() < deadline:
            launched = _launched(context)
            decision = on_start(self._folder.observe(), owner, here=here(), now_us=clock.now_us(), launched=launched)
            if isinstance(decision, Reconnect):
                if launched is not None and launched.until_us is not None:
                    # Its lease is renewed again: what another host reckoned before holds no more.
                    _note_launched(context, replace(launched, until_us=None))
                self.log.info("%s still runs: watching generation %s", self.application, decision.token)
                self._defer(context, decision.token)
            if isinstance(decision, Launch):
                self._require_own_folder(context, owner)
                token = self._launch(context, owner, start_after_s)
                if token is not None:
                    self._defer(context, token)
            elif isinstance(decision, OnAnotherHost):
                self._refuse_elsewhere(context, decision, launched)
            elif isinstance(decision, AwaitEnd):
                if decision.token is not None:
                    self._await_end(context, decision.token, start_after_s)
                clock.sleep(0.1)
            else:
                refused = Terminal(
                    f"{self.application} already runs",
                    owner=decision.owner,
                    fix="Let that run keep it, or mark that run failed (it drains) and clear this one.",
                )
                raise AirflowFailException(str(refused))
        raise self._undrained(f"a guardian of it has the lock and did not say who it is within {_SAID_WITHIN_S:g} s")

    def _undrained(self, problem: str) -> Transient:
        fix = f"Read {self._folder.path}/guardian.log."
        return Transient(f"{self.application}: {problem}", system=self.application, fix=fix)

    def _require_own_folder(self, context: Context, owner: str) -> None:
        """A run that takes an application over finds its folder where that runs, and nowhere else."""
        run = self._folder.observe().run
        # What it has launched once, it has launched here, or has seen ending.
        first = context["task_state_store"].get(_LAUNCHED_KEY) is None
        if first and owner.split("|")[1].startswith(_RENEWED) and (not run or run.owner != owner):
            raise NoRetry(f"{self.application} was handed over on another host than {here().host}", ONE_HOST)

    def _refuse_elsewhere(
        self, context: Context, decision: OnAnotherHost, launched: LaunchedGeneration | None
    ) -> NoReturn:
        if launched is not None and launched.until_us is None:
            _note_launched(context, replace(launched, until_us=decision.until_us))
        raise NoRetry(
            f"{self.application} may still run on host {decision.host}, and this is host {here().host}: a second one "
            f"is not started. Without a trigger there it has ended by {iso(decision.until_us)}; to have it here, clear "
            "this task after that",
            ONE_HOST,
        )

    def _launch(self, context: Context, owner: str, start_after_s: float) -> str | None:
        names = application_environment()
        argv = self.command(names)
        run = self._folder.observe().run
        if run is not None and run.owner != owner and not owner.split("|")[1].startswith(KEEPERS):
            # A person has started it anew; what was handed over has its heir as its owner.
            self._note_down(None)
        token = secrets.token_hex(8)
        self._launched = token
        _note_launched(context, LaunchedGeneration(token, here(), lives_on_s(self.lease_ttl_s, self.grace_s)))
        self.log.info("starting %s, generation %s, log %s/app.log", self.application, token, self._folder.path)
        started = launch(
            self._folder,
            argv,
            names,
            owner=owner,
            token=token,
            grace_s=self.grace_s,
            lease_ttl_s=self.lease_ttl_s,
            clock=SystemClock(),
            start_after_s=start_after_s,
        )
        return token if started else None

    def _hand_over(self, context: Context, token: str) -> NoReturn:
        """End well, with a new run that watches what runs.

        1. the new run is noted as the owner: crashing here, the keeper starts another, as this one is not there;
        2. Airflow makes the new run, and this task ends. With one active run at a time it begins behind this one.
        """
        dag, _, task, index = _owner(context).split("|")
        run = f"{_RENEWED}{iso(SystemClock().now_us())}"
        self._folder.hand_over(token, f"{dag}|{run}|{task}|{index}")
        self.log.info("%s runs on under run %s", self.application, run)
        raise DagRunTriggerException(
            trigger_dag_id=dag,
            dag_run_id=run,
            conf=dict(context["dag_run"].conf or {}),
            reset_dag_run=False,
            skip_when_already_exists=False,
            wait_for_completion=False,
            allowed_states=[],
            failed_states=[],
            poke_interval=60,
            deferrable=False,
        )

    def _renew_at_us(self, context: Context) -> int:
        dag_run = context.get("dag_run")
        begun = getattr(dag_run, "start_date", None) if self.renew_after_s else None
        return round((begun.timestamp() + self.renew_after_s) * 1e6) if begun is not None else 0

    def _await_end(self, context: Context, token: str, start_after_s: float) -> NoReturn:
        """Defer until a generation that was asked to end has ended, or its guardian must have failed at it."""
        self.log.info("generation %s of %s drains: waiting for its end", token, self.application)
        self._defer(context, token, end_within_s=self.grace_s + _ENDED_AFTER_S, start_after_s=start_after_s)

    def _defer(
        self, context: Context, token: str, *, end_within_s: float = 0.0, start_after_s: float = 0.0
    ) -> NoReturn:
        if not end_within_s:
            self._folder.touch_lease()
        keep_watcher(context["ti"])
        run = self._folder.observe().run
        run_place = run.place if run is not None else HostBoot()
        self.defer(
            trigger=ApplicationTrigger(
                folder=str(self._folder.path),
                token=token,
                not_before_us=SystemClock().now_us() + round(airflow_settings().hold_events_s * 1_000_000),
                poll_s=self.poll_s,
                stall_after_s=self.stall_after_s,
                start_within_s=self.start_within_s,
                host=run_place.host,
                boot_id=run_place.boot_id,
                alerts=self.alerts.model_dump(by_alias=True) if self.alerts is not None else None,
                renew_at_us=self._renew_at_us(context),
                end_within_s=end_within_s,
            ),
            method_name="resume",
            kwargs={"start_after_s": start_after_s} if start_after_s else None,
        )

    def _spend(self, context: Context, outcome: StartAgain) -> float:
        """Returns after how many seconds it is to be started again; or fails the try."""
        store, folder, now_us = context["task_state_store"], self._folder, SystemClock().now_us()
        kept = store.get(_RESTARTS_KEY, [])
        history = [at for at in kept if isinstance(at, int)] if isinstance(kept, list) else []
        before, incident = folder.down()
        ran_us, run = folder.ran_us(), folder.observe().run
        # No stall and no start that hangs lasts longer: the rest is Airflow's, which was away.
        most_s = max(self.stall_after_s, self.start_within_s) + self.grace_s + _ENDED_AFTER_S
        idle_us = now_us - ran_us - (run.started_us if run is not None else now_us)
        idle_us = min(max(0, idle_us), round(most_s * 1_000_000))
        restart = self.restarts.after_crash(history, now_us, down=before, ran_us=ran_us, idle_us=idle_us)
        store.set(_RESTARTS_KEY, list(restart.history))
        last_words = " / ".join(folder.log_tail(_LAST_WORDS))
        if restart.at_us is None:
            raise Transient(
                f"{self.application}: {outcome.because}, and {len(restart.history)} restarts did not help",
                last_words=last_words,
                fix=f"Read the end of its log above, or {folder.path}/app.log.",
            )
        down = restart.down
        if down is None:
            self._note_down(None)
            self.log.info("restart %d of %d", len(restart.history), self.restarts.most)
            return 0.0
        if before is None or before.since_us != down.since_us:
            incident = self._down(down, outcome.because, last_words)
        self._note_down(down, incident)
        if tell(folder, self.alerts, [incident] if incident else []):
            ensure_sender()
        self.log.warning("%s is down: it is tried again at %s", self.application, iso(down.next_us))
        return (down.next_us - now_us) / 1_000_000

    def _left_to_wait_s(self) -> float:
        down, _ = self._folder.down()
        left_s = 0.0 if down is None else (down.next_us - SystemClock().now_us()) / 1_000_000
        # A wall clock that was set back must not hold it for ever.
        return min(max(left_s, 0.0), self.restarts.then_every_s or 0.0)

    def _down(self, down: CrashLoop, because: str, last_words: str) -> dict[str, Any]:
        every_s, budget = self.restarts.then_every_s, self.restarts
        names = {"application": self.application, "because": because, "last_words": last_words or "none"}
        return DOWN.incident(f"{DOWN.name}:{down.since_us}", **names, most=budget.most, every_s=every_s).to_json()

    def _note_down(self, down: CrashLoop | None, incident: dict[str, Any] | None = None) -> None:
        try:
            self._folder.note_down(down, incident)
        except OSError:
            self.log.exception("whether %s is down could not be written", self.application)

    def _give_up(self, incident: dict[str, Any]) -> NoReturn:
        self._note_down(None)
        self._show_log()
        text, fix = str(incident.get("text") or "it gave up without a word"), str(incident.get("fix") or "")
        if "id" not in incident:
            raise NoRetry(text, fix)
        # A run on a schedule may meet what one before it has met: the mail of that one is enough.
        folder, id_ = self._folder, str(incident["id"])
        raise NoRetry(text, fix, told=id_ in folder.told(), on_mailed=partial(folder.remember_told, id_))

    def _show_log(self) -> None:
        tail = self._folder.log_tail(_TAIL_LINES)
        self.log.error("the last %d lines of %s/app.log:\n%s", len(tail), self._folder.path, "\n".join(tail))


def _launched(context: Context) -> LaunchedGeneration | None:
    kept = context["task_state_store"].get(_LAUNCHED_KEY)
    if not isinstance(kept, dict) or not kept:
        return None
    return LaunchedGeneration(**{**kept, "place": HostBoot(**kept["place"])})  # type: ignore[arg-type]


def _note_launched(context: Context, launched: LaunchedGeneration) -> None:
    context["task_state_store"].set(_LAUNCHED_KEY, asdict(launched))


def _owner(context: Context) -> str:
    ti = context["ti"]
    return f"{ti.dag_id}|{ti.run_id}|{ti.task_id}|{ti.map_index}"
