"""The process that keeps the servers of one stack alive.

It starts every server that has a spec, and a dead one again with back-off. After several deaths in a row it gives up:
the state file, `lyrebird status` and its log say so, and it tries only every few minutes from then on, as what was in
the way may go by itself (a full disk). It also keeps logs short, and wakes a MariaDB that sleeps on after a full disk.
It stops nothing: `down` first asks it to end and then stops the servers itself from the same records, so that there is
one way down, whether a supervisor lives or not. After kill -9 the servers run on, and the next supervisor adopts them
by pid and start time.

The servers of a test run must not outlive it, also when it is killed: such a stack has an owner, and its supervisor
takes the stack down when the owner is gone.

Why parts of it are plain polling: adopted servers are not its children, so the kernel tells it nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from include.clock import Clock, SystemClock, iso
from include.local import logs, process
from include.local.full_disk import DiskWatch, free_bytes, wake
from include.local.records import Records, ServerSpec, ServerState, lock
from include.local.services import SERVICES, service
from include.local.site import read_env
from include.pace import doubled_s

__all__ = ["RestartBackoff", "Supervisor", "main"]

_TICK_S = 0.2
_UPKEEP_EVERY_S = 60.0
_AIRFLOW_LOGS_S = 30 * 86_400.0
_AFTER_GIVING_UP_S = 300.0
_PAUSE_AFTER_ERROR_S = 2.0
_LOCK_PATIENCE_S = 5.0


@dataclass
class RestartBackoff:
    """Exponential back-off over deaths in a row; times are seconds of one monotonic clock.

    A run of `stable_s` or longer forgives all earlier deaths. Why a limit: a server that dies five times at once will
    hardly live the sixth time, and a person who looks must see that at once.
    """

    limit: int = 5
    first_delay_s: float = 0.5
    longest_delay_s: float = 15.0
    stable_s: float = 60.0
    deaths: list[float] = field(default_factory=list)

    def on_death(self, now_s: float, ran_s: float) -> float | None:
        """Record a death after a run of `ran_s`; seconds to wait before the next start, None = give up: slow tries."""
        if ran_s >= self.stable_s:
            self.deaths.clear()
        self.deaths.append(now_s)
        if len(self.deaths) >= self.limit:
            return None
        return doubled_s(len(self.deaths), self.first_delay_s, self.longest_delay_s)

    @property
    def span_s(self) -> float:
        """Seconds between the first and the last death in this row."""
        return self.deaths[-1] - self.deaths[0] if self.deaths else 0.0


@dataclass
class _Ward:
    asked: str
    restarts: RestartBackoff = field(default_factory=RestartBackoff)
    next_try_s: float = 0.0
    ran_since_s: float = 0.0
    child: subprocess.Popen[bytes] | None = None


class Supervisor:
    """Reconciles servers with their specs, one `step` at a time."""

    def __init__(self, records: Records, clock: Clock, owner: process.StartedProcess | None = None) -> None:
        """`owner`: the process that the servers must not outlive."""
        self._records = records
        self._clock = clock
        self._owner = owner
        self._wards: dict[str, _Ward] = {}
        self._upkeep_s = clock.monotonic_s()
        self._disks = {row.name: DiskWatch() for row in SERVICES if row.program == "mariadb"}
        self.ended = False

    @property
    def orphaned(self) -> bool:
        """Whether there is an owner and it is gone."""
        return self._owner is not None and not process.alive(self._owner)

    def run(self) -> None:
        """Step until the stop file appears, SIGTERM comes or the owner is gone."""
        while not self.ended and not self._records.stop_file.exists() and not self.orphaned:
            try:
                self.step()
            except OSError as error:
                # A full disk must not end the supervision of servers that live; the next step tries again.
                with contextlib.suppress(OSError):
                    self._say(f"cannot write under {self._records.state}: {error}")
                self._clock.sleep(_PAUSE_AFTER_ERROR_S)
            # A folder that is gone is no reason to look after nothing else.
            with contextlib.suppress(OSError):
                self._wake()
            self._clock.sleep(_TICK_S)

    def step(self) -> None:
        """Look at every wanted server once; may start servers, never stops a live one. Now and then short logs."""
        if self._clock.monotonic_s() >= self._upkeep_s:
            self._upkeep_s = self._clock.monotonic_s() + _UPKEEP_EVERY_S
            self._upkeep()
        for name in self._records.names():
            spec = self._records.spec(name)
            if spec is not None:
                self._tend(name, spec)

    def _wake(self) -> None:
        for name, watch in self._disks.items():
            spec = self._records.spec(name)
            if spec is None or not watch.due(free_bytes(Path(spec.launch.cwd)), self._clock.monotonic_s()):
                continue
            port = self._records.stack().get("ports", {}).get(service(name).ports[0].name)
            password = read_env(self._records.state / "env").get("LYREBIRD_MYSQL_ROOT_PASSWORD")
            if port and password and (woken := wake(port, password)):
                self._say(f"{name}: woke {woken} queries that slept on, as there was no room on the disk")

    def _upkeep(self) -> None:
        state = self._records.state
        for log in (*(state / "log").glob("*.log"), *(state / "run").glob("*/guardian.log")):
            logs.rotate(log)
        before_s = self._clock.now_us() / 1_000_000 - _AIRFLOW_LOGS_S
        logs.remove_older(state / "airflow" / "logs", before_s)

    def _tend(self, name: str, spec: ServerSpec) -> None:
        state = self._records.read(name)
        ward = self._wards.get(name)
        if ward is None or ward.asked != spec.asked:
            ward = self._wards[name] = _Ward(spec.asked, ran_since_s=self._clock.monotonic_s())
            if state is None or state.asked != spec.asked:
                # A new request starts from a clean slate, but adopts what still lives.
                old = state if state is not None and state.is_alive else None
                self._save(replace(old, asked=spec.asked) if old else ServerState(name, "starting", spec.asked))
                state = self._records.read(name)
        if state is None:
            return
        if ward.child is not None:
            ward.child.poll()
        if state.is_alive:
            return
        if state.state == "running":
            self._on_death(state, ward)
        elif self._clock.monotonic_s() >= ward.next_try_s:
            self._start(state, ward, spec)

    def _on_death(self, state: ServerState, ward: _Ward) -> None:
        now_s = self._clock.monotonic_s()
        how = "ended"
        code = ward.child.poll() if ward.child is not None else None
        if code is not None:
            how = f"killed by signal {-code}" if code < 0 else f"exited with {code}"
        ward.child = None
        if state.running is not None:
            process.stop([(state.running, 0.0)], self._clock)  # what the dead leader left in its group
        deaths = state.deaths + 1
        delay_s = ward.restarts.on_death(now_s, now_s - ward.ran_since_s)
        if delay_s is None:
            row, span = len(ward.restarts.deaths), ward.restarts.span_s
            delay_s = _AFTER_GIVING_UP_S
            note = f"gave up after {row} deaths in {span:.0f} s; the last: {how}; next start in {delay_s:g} s"
            after = replace(state, state="gave up", pid=0, deaths=deaths, note=note)
        else:
            note = f"{how}; next start in {delay_s:g} s"
            after = replace(state, state="waiting", pid=0, deaths=deaths, note=note)
        ward.next_try_s = now_s + delay_s
        after = replace(after, next_try_us=self._clock.now_us() + round(delay_s * 1_000_000))
        # The log first: whoever sees the state finds the reason in it.
        self._say(f"{state.name}: {note}")
        self._save(after)

    def _start(self, state: ServerState, ward: _Ward, spec: ServerSpec) -> None:
        ward.ran_since_s = self._clock.monotonic_s()
        try:
            ward.child = process.start(spec.launch)
        except OSError as error:
            with Path(spec.launch.log).open("a") as log:
                log.write(f"cannot start {spec.launch.argv[0]}: {error}\n")
            self._on_death(state, ward)
            return
        running = process.identify(ward.child.pid)
        started = running.started if running else 0.0
        try:
            self._save(replace(state, state="running", pid=ward.child.pid, started=started, note=""))
        except OSError:
            # A server that is in no record would never be stopped.
            process.stop([(running, 0.0)] if running else [], self._clock)
            raise
        self._say(f"{state.name}: started, pid {ward.child.pid}")

    def _save(self, state: ServerState) -> None:
        self._records.write(state)

    def _say(self, text: str) -> None:
        sys.stdout.write(f"{iso(self._clock.now_us())} {text}\n")
        sys.stdout.flush()


def main(state: Path, clock: Clock, owner: process.StartedProcess | None = None) -> int:
    """Run as a daemon for `state`; the first process returns as soon as the daemon holds the lock (0) or not (1).

    A stack whose owner is gone is taken down before the daemon ends.
    """
    ready, tell = os.pipe()
    if os.fork() > 0:
        os.close(tell)
        return 0 if os.read(ready, 1) == b"+" else 1
    os.close(ready)
    os.setsid()
    records = Records(state)
    with lock(records.supervisor_lock, clock, patience_s=_LOCK_PATIENCE_S) as got:
        if not got:
            return 1
        me = process.identify(os.getpid())
        records.write_supervisor(me or process.StartedProcess(os.getpid(), psutil.boot_time()))
        supervisor = Supervisor(records, clock, owner)

        def end(_signal: int, _frame: object) -> None:
            supervisor.ended = True

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.write(tell, b"+")
        os.close(tell)
        supervisor.run()
        if supervisor.orphaned:
            # `down` ends whoever stands there.
            records.forget_supervisor()
    if supervisor.orphaned:
        # Imported here as `stack` is what starts this module.
        from include.local.stack import Stack

        Stack(state, free_ports=True, clock=clock).down()
    return 0


def _owner(words: list[str]) -> process.StartedProcess | None:
    return process.StartedProcess(int(words[0]), float(words[1])) if words else None


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), SystemClock(), _owner(sys.argv[2:])))
