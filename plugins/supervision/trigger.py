"""The trigger: watches one generation of an application from the triggerer, and keeps its lease fresh.

It relays progress and the application's log to the task's log, and mails incidents: an application that runs on needs
no task for that, so neither a paused DAG nor a lack of slots lets its lease run out. It holds no slot and no process; a
triggerer that is restarted or replaced goes on where the last one was. What it decides is `decisions.on_poll`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from include.clock import SystemClock
from include.settings.applications import Alerts
from supervision.alerts import tell
from supervision.decisions import Event, GiveUp, elsewhere, on_event, on_poll, untold
from supervision.posting import ensure_sender_async
from supervision.processes import HostBoot, here
from supervision.run_folder import RunFolder
from supervision.watchers import is_cleaned_away

__all__ = ["ApplicationTrigger"]

# More than any hold of a fit configuration, see AirflowSettings.
_LONGEST_HOLD_S = 30.0
# After a mail that the disk did not take.
_TELL_AGAIN_S = 60.0
# A task that has begun defers within seconds, on a busy machine within a minute.
_SAID_WITHIN_S = 120.0


# The event loop itself keeps no task alive.
_ENDING: set[asyncio.Future[None]] = set()


class ApplicationTrigger(BaseTrigger):
    """Fires once: when generation `token` has exited, was replaced, makes no progress or is due for a new run.

    Or it waits for the end of a generation that was asked to end, so that no task has to.

    Args:
        folder: the run folder.
        token: the generation.
        not_before_us: wall clock before which no event is fired: one that fires while the deferral is still being
            booked makes the scheduler fail the task (apache/airflow #72716, #71580).
        poll_s: seconds between looks; each renews the lease.
        stall_after_s: seconds without a change of progress.json while its disk has room; the count starts anew with
            the trigger.
        start_within_s: seconds until the first report of all; a busy machine starts slowly.
        log_every_s: seconds between progress lines in the task's log.
        host: where the generation was started; "" and the next: not known, by an older version.
        boot_id: the start of that host's kernel.
        renew_at_us: wall clock from which on a new run shall take over; 0: never.
        alerts: section `alerts`: who is mailed about incidents; None: only the log says.
        end_within_s: seconds that its end is awaited, see `on_poll`; the count starts anew with the trigger.
    """

    def __init__(
        self,
        folder: str,
        token: str,
        not_before_us: int,
        poll_s: float,
        stall_after_s: float,
        start_within_s: float = 300.0,
        log_every_s: float = 30.0,
        host: str = "",
        boot_id: str = "",
        alerts: dict[str, Any] | None = None,
        renew_at_us: int = 0,
        end_within_s: float = 0.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.folder = folder
        self.token = token
        self.not_before_us = not_before_us
        self.poll_s = poll_s
        self.stall_after_s = stall_after_s
        self.start_within_s = start_within_s
        self.log_every_s = log_every_s
        self.host = host
        self.boot_id = boot_id
        self.alerts = alerts
        self.renew_at_us = renew_at_us
        self.end_within_s = end_within_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Everything that another triggerer needs to go on."""
        # Left out where it is not asked for: a triggerer that still has the older version knows no such argument.
        awaiting = {"end_within_s": self.end_within_s} if self.end_within_s else {}
        return (
            "supervision.trigger.ApplicationTrigger",
            {
                "folder": self.folder,
                "token": self.token,
                "not_before_us": self.not_before_us,
                "poll_s": self.poll_s,
                "stall_after_s": self.stall_after_s,
                "start_within_s": self.start_within_s,
                "log_every_s": self.log_every_s,
                "host": self.host,
                "boot_id": self.boot_id,
                "alerts": self.alerts,
                "renew_at_us": self.renew_at_us,
                **awaiting,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until there is something to tell."""
        clock = SystemClock()
        folder = RunFolder(Path(self.folder))
        begun_s = changed_s = said_s = clock.monotonic_s()
        last, tell_from_s = 0, 0.0
        log_offset = self._log_start(folder, clock)
        refusal = elsewhere(self.token, HostBoot(self.host, self.boot_id), here())
        while True:
            seen = folder.observe()
            stamp, report = folder.progress()
            now_s = clock.monotonic_s()
            if stamp != last or not folder.has_room():
                last, changed_s = stamp, now_s
            limit_s = self.stall_after_s
            if not stamp:
                limit_s = self.start_within_s + (seen.run.start_after_s if seen.run is not None else 0.0)
            due = 0 < self.renew_at_us <= clock.now_us()
            event = refusal or on_poll(
                seen,
                self.token,
                silent_s=now_s - changed_s,
                stall_after_s=limit_s,
                due=due,
                end_within_s=self.end_within_s,
                awaited_s=now_s - begun_s,
            )
            # Another host's incidents are that host's to tell.
            tells = refusal is None and (event is not None or now_s >= tell_from_s)
            if tells and not await self._tell(folder, report, event):
                tell_from_s = now_s + _TELL_AGAIN_S
            if event is not None:
                if refusal is None:
                    event = replace(event, incidents=untold(report, folder.told()))
                early_s = (self.not_before_us - clock.now_us()) / 1_000_000
                # Bounded: a wall clock that was set back must not hold the event for ever.
                await asyncio.sleep(min(max(early_s, 0.0), _LONGEST_HOLD_S))
                yield TriggerEvent(asdict(event))  # type: ignore[no-untyped-call]
                return
            folder.touch_lease()
            if now_s - said_s >= self.log_every_s:
                said_s = now_s
                await asyncio.shield(ensure_sender_async())
                if seen.run is not None and seen.run.waits:
                    log_offset = 0
                    self.log.info("it is down: it is started %g s after its last end", seen.run.start_after_s)
                    continue
                lines, log_offset = folder.log_since(log_offset)
                if lines:
                    self.log.info("its log since then:\n%s", "\n".join(lines))
                self.log.info(
                    "running for %.0f s; progress %.0f s ago: %s",
                    (clock.now_us() - (seen.run.started_us if seen.run else clock.now_us())) / 1_000_000,
                    now_s - changed_s,
                    " ".join(f"{key}={value}" for key, value in report.items() if value != []) or "none yet",
                )
            await asyncio.sleep(self.poll_s)

    async def _tell(self, folder: RunFolder, report: dict[str, Any], event: Event | None) -> bool:
        """Mail what is new, but what the application ends with: its task's end is that mail. False: try later."""
        outcome = None if event is None else on_event(event)
        if isinstance(outcome, GiveUp):
            ends_with = outcome.incident.get("id")
        else:
            # A stall tells it where the end does not come.
            ends_with = folder.gave_up().get("id") if event is None else None
        news = [each for each in untold(report, folder.told()) if each["id"] != ends_with]
        if news and tell(folder, Alerts.model_validate(self.alerts) if self.alerts else None, news):
            # Airflow's look for a connection loses the message of a cancellation, which tells a kill from a shutdown.
            await asyncio.shield(ensure_sender_async())
        return not news or news[-1]["id"] in folder.told()

    def _log_start(self, folder: RunFolder, clock: SystemClock) -> int:
        """From where to relay the application's log: its start, or for a trigger that takes over, its present end."""
        run = folder.observe().run
        if run is not None and clock.now_us() - run.started_us < self.log_every_s * 1_000_000:
            return 0
        return folder.log_size()

    async def on_kill(self) -> None:
        """Somebody marked or cleared the task: let the guardian drain this generation, and no other.

        Where a clean-up of Airflow's database has taken the task of a stream or capture, the application runs on: the
        keeper gives it a new run, or the scheduler makes the task anew where the run was left. The guardian escalates.
        Never called on a triggerer's shutdown, and `cleanup` stops nothing.
        """
        ending = asyncio.ensure_future(self._end())
        _ENDING.add(ending)
        ending.add_done_callback(_ENDING.discard)
        # A triggerer cancels again, at its next look, what has not ended by then.
        await asyncio.shield(ending)

    async def _end(self) -> None:
        clock = SystemClock()
        deadline = clock.monotonic_s() + _SAID_WITHIN_S
        look = sync_to_async(is_cleaned_away)
        while (cleaned_away := await look(self.task_instance)) is None and clock.monotonic_s() < deadline:
            await asyncio.sleep(1.0)
        if cleaned_away:
            self.log.info("its run was cleaned away: generation %s runs on", self.token)
        elif RunFolder(Path(self.folder)).ask_to_end(self.token):
            self.log.info("asked generation %s to end", self.token)
