"""The stack as a whole: up, down, status.

`up` starts what is not running, in parallel, and returns when every service answers. If one does not, everything that
this call started is stopped again. `down` stops exactly what was started from this state folder, whoever started it
and however that process ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from include.clock import Clock, SystemClock
from include.errors import LyrebirdError, Terminal
from include.local import accounts, ports, process, status
from include.local.cause import cause
from include.local.process import StartedProcess
from include.local.programs import resolve
from include.local.programs.java import system_java
from include.local.recipes import recipe
from include.local.records import Records, lock
from include.local.services import SERVICES, Service, select
from include.local.site import Site
from include.outbox.folder import outbox
from include.settings.environment import checkout

__all__ = ["Stack"]

Say = Callable[[str], None]

_READY_WITHIN_S = 300.0
_SUPERVISOR_ENDS_WITHIN_S = 10.0
# Elasticsearch does not hear SIGTERM while it starts, and a person waits for the error message.
_GRACE_AFTER_FAILURE_S = 8.0
_GUARDIAN_S = 90.0
# It ends behind the step at which it is.
_SENDER_S = 15.0


class _Given(Exception):
    """Another service failed: this one is not waited for any longer."""


@contextlib.contextmanager
def _private() -> Iterator[None]:
    """Whatever this process and those that it starts make meanwhile is theirs alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


