"""Capture as a process: sessions one after another until a stop request, with back-off while a server is away."""

from __future__ import annotations

import logging
import random
from typing import Final, Literal

from include.clock import Clock
from include.errors import Fenced, LyrebirdError, Restart, SettingsError, Terminal, Transient
from include.pace import Backoff, Between
from include.source.database.failover import chosen
from include.source.database.preflight import first_look, refuse, second_look
from include.source.database.server import MissingTransactions
from include.source.database.takeover import taken_over
from include.source.database.tls import unverified
from include.source.definition import SourceDefinition
from include.source.ports import CaptureLog
from include.source.reporter import Reporter
from include.source.rows.decoder import decoders_told
from include.source.session import CaptureSession
from include.source.state.job import FIRST, Job
from include.source.upstream import LiveServer

__all__ = ["Capture", "RunMode"]

log = logging.getLogger(__name__)

RunMode = Literal["stream", "snapshot", "anew"]
"""stream: replicate until asked to stop; snapshot: read the tables once, or some of them again; anew: read all tables
from now on, whatever was captured before (after a purged binlog)."""

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 5.0
# Each try reads the large transaction from the server again.
_LONGEST_PAUSE_ON_DISK_S: Final = 60.0
# A capture that never reached its servers says so and ends; one that did waits for them as long as it takes.
_FIRST_PATIENCE_S: Final = 60.0
# What the network or a server in the midst of its start spoilt is whole at the next look; what is not ends capture.
_LOOKS_AGAIN: Final = 3
_LOOKS_WITHIN_S: Final = 600.0


