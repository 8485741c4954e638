"""The guardian: the parent of one supervised application, and its only stopper.

`python -I -S guardian.py --folder F --token T --owner O … -- COMMAND`, in a session of its own. Standard library alone.
It holds `F/lock` (flock) as long as it lives, so a free lock says that the application is dead: no reused pid and no
reboot can deceive it. Order of the durable steps:

1. take the lock (tried for a second: a prober takes it for an instant), else exit 75;
2. note in `exits.json` how the last generation ended, write `run.json` with this one's token, remove the last one's
   files, end what is left of its processes;
3. with `--start-after`, wait so long: what restarts do not help is tried again slowly, and is its run's meanwhile, too;
   who asks it to end, or a lease that runs out, ends it here;
4. start the application, in its own process group, dying with the guardian; write `run.json` again, with its pid;
5. when it must end (SIGTERM, or `end-<token>` is there, or nobody has touched `lease` for `lease_ttl` seconds): write
   `stop`, wait `grace` seconds, then SIGTERM to its group, ten seconds later SIGKILL;
6. when it has ended: SIGKILL what is left of its processes, write `exit.json`, let go of the lock by ending.

A full disk ends nobody: what the application prints comes by a pipe, and is lost where no room is for it; `run.json`
with its pid, `stop` and `exit.json` are tried again until there is room.

The lease is watched by changes of its time stamp against the monotonic clock: a jump of the wall clock fences nobody.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Run by path and isolated from the environment: only this tells where the package is.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from supervision.processes import die_with_parent, end_all_marked, here, start_ticks, start_time

__all__ = ["EXITS_KEPT", "EXIT_TAKEN", "TOKEN_VARIABLE", "main"]

EXIT_TAKEN = 75
"""Exit status when another guardian holds the lock (EX_TEMPFAIL)."""
EXITS_KEPT = 50
"""So many ends `exits.json` has."""
TOKEN_VARIABLE = "LYREBIRD_TOKEN"  # noqa: S105 - the name of a variable
_LOG_LIMIT_BYTES = 64 * 1024 * 1024
_KILL_AFTER_TERM_S = 10.0
_LAST_ONES_S = 10.0
_WATCHED = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}


class Guardian:
    """One generation of one application."""

    def __init__(self, orders: argparse.Namespace) -> None:
        self._folder = Path(orders.folder)
        self._token: str = orders.token
        self._owner: str = orders.owner
        self._lease_ttl_s: float = orders.lease_ttl
        self._grace_s: float = orders.grace
        self._start_after_s: float = orders.start_after
        self._argv: list[str] = orders.command
        self._asked = False
        self._lease_stamp = 0
        self._lease_seen_s = 0.0
        self._unwritten: dict[str, dict[str, Any]] = {}

    def run(self) -> int:
        """Guard the application to its end. Returns 0, or `EXIT_TAKEN`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _locked(lock, within_s=1.0):
            self._say("another guardian holds the lock")
            return EXIT_TAKEN
        signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        problem = self._clear_the_last_generation()
        if problem is None:
            rc, why = self._guard()
        else:
            rc, why = 126, None
        end = {"rc": rc, "why": why, "token": self._token, "problem": problem, "ended_us": _now_us()}
        # Who asks again while no room is for the end gets the lock without it.
        self._unwritten, self._asked = {}, False
        self._write_when_there_is_room("exit.json", end)
        while self._unwritten and not self._asked and not self._lease_expired(time.monotonic()):
            self._await_signal()
            self._write_the_unwritten()
        self._say(f"the application ended: rc {rc}, why {why}")
        return 0

    def _clear_the_last_generation(self) -> str | None:
        """End its processes and remove its files; returns what stands in the way of a start."""
        last = _read(self._folder / "run.json")
        self._note_the_last_end(last)
        # A guardian that died here left the older token too: both are ended, however often this is interrupted.
        tokens = [t for t in [*last.get("earlier", []), last.get("token")] if t]
        self._write("run.json", self._run(pid=None, earlier=tokens[-8:]))
        for name in ("exit.json", "stop", "progress.json", "gave-up.json"):
            (self._folder / name).unlink(missing_ok=True)
        for request in self._folder.glob("end-*"):
            if request.name != f"end-{self._token}":
                request.unlink(missing_ok=True)
        for token in tokens:
            left = end_all_marked(TOKEN_VARIABLE, token, within_s=_LAST_ONES_S)
            if left:
                self._say(problem := f"processes of the last generation do not end: {left}")
                return problem
        return None

    def _note_the_last_end(self, last: dict[str, Any]) -> None:
        """Keep how the last generation ended, for `lyrebird status`; once, however often this is interrupted."""
        token = last.get("token")
        exits = _read(self._folder / "exits.json").get("exits", [])
        if token is None or any(each.get("token") == token for each in exits):
            return
        end = _read(self._folder / "exit.json")
        if end.get("token") != token:
            if last.get("start_after_s") and last.get("pid") is None:
                return  # killed while it waited: of the application the end before is still the last
            end = {"rc": None, "why": None, "token": token, "problem": "its guardian was killed", "ended_us": _now_us()}
            if last.get("boot_id") not in {None, here().boot_id}:
                end |= {"why": "its host was restarted", "problem": None}
        elif end.get("why") is None and end.get("rc") and _read(self._folder / "gave-up.json"):
            end["why"] = "gave up"
        with contextlib.suppress(OSError):
            self._write("exits.json", {"exits": [*exits, end][-EXITS_KEPT:]})

    def _guard(self) -> tuple[int, str | None]:
        self._touch_lease()
        why = self._wait_to_start()
        if why is not None:
            return 0, why
        log = _Log(self._folder / "app.log")
        me = os.getpid()
        environment = {**os.environ, "LYREBIRD_RUN": str(self._folder), TOKEN_VARIABLE: self._token}
        try:
            application = subprocess.Popen(  # noqa: S603 - the command is the guardian's whole purpose
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=log.inlet,
                stderr=log.inlet,
                env=environment,
                process_group=0,
                preexec_fn=lambda: die_with_parent(me),
            )
        except OSError as error:
            log.write(f"cannot start {self._argv[0]}: {error}\n".encode())
            return 127, None
        log.start()
        self._write_when_there_is_room("run.json", self._run(pid=application.pid, earlier=[]))
        self._say(f"started {' '.join(self._argv)} as pid {application.pid}")
        why = self._watch(application)
        left = end_all_marked(TOKEN_VARIABLE, self._token, within_s=_LAST_ONES_S)
        if left:
            self._say(f"processes that do not end: {left}")
        log.finish()
        return application.returncode, why

    def _wait_to_start(self) -> str | None:
        """Returns why it shall end before it has started, if so."""
        start_s = time.monotonic() + self._start_after_s
        while (now := time.monotonic()) < start_s:
            why = self._must_end(now)
            if why is not None:
                self._say(f"not started: {why}")
                return why
            self._await_signal()
        return None

    def _watch(self, application: subprocess.Popen[bytes]) -> str | None:
        """Wait for the end, hastening it where it must be. Returns why it was made to end, if it was."""
        why: str | None = None
        steps = [
            (self._grace_s, signal.SIGTERM),
            (_KILL_AFTER_TERM_S, signal.SIGKILL),
        ]
        deadline = 0.0
        while application.poll() is None:
            now = time.monotonic()
            if why is None:
                why = self._must_end(now)
                if why is not None:
                    self._say(f"asking the application to end: {why}")
                    self._write_when_there_is_room("stop", {"token": self._token, "why": why, "asked_us": _now_us()})
                    deadline = now + steps[0][0]
            elif steps and now >= deadline:
                _, number = steps.pop(0)
                self._say(f"still there: {number.name} to its group")
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(application.pid, number)
                deadline = now + (steps[0][0] if steps else 0.0)
            self._await_signal()
            self._write_the_unwritten()
        return why

    def _await_signal(self) -> None:
        received = signal.sigtimedwait(_WATCHED, 0.5)
        if received is not None and received.si_signo in {signal.SIGTERM, signal.SIGINT}:
            self._asked = True

    def _must_end(self, now_s: float) -> str | None:
        return self._asked_why() or ("lease expired" if self._lease_expired(now_s) else None)

    def _asked_why(self) -> str | None:
        """Why somebody wants it to end; None while nobody does."""
        with contextlib.suppress(OSError):
            return (self._folder / f"end-{self._token}").read_text(encoding="utf-8") or "asked"
        return "asked" if self._asked else None

    def _touch_lease(self) -> None:
        lease = self._folder / "lease"
        lease.touch()
        self._lease_stamp = lease.stat().st_mtime_ns
        self._lease_seen_s = time.monotonic()

    def _lease_expired(self, now_s: float) -> bool:
        # A disk that does not answer renews nothing.
        with contextlib.suppress(OSError):
            stamp = (self._folder / "lease").stat().st_mtime_ns
            if stamp != self._lease_stamp:
                self._lease_stamp, self._lease_seen_s = stamp, now_s
        return now_s - self._lease_seen_s > self._lease_ttl_s

    def _run(self, *, pid: int | None, earlier: list[str]) -> dict[str, Any]:
        me, machine = os.getpid(), here()
        return {
            "token": self._token,
            "owner": self._owner,
            "host": machine.host,
            "boot_id": machine.boot_id,
            "guardian_pid": me,
            "guardian_start": start_time(me),
            "guardian_ticks": start_ticks(me),
            "pid": pid,
            "argv": self._argv,
            "started_us": _now_us(),
            "start_after_s": self._start_after_s,
            "grace_s": self._grace_s,
            "lease_ttl_s": self._lease_ttl_s,
            "earlier": earlier,
        }

    def _write_when_there_is_room(self, name: str, content: dict[str, Any]) -> None:
        """Write it now, or at a later `_write_the_unwritten`."""
        self._unwritten[name] = content
        self._write_the_unwritten()

    def _write_the_unwritten(self) -> None:
        for name, content in list(self._unwritten.items()):
            try:
                self._write(name, content)
            except OSError as error:
                self._say(f"cannot write {name}: {error}")
            else:
                del self._unwritten[name]

    def _write(self, name: str, content: dict[str, Any]) -> None:
        """All or nothing, also over a power cut: temporary file, fsync, rename."""
        temporary = self._folder / f".{name}.{os.getpid()}"
        with temporary.open("w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._folder / name)

    def _say(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with contextlib.suppress(OSError):
            os.write(sys.stderr.fileno(), f"{stamp} [{self._token}] {text}\n".encode())


class _Log:
    """`app.log` of this generation; the last one's, or what was there before the limit, stays as `app.log.1`.

    The application writes into `inlet`, a pipe, so that no disk can fail its prints. Best effort: what does not get
    onto the disk is dropped.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outlet, self.inlet = os.pipe2(os.O_CLOEXEC)
        self._pump = threading.Thread(target=self._copy, daemon=True)
        self._file: int | None = None
        self._size = 0
        self._begin_anew()

    def start(self) -> None:
        """Copy until nobody has the pipe open any more. Once the application has it: no thread may be there before."""
        os.close(self.inlet)
        self._pump.start()

    def finish(self) -> None:
        """Wait until the last words are on the disk; some seconds at most, as a process that does not end holds it."""
        self._pump.join(5.0)

    def write(self, block: bytes) -> None:
        """Append, if there is room."""
        if self._file is None or self._size > _LOG_LIMIT_BYTES:
            self._begin_anew()
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._size += os.write(self._file, block)

    def _copy(self) -> None:
        while block := os.read(self._outlet, 65536):
            self.write(block)

    def _begin_anew(self) -> None:
        with contextlib.suppress(OSError):
            if self._path.exists():
                self._path.replace(self._path.with_name("app.log.1"))
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            if self._file is not None:
                os.close(self._file)
            self._file, self._size = file, 0


def _read(path: Path) -> dict[str, Any]:
    """A JSON object; {} where none can be read."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_text())
        return found if isinstance(found, dict) else {}
    return {}


def _locked(descriptor: int, *, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        else:
            return True


def _now_us() -> int:
    return time.time_ns() // 1000


def main(argv: list[str] | None = None) -> int:
    """Guard the command after `--`. Blocks until it has ended; see the module for the files and the order."""
    parser = argparse.ArgumentParser(prog="guardian", description="guard one application")
    parser.add_argument("--folder", required=True, help="the application's run folder")
    parser.add_argument("--token", required=True, help="names this generation")
    parser.add_argument("--owner", required=True, help="dag|run|task|map_index")
    parser.add_argument("--lease-ttl", type=float, default=300.0, help="seconds without a touch of the lease")
    parser.add_argument("--grace", type=float, default=60.0, help="seconds between `stop` and SIGTERM")
    parser.add_argument("--start-after", type=float, default=0.0, help="seconds to wait before it is started")
    parser.add_argument("command", nargs="+", help="what to run, after --")
    return Guardian(parser.parse_args(argv)).run()


if __name__ == "__main__":
    sys.exit(main())
