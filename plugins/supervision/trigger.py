"""The trigger: watches one generation of an application from the triggerer, and keeps its lease fresh.

It relays progress and the application's log to the task's log. It holds no slot and no process; a triggerer that is
restarted or replaced goes on where the last one was. What it decides is `decisions.on_poll`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from include.clock import SystemClock
from supervision.decisions import Event, on_poll, untold
from supervision.posting import ensure_sender_async
from supervision.run_folder import RunFolder

__all__ = ["ApplicationTrigger"]


class ApplicationTrigger(BaseTrigger):
    """Fires once: when generation `token` has exited, was replaced, makes no progress or has incidents to tell.

    Args:
        folder: the run folder.
        token: the generation.
        not_before_us: wall clock before which no event is fired: one that fires while the deferral is still being
            booked makes the scheduler fail the task (apache/airflow #72716, #71580).
        poll_s: seconds between looks; each renews the lease.
        stall_after_s: seconds without a change of progress.json; the count starts anew with the trigger.
        start_within_s: seconds until the first report of all; a busy machine starts slowly.
        log_every_s: seconds between progress lines in the task's log.
        tell_after_us: wall clock before which no incident is told: after a mail that did not go out.
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
        tell_after_us: int = 0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.folder = folder
        self.token = token
        self.not_before_us = not_before_us
        self.poll_s = poll_s
        self.stall_after_s = stall_after_s
        self.start_within_s = start_within_s
        self.log_every_s = log_every_s
        self.tell_after_us = tell_after_us

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Everything that another triggerer needs to go on."""
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
                "tell_after_us": self.tell_after_us,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until there is something to tell."""
        clock = SystemClock()
        folder = RunFolder(Path(self.folder))
        changed_s = said_s = clock.monotonic_s()
        last = 0
        log_offset = self._log_start(folder, clock)
        while True:
            seen = folder.observe()
            stamp, report = folder.progress()
            now_s = clock.monotonic_s()
            if stamp != last:
                last, changed_s = stamp, now_s
            limit_s = self.stall_after_s if stamp else self.start_within_s
            event = on_poll(seen, self.token, silent_s=now_s - changed_s, stall_after_s=limit_s)
            news = untold(report, folder.told())
            if event is None and clock.now_us() >= self.tell_after_us:
                # What it is about to end with is told once, as its end; a stall tells it where the end does not come.
                ends_with = folder.gave_up().get("id")
                if lasting := [each for each in news if each["id"] != ends_with]:
                    event, news = Event("noticed", self.token), lasting
            if event is not None:
                event = replace(event, incidents=news)
                early_s = (self.not_before_us - clock.now_us()) / 1_000_000
                # Bounded: a wall clock that was set back must not hold the event for ever.
                await asyncio.sleep(min(max(early_s, 0.0), 10.0))
                yield TriggerEvent(asdict(event))  # type: ignore[no-untyped-call]
                return
            folder.touch_lease()
            if now_s - said_s >= self.log_every_s:
                said_s = now_s
                await ensure_sender_async()
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

    def _log_start(self, folder: RunFolder, clock: SystemClock) -> int:
        """From where to relay the application's log: its start, or for a trigger that takes over, its present end."""
        run = folder.observe().run
        if run is not None and clock.now_us() - run.started_us < self.log_every_s * 1_000_000:
            return 0
        return folder.log_size()

    async def on_kill(self) -> None:
        """Somebody marked or cleared the task: let the guardian drain this generation, and no other.

        Returns at once; the guardian escalates. Never called on a triggerer's shutdown, and `cleanup` stops nothing.
        """
        if RunFolder(Path(self.folder)).ask_to_end(self.token):
            self.log.info("asked generation %s to end", self.token)