class Capture:
    """All sessions of one run; `Transient` and `Restart` begin the next one after a pause.

    So does the first `Terminal` of a stream that has begun, as what was read may have been spoilt on its way; another
    one without progress in between ends the run, `Fenced` at once. What no restart mends is told. Where another capture
    has written since the last session, a next one does not begin: it would fence that one.

    Args:
        name: the source's.
        source: as it is declared.
        capture_log: the log of this source.
        clock: for times and pauses.
        reporter: told how far capture is; tells whether it is to stop.
        patience_s: seconds for which servers are waited for that were never reached; None: a minute.
        between: gives a random number between two; makes pauses differ.
    """

    def __init__(
        self,
        name: str,
        source: SourceDefinition,
        capture_log: CaptureLog,
        clock: Clock,
        reporter: Reporter,
        *,
        patience_s: float | None = None,
        between: Between = random.uniform,  # noqa: S311 - jitter wants spread, not secrecy
    ) -> None:
        self._name, self._source, self._log, self._clock, self._reporter = name, source, capture_log, clock, reporter
        self._backoff = Backoff(_FIRST_PAUSE_S, between=between)
        self._behind_since_s: float | None = None
        self._attempt = 0
        self._patience_s = _FIRST_PATIENCE_S if patience_s is None else patience_s
        self._started_s = clock.monotonic_s()
        self._reached = self._begun = False
        self._server: SourceDefinition | None = None
        self._looks_s: list[float] = []
        self._refused = ""
        self._version = 0

    def run(self, mode: RunMode = "stream", tables: tuple[str, ...] = (), id_: str = "") -> str:
        """Run to the end; says in a few words how it ended: `stopped`, `done`, or `already done`."""
        try:
            return self._sessions(mode, tables, id_)
        except Fenced as error:
            told = taken_over(error, self._server or self._source, self._clock)
            self._reporter.on_end(told)
            raise told from error
        except Terminal as error:
            if not isinstance(error, Restart):
                self._reporter.on_end(error)
            raise

    def _sessions(self, mode: RunMode, tables: tuple[str, ...], id_: str) -> str:
        log.info("capture of %s begins, %s", self._name, decoders_told())
        for finding in unverified(self._source):
            log.warning("%s %s. %s", finding.place, finding.problem, finding.fix)
        while True:
            commits = self._reporter.commits
            try:
                return self._once(mode, tables, id_)
            except (Transient, Restart) as error:
                if self._reporter.stop_requested():
                    return "stopped"
                self._bear(error)
                if not self._reached and self._clock.monotonic_s() - self._started_s >= self._patience_s:
                    raise
                self._wait(error, lasted=self._reporter.commits > commits)
            except Terminal as error:
                lasted = self._reporter.commits > commits
                if mode != "stream" or not self._look_again(error, lasted=lasted):
                    raise
                self._wait(error, lasted=lasted)

    def _look_again(self, error: Terminal, *, lasted: bool) -> bool:
        if isinstance(error, (Fenced, SettingsError)) or self._reporter.stop_requested():
            return False
        if not self._reporter.commits:
            return False
        before, self._refused = self._refused, str(error)
        if before == self._refused or (before and not lasted):
            return False
        now_s = self._clock.monotonic_s()
        self._looks_s = [at for at in self._looks_s if now_s - at < _LOOKS_WITHIN_S]
        if len(self._looks_s) >= _LOOKS_AGAIN:
            return False
        self._looks_s.append(now_s)
        return True

    def _once(self, mode: RunMode, tables: tuple[str, ...], id_: str) -> str:
        source = self._place(mode)
        refuse(source, first_look(source))
        self._reporter.on_server(source)
        self._server = source
        if self._reached:
            self._require_ours()
        upstream = LiveServer(self._name, source, self._clock)
        session = CaptureSession(self._name, source, self._log, upstream, self._clock, self._reporter)
        self._reached = True
        try:
            if session.begun and mode == "stream" and source.policy.whole:
                # The stream finds by itself what it cannot read; only a column that must not leave may not wait.
                upstream.look(lambda: refuse(source, second_look(source)))
            else:
                refuse(source, second_look(source))
            return self._carried_out(session, mode, tables, id_)
        finally:
            self._version = session.version
            session.close()
            upstream.close()

    def _require_ours(self) -> None:
        last = self._log.newest()
        if last is not None and last.state.version > self._version:
            raise Fenced("another process has written while this one was away", source=self._name)

    def _carried_out(self, session: CaptureSession, mode: RunMode, tables: tuple[str, ...], id_: str) -> str:
        if mode == "stream":
            session.stream()
            return "stopped"
        if not session.begun or (mode == "anew" and not self._begun):
            if not session.begin(tables):
                return "stopped"
            self._begun = True
        if not session.snapshot_done:
            session.stream(until=FIRST)
        elif tables and not self._begun:
            session.stream(Job(id_, tables, gap=False, asked=True), until=id_)
        else:
            return "done" if self._begun else "already done"
        return "stopped" if self._reporter.stop_requested() else "done"

    def _place(self, mode: RunMode) -> SourceDefinition:
        """The source at the server to read from."""
        if not self._source.fallbacks:
            return self._source
        if mode == "anew":
            return chosen(self._source, None)
        last = self._log.newest()
        return chosen(self._source, last.position if last else None)

    def _bear(self, error: LyrebirdError) -> None:
        """Give up a server that stays behind what was captured from it: it has lost what it had."""
        now_s = self._clock.monotonic_s()
        if not isinstance(error, MissingTransactions):
            self._behind_since_s = None
            return
        self._behind_since_s = now_s if self._behind_since_s is None else self._behind_since_s
        if now_s - self._behind_since_s >= self._source.behind_wait_s:
            raise Terminal(
                "the server still lacks transactions that capture has",
                **{name: value for name, value in error.details.items() if name != "system"},
                fix="Let it catch up, or read everything anew: `lyrebird capture run --source … --snapshot --anew`.",
            ) from error

    def _wait(self, error: LyrebirdError, *, lasted: bool) -> None:
        if lasted:
            self._backoff.reset()
            self._attempt = 0
        self._attempt += 1
        longest_s = _LONGEST_PAUSE_ON_DISK_S if error.details.get("system") == "disk" else _LONGEST_PAUSE_S
        pause_s = self._backoff.next_s(longest_s)
        log.warning("capture of %s pauses for %.1f s: %s", self._name, pause_s, error)
        self._reporter.on_retry(error, self._attempt)
        until_s = self._clock.monotonic_s() + pause_s
        while self._clock.monotonic_s() < until_s and not self._reporter.stop_requested():
            self._clock.sleep(0.2)
