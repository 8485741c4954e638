"""The state folder of a stack: which servers should run, and which do.

```
<state>/env                    LYREBIRD_* names and generated passwords, mode 600
<state>/stack.json             ports and folders of this stack
<state>/launcher.lock          held by `up` or `down`: one at a time
<state>/supervisor/lock        held by the supervisor as long as it lives; pid.json says who
<state>/supervisor/stop        asks the supervisor to end (the servers stay)
<state>/servers/<name>.spec    how to start a server (a Launch), and the `asked` mark of the `up` that wants it
<state>/servers/<name>.state   what became of it
<state>/log/<name>.log
```
Files are written by temporary file and rename, mode 600. Whoever holds `supervisor/lock` may start and stop
servers; nobody else does.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from include.clock import Clock
from include.local.process import Launch, StartedProcess, alive

__all__ = ["ProcessState", "Records", "ServerSpec", "ServerState", "lock", "write_private"]

ProcessState = Literal["starting", "running", "waiting", "gave up"]
"""starting: asked for; running: its process lives; waiting: dead, started again at `next_try_us`; gave up: the same
after many deaths in a row, and slower."""


@dataclass(frozen=True)
class ServerSpec:
    """A server that should run. A new `asked` mark makes the supervisor try at once after it gave up."""

    launch: Launch
    asked: str


@dataclass(frozen=True)
class ServerState:
    """What the supervisor knows of a server. Times are microseconds since the epoch."""

    name: str
    state: ProcessState
    asked: str
    pid: int = 0
    started: float = 0.0
    deaths: int = 0
    note: str = ""
    next_try_us: int = 0

    @property
    def running(self) -> StartedProcess | None:
        """Identity of the process that was started last, if any."""
        return StartedProcess(self.pid, self.started) if self.pid else None

    @property
    def is_alive(self) -> bool:
        """Whether that process lives now."""
        return self.running is not None and alive(self.running)


def write_private(path: Path, text: str, *, given: bool = False) -> None:
    """Replace `path` in one step by a file of mode 600.

    `given`: the folder that holds it lies in one of another account's; OSError where that has put a link in its place.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    holder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | (os.O_NOFOLLOW if given else 0))
    try:
        temporary = f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}"
        created = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=holder)
        with open(created, "w") as file:
            file.write(text)
        os.replace(temporary, path.name, src_dir_fd=holder, dst_dir_fd=holder)
    finally:
        os.close(holder)


@contextlib.contextmanager
def lock(path: Path, clock: Clock, *, patience_s: float | None = None) -> Iterator[bool]:
    """Hold an exclusive lock on `path`; yields whether it was got within `patience_s` (None: wait for ever).

    A lock ends with its process, however that ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        got = _take(file.fileno(), clock, patience_s)
        try:
            yield got
        finally:
            if got:
                fcntl.flock(file, fcntl.LOCK_UN)


def _take(descriptor: int, clock: Clock, patience_s: float | None) -> bool:
    if patience_s is None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return True
    begin = clock.monotonic_s()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.monotonic_s() - begin >= patience_s:
                return False
            clock.sleep(0.05)
        else:
            return True


class Records:
    """Typed access to the files above. Reads tolerate files that come and go."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.servers = state / "servers"
        self.launcher_lock = state / "launcher.lock"
        self.supervisor = state / "supervisor"
        self.supervisor_lock = self.supervisor / "lock"
        self.stop_file = self.supervisor / "stop"

    def names(self) -> list[str]:
        """Servers that have a spec or a state."""
        if not self.servers.exists():
            return []
        return sorted({p.stem for p in self.servers.iterdir() if p.suffix in {".spec", ".state"}})

    def log(self, name: str) -> Path:
        """The log file of a server."""
        return self.state / "log" / f"{name}.log"

    def spec(self, name: str) -> ServerSpec | None:
        """How the server is to be started; None when it is not wanted."""
        value = self._read(self.servers / f"{name}.spec")
        return None if value is None else ServerSpec(Launch.from_json(value["launch"]), value["asked"])

    def ask(self, launch: Launch) -> str:
        """Want this server from now on; returns the mark of this request."""
        asked = secrets.token_hex(8)
        value = {"asked": asked, "launch": launch.to_json()}
        write_private(self.servers / f"{launch.name}.spec", json.dumps(value))
        return asked

    def read(self, name: str) -> ServerState | None:
        """What became of the server; None when it was never started."""
        value = self._read(self.servers / f"{name}.state")
        return None if value is None else ServerState(**value)

    def write(self, state: ServerState) -> None:
        """Keep what became of a server."""
        write_private(self.servers / f"{state.name}.state", json.dumps(asdict(state)))

    def forget(self, name: str) -> None:
        """Remove spec and state of a server that has been stopped."""
        for suffix in (".spec", ".state"):
            (self.servers / f"{name}{suffix}").unlink(missing_ok=True)

    def supervisor_process(self) -> StartedProcess | None:
        """Who holds the supervisor's lock, or held it last."""
        value = self._read(self.supervisor / "pid.json")
        return None if value is None else StartedProcess(**value)

    def write_supervisor(self, running: StartedProcess) -> None:
        """Say who holds the supervisor's lock."""
        write_private(self.supervisor / "pid.json", json.dumps(asdict(running)))

    def forget_supervisor(self) -> None:
        """Remove what says who holds the supervisor's lock."""
        (self.supervisor / "pid.json").unlink(missing_ok=True)

    def stack(self) -> dict[str, Any]:
        """Content of stack.json; empty when there is none."""
        return self._read(self.state / "stack.json") or {}

    def write_stack(self, value: dict[str, Any]) -> None:
        """Replace stack.json."""
        write_private(self.state / "stack.json", json.dumps(value, indent=1))

    @staticmethod
    def _read(path: Path) -> dict[str, Any] | None:
        try:
            value: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        return value