class Stack:
    """The servers of one state folder. Several stacks run beside each other with different folders and ports."""

    def __init__(
        self,
        state: Path,
        *,
        free_ports: bool = False,
        kafka_login: bool = True,
        clock: Clock | None = None,
        say: Say = lambda _line: None,
    ) -> None:
        """`free_ports`: a stack for tests, on any free ports instead of the table's.

        `down` discards its data too, and its servers end with the process that made it.
        `kafka_login`: Kafka asks for user and password; without, whoever has its address is let in.
        """
        self._state = state.absolute()
        self._free_ports = free_ports
        self._kafka_login = kafka_login
        self._clock = clock or SystemClock()
        self._say = say
        self._records = Records(self._state)

    def up(self, names: Iterable[str] = (), *, without: Iterable[str] = ()) -> dict[str, str]:
        """Start the named services, or all but the optional; returns the LYREBIRD_* names of all that run.

        What runs already is left as it is. Raises a LyrebirdError that names the service, what its log
        gives as the cause, and the next step; then nothing that this call started is left.
        """
        rows = select(names, without)
        with self._alone():
            running = [row for row in SERVICES if self._any_alive(row)]
            todo = [row for row in rows if not self._all_alive(row)]
            starting = [row for row in todo if row not in running]
            site = Site.open(
                self._state,
                free_ports=self._free_ports,
                keep_ports=bool(running),
                starting=starting,
                kafka_login=self._kafka_login,
            )
            if any(row.java == "system" or row.name == "airflow" for row in todo):
                system_java()
            if any(row.name == "airflow" for row in todo):
                checkout()
            for port in (port for row in starting for port in row.ports):
                ports.require_free(port, site.ports[port.name])
            resolve.ensure(todo, site.cache, self._clock)
            for row in todo:
                if why := (owner := site.owner(row)).why:
                    self._say(f"{row.name} runs as root: {why}. {owner.fix}")
            with _private():
                # Passwords, which servers keep. Names of what does not come up would lead nowhere.
                site.write_env(())
                # Once, before servers are prepared side by side.
                accounts.make_way(site.data_root)
                self._bring_up(site, rows, todo)
                site.write_env(rows)
            up_now = tuple(row for row in SERVICES if row in rows or row in running)
            return {**site.environment(up_now), "LYREBIRD_CACHE": str(site.cache)}

    def fetch(self, names: Iterable[str] = (), *, without: Iterable[str] = ()) -> Path:
        """Bring the programs of these services into the cache, and start nothing; the cache. Raises as `up`."""
        rows = select(names, without)
        if any(row.java == "system" for row in rows):
            system_java()
        cache = Site.open(self._state, free_ports=self._free_ports, keep_ports=True).cache
        resolve.ensure(rows, cache, self._clock)
        return cache

    def down(self) -> list[str]:
        """Stop everything of this state folder; returns the names of what was stopped. Data stays."""
        if not self._state.exists():
            return []
        with self._alone():
            self._end_supervisor()
            names = self._records.names()
            stopped = self._stop([name for name in names if name.startswith("airflow")])
            # After Airflow, which would start them again, and before the servers that they drain into.
            stopped += _end_guardians(self._state, self._clock)
            if outbox(self._state).end_sender(self._clock, within_s=_SENDER_S):
                stopped.append("mail-sender")
            stopped += self._stop([name for name in names if not name.startswith("airflow")])
            if self._free_ports:
                self._discard()
            return stopped

    def status(self) -> status.StackStatus:
        """What runs now."""
        return status.read(self._state, self._clock)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        self._state.mkdir(parents=True, exist_ok=True)
        with lock(self._records.launcher_lock, self._clock, patience_s=0.2) as got:
            if got:
                yield
                return
        self._say("another `lyrebird up` or `down` is at work here, waiting for it")
        with lock(self._records.launcher_lock, self._clock):
            yield

    def _any_alive(self, row: Service) -> bool:
        return any((state := self._records.read(n)) and state.is_alive for n in row.processes)

    def _all_alive(self, row: Service) -> bool:
        return all((state := self._records.read(n)) and state.is_alive for n in row.processes)

    def _bring_up(self, site: Site, rows: Sequence[Service], todo: Sequence[Service]) -> None:
        """Start `todo`, wait until all of `rows` answer; on any failure take down what was started."""
        fresh = [
            name
            for row in todo
            for name in row.processes
            if not ((state := self._records.read(name)) and state.is_alive)
        ]
        self._ensure_supervisor(site)
        failed = threading.Event()
        try:
            with ThreadPoolExecutor(max_workers=max(len(rows), 1)) as pool:
                work = {pool.submit(self._one_up, site, row, row in todo, fresh, failed): row for row in rows}
                try:
                    self._first_failure(work)
                except BaseException:
                    failed.set()
                    raise
        except BaseException:
            # Also for Ctrl-C: nothing half-way is left.
            self._end_supervisor()
            self._stop(fresh, longest_grace_s=_GRACE_AFTER_FAILURE_S)
            if any(self._records.spec(name) for name in self._records.names()):
                self._ensure_supervisor(site)
            raise

    @staticmethod
    def _first_failure(work: dict[Future[None], Service]) -> None:
        pending = set(work)
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()

    def _one_up(self, site: Site, row: Service, start: bool, fresh: list[str], failed: threading.Event) -> None:
        """Prepare, ask for and await one service."""
        kind = recipe(row)
        begin_s = self._clock.monotonic_s()
        asked: dict[str, str] = {}
        begins = {name: self._log_size(name) for name in row.processes}
        if start:
            try:
                launches = kind.prepare(site, row)
            except OSError as error:
                raise Terminal(
                    f"{row.name} could not be prepared: {error}", fix="Check space and rights there."
                ) from error
            if failed.is_set():
                raise _Given(row.name)
            for launch in launches:
                if launch.name in fresh:
                    asked[launch.name] = self._records.ask(launch)
        while not kind.ready(site, row):
            if failed.is_set():
                raise _Given(row.name)
            self._require_life(row, asked, begins)
            if self._clock.monotonic_s() - begin_s > _READY_WITHIN_S:
                raise self._failure(row, row.processes[0], f"not ready after {_READY_WITHIN_S:.0f} s", begins)
            self._clock.sleep(0.1)
        kind.finish(site, row)
        if start:
            self._say(f"{row.name} is up ({self._clock.monotonic_s() - begin_s:.1f} s)")

    def _require_life(self, row: Service, asked: dict[str, str], begins: dict[str, int]) -> None:
        """A first death during `up` is a failure; later ones are the supervisor's business."""
        for name in row.processes:
            state = self._records.read(name)
            if state is None or state.asked != asked.get(name, state.asked):
                continue  # the supervisor has not yet seen this request
            if state.state == "gave up" or (name in asked and state.deaths):
                raise self._failure(row, name, state.note.partition(";")[0], begins)

    def _log_size(self, name: str) -> int:
        log = self._records.log(name)
        return log.stat().st_size if log.exists() else 0

    def _failure(self, row: Service, name: str, what: str, begins: dict[str, int]) -> LyrebirdError:
        log = self._records.log(name)
        said = " | ".join(cause(process.written(log, begins[name])) or process.tail(log, 5)) or "its log is empty"
        return Terminal(f"{row.name} did not come up: {name} {what}: {said}", fix=f"The log: {log}")

    def _ensure_supervisor(self, site: Site) -> None:
        with lock(self._records.supervisor_lock, self._clock, patience_s=0.0) as free:
            if not free:
                return
        self._records.stop_file.unlink(missing_ok=True)
        log = self._records.log("supervisor")
        log.parent.mkdir(parents=True, exist_ok=True)
        begin = self._log_size("supervisor")
        owner = process.identify(os.getpid()) if self._free_ports else None
        owned = [str(owner.pid), repr(owner.started)] if owner else []
        with log.open("ab") as output:
            made = subprocess.run(  # noqa: S603 - our own words
                [sys.executable, "-m", "include.local.supervisor", str(self._state), *owned],
                cwd=site.project,
                env=site.python_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if made.returncode != 0:
            said = " | ".join(cause(process.written(log, begin)))
            raise Terminal(f"the supervisor could not be started: {said}", fix=f"The log: {log}")

    def _end_supervisor(self) -> None:
        """Ask the supervisor to end; kill it when it does not. The servers stay as they are."""
        if not self._records.supervisor.exists():
            return
        self._records.stop_file.touch()
        patience_s = _SUPERVISOR_ENDS_WITHIN_S
        with lock(self._records.supervisor_lock, self._clock, patience_s=patience_s) as ended:
            holder = self._records.supervisor_process()
            if holder is not None and process.alive(holder):
                # A supervisor that ends gives up its lock moments before it is gone.
                process.stop([(holder, _SUPERVISOR_ENDS_WITHIN_S if ended else 0.0)], self._clock)
        self._records.stop_file.unlink(missing_ok=True)

    def _stop(self, names: Iterable[str], longest_grace_s: float = 3600.0) -> list[str]:
        """Stop these servers at once and forget them; only while no supervisor lives."""
        alive: dict[str, tuple[StartedProcess, float]] = {}
        names = list(names)
        for name in names:
            state, spec = self._records.read(name), self._records.spec(name)
            if state is not None and state.running is not None and state.is_alive:
                alive[name] = (state.running, min(spec.launch.grace_s if spec else 30.0, longest_grace_s))
        killed = process.stop(list(alive.values()), self._clock)
        for name in names:
            self._records.forget(name)
        for name, (running, _) in alive.items():
            if running in killed:
                self._say(f"{name} did not end in time and was killed")
        return sorted(alive)

    def _discard(self) -> None:
        """Remove the data folders of a stack for tests; logs and env stay."""
        root = Path(self._records.stack().get("data_root", self._state))
        for row in SERVICES:
            for base in {root, self._state}:
                shutil.rmtree(base / row.name, ignore_errors=True)
        if root != self._state:
            shutil.rmtree(root, ignore_errors=True)


def _guardians(state: Path) -> dict[str, StartedProcess]:
    """Live guardians of supervised applications under `state`, by application.

    Each has a folder `<state>/run/<application>/` with a `run.json`: `guardian_pid`, `guardian_start` (as of psutil).
    """
    living: dict[str, StartedProcess] = {}
    for path in sorted((state / "run").glob("*/run.json")):
        try:
            value = json.loads(path.read_text())
            running = StartedProcess(int(value["guardian_pid"]), float(value["guardian_start"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if process.alive(running):
            living[path.parent.name] = running
    return living


def _end_guardians(state: Path, clock: Clock) -> list[str]:
    """Ask all guardians to drain, wait, kill those that do not end; returns the applications.

    A guardian that gets SIGTERM drains its application first; when one is killed, the kernel kills its application.
    """
    found = _guardians(state)
    process.stop([(running, _GUARDIAN_S) for running in found.values()], clock)
    return sorted(found)
