"""The run folder of one supervised application, as operator, trigger and pages see it.

| file | writer | meaning |
|---|---|---|
| `lock` | guardian (flock) | free = the application is dead |
| `run.json` | guardian | this generation: token, owner, host, boot_id, guardian_pid, guardian_ticks, pid, argv, … |
| `progress.json` | application | any change is progress |
| `incidents.json` | application | what it keeps of its incidents over restarts |
| `told.json` | trigger, operator | ids of the incidents whose mails are in the outbox |
| `lease` | trigger | a time stamp that stands still for `lease_ttl` stops the application |
| `end-<token>` | operator, trigger | the guardian shall let that generation end; holds why |
| `owner.json` | operator, keeper | who watches this generation from now on, if not who started it: token, owner |
| `down.json` | operator; keeper removes | restarts do not help, it is tried again slowly: `CrashLoop`, its incident |
| `restarted.json` | keeper | up to which end (`ended_us`) restarts were told, and when (`told_us`) |
| `stop` | guardian | the application shall end: token, why, asked_us |
| `gave-up.json` | application | why it ends where no restart helps: `id`, `kind`, `text`, `fix` (a command) |
| `exit.json` | guardian | rc, why (`asked`, `stalled`, `lease expired`, null), token |
| `exits.json` | guardian | `exits`: the last fifty ends, the newest last; rc null: killed; why also: `gave up` |
| `app.log`, `app.log.1`, `guardian.log` | both | this generation's log, the last one's, the guardian's own |

Reading never blocks and never raises for a file that is missing or half of a generation.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from include.file_lock import is_held
from include.metrics.exporter import write_atomically
from include.metrics.progress import read_file
from include.settings.environment import state_folder
from supervision.budget import CrashLoop
from supervision.processes import HostBoot, here, start_ticks, start_time

__all__ = ["KEEPERS", "GenerationEnd", "ObservedFolder", "Run", "RunFolder", "lives_on_s", "run_folder"]

KEEPERS = "keeper__"
"""How the names of runs begin that the keeper starts."""
_TAIL_BYTES = 256 * 1024
_RELAY_BYTES = 16 * 1024
_REMEMBERED = 1000
# Bytes; a report and a file beside it that takes its place.
_LEAST_FREE = 1 << 20
# The kernel's boot time, from which start times are reckoned, moves a little when the wall clock is set.
_CLOCK_SET_S = 2.0


@dataclass(frozen=True)
class Run:
    """One generation of an application, from `run.json`.

    Attributes:
        place: where its guardian was started; an older version did not write it, and only knew its own host.
        guardian_start: by which its guardian is told from a later process with that pid: seconds since the epoch.
        guardian_ticks: the same as its kernel counts; None: an older version's.
        lives_on_s: its guardian ends it so long after the lease was renewed last, at the latest.
        start_after_s: its guardian waits so long before it starts it.
    """

    token: str
    owner: str
    guardian_pid: int
    pid: int | None
    started_us: int
    place: HostBoot = field(default_factory=HostBoot)
    guardian_start: float = 0.0
    guardian_ticks: int | None = None
    lives_on_s: float = 0.0
    start_after_s: float = 0.0

    @property
    def waits(self) -> bool:
        """Whether its guardian has not started it yet, as it is down; of one that is dead, whether it never did."""
        return self.start_after_s > 0 and self.pid is None


@dataclass(frozen=True)
class GenerationEnd:
    """How a generation ended, from `exit.json`.

    Attributes:
        rc: exit status; negative: the signal that ended it.
        why: None when it ended by itself, else what made the guardian end it.
        problem: why it could not be started, if so.
        gave_up: what no restart would mend, in the application's own words; None where it says nothing of that.
    """

    token: str
    rc: int
    why: str | None
    problem: str | None
    gave_up: dict[str, Any] | None = None


@dataclass(frozen=True)
class ObservedFolder:
    """The folder at one moment. The lock was read first: with `held` False the rest is final.

    `leased_us`: when the lease was renewed last, by the clock of the disk; 0: never.
    """

    held: bool
    stop: bool
    run: Run | None
    ended: GenerationEnd | None
    leased_us: int = 0


@dataclass(frozen=True)
class RunFolder:
    """The files of one application's run folder."""

    path: Path

    def held(self) -> bool:
        """Whether a guardian lives."""
        return is_held(self.path / "lock")

    def observe(self) -> ObservedFolder:
        """The lock first, then the files: see `ObservedFolder`."""
        held = self.held()
        # Before `run.json`: a guardian says who it is, then removes the last one's `stop`.
        ending, stop = self._read("stop").get("token"), (self.path / "stop").exists()
        run, ended, heir = self._read("run.json"), self._read("exit.json"), self._read("owner.json")
        owner = heir.get("owner") if heir.get("token") == run.get("token") else None
        return ObservedFolder(
            held=held,
            # Older versions name nobody.
            stop=stop and ending in {None, run.get("token")},
            run=Run(
                token=run["token"],
                owner=owner or run["owner"],
                guardian_pid=run["guardian_pid"],
                pid=run.get("pid"),
                started_us=run["started_us"],
                place=HostBoot(run.get("host", ""), run.get("boot_id", "")),
                guardian_start=run.get("guardian_start", 0.0),
                guardian_ticks=run.get("guardian_ticks"),
                lives_on_s=lives_on_s(run.get("lease_ttl_s", 0.0), run.get("grace_s", 0.0)),
                start_after_s=run.get("start_after_s", 0.0),
            )
            if run
            else None,
            ended=GenerationEnd(
                token=ended["token"],
                rc=ended["rc"],
                why=ended.get("why"),
                problem=ended.get("problem"),
                gave_up=self.gave_up() or None,
            )
            if ended
            else None,
            leased_us=self._leased_us(),
        )

    def has_room(self) -> bool:
        """Whether its disk takes a report; an application on a full one may be well and cannot say so."""
        try:
            disk = os.statvfs(self.path)
        except OSError:
            return True
        return disk.f_bavail * disk.f_frsize >= _LEAST_FREE

    def progress(self) -> tuple[int, dict[str, Any]]:
        """A stamp that changes with each report of the application (0: none yet), and the report."""
        try:
            stamp = (self.path / "progress.json").stat()
        except FileNotFoundError:
            return 0, {}
        return stamp.st_mtime_ns ^ stamp.st_ino, self._read("progress.json")

    def ran_us(self) -> int:
        """How long this generation, or the last one, has run: from its start to its last report; 0 without one."""
        try:
            reported_us = (self.path / "progress.json").stat().st_mtime_ns // 1000
        except FileNotFoundError:
            return 0
        return max(0, reported_us - int(self._read("run.json").get("started_us", reported_us)))

    def gave_up(self) -> dict[str, Any]:
        """Why it ends, or is about to, see `GenerationEnd`; {} where it says nothing. Written before it is reported."""
        return self._read("gave-up.json")

    def exits(self) -> list[dict[str, Any]]:
        """How the generations before this one ended, the newest last; fifty at most."""
        found = self._read("exits.json").get("exits")
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []

    def down(self) -> tuple[CrashLoop | None, dict[str, Any]]:
        """Whether restarts do not help it, and the incident that tells so."""
        found = self._read("down.json")
        try:
            return CrashLoop(found["since_us"], found["next_us"], found["well_after_s"]), dict(found["incident"])
        except (KeyError, TypeError, ValueError):
            return None, {}

    def note_down(self, down: CrashLoop | None, incident: Mapping[str, Any] | None = None) -> None:
        """Keep it over restarts, retries and runs; None: it is well. Raises OSError where the disk does not take it."""
        if down is None:
            (self.path / "down.json").unlink(missing_ok=True)
        else:
            write_atomically(self.path / "down.json", json.dumps({**asdict(down), "incident": dict(incident or {})}))

    def restarts_told(self) -> tuple[int, int]:
        """The end up to which restarts were told, and when that was; 0 and 0: never."""
        found = self._read("restarted.json")
        ended_us, told_us = found.get("ended_us"), found.get("told_us")
        return (ended_us, told_us) if isinstance(ended_us, int) and isinstance(told_us, int) else (0, 0)

    def note_restarts_told(self, ended_us: int, told_us: int) -> None:
        """Keep it. Raises OSError where the disk does not take it."""
        write_atomically(self.path / "restarted.json", json.dumps({"ended_us": ended_us, "told_us": told_us}))

    def told(self) -> list[str]:
        """Ids of the incidents that were told, the oldest first."""
        found = self._read("told.json").get("ids")
        return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []

    def remember_told(self, id_: str) -> None:
        """Note that an incident was told; a thousand are remembered. All or nothing, also over a crash."""
        ids = [*(each for each in self.told() if each != id_), id_]
        write_atomically(self.path / "told.json", json.dumps({"ids": ids[-_REMEMBERED:]}))

    def hand_over(self, token: str, owner: str) -> None:
        """Let `owner` (dag|run|task|map_index) watch this generation from now on; it goes on meanwhile."""
        write_atomically(self.path / "owner.json", json.dumps({"token": token, "owner": owner}))
        self.touch_lease()

    def handed_over_us(self) -> int:
        """When `hand_over` was called last; 0 where it never was."""
        try:
            return (self.path / "owner.json").stat().st_mtime_ns // 1000
        except FileNotFoundError:
            return 0

    def touch_lease(self) -> None:
        """Keep the application alive for another `lease_ttl`. A folder that is gone is left alone."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self.path / "lease")

    def ask_to_end(self, token: str, why: str = "asked") -> bool:
        """Let the guardian of this generation drain its application; returns at once. `why` is kept with its end.

        The file reaches a guardian whose pid means nothing here, as that of another container; the signal one whose
        disk is full. Returns False, and does nothing, when this generation has ended or was replaced. May be called
        twice.
        """
        seen = self.observe()
        if not seen.held or seen.run is None or seen.run.token != token:
            return False
        with contextlib.suppress(OSError):
            write_atomically(self.path / f"end-{token}", why)
        if self._is_guardian(seen.run):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(seen.run.guardian_pid, signal.SIGTERM)
        return True

    @staticmethod
    def _is_guardian(run: Run) -> bool:
        """Whether the process that has the guardian's pid here is the guardian: nobody else may get its signal."""
        if run.place.boot_id not in ("", here().boot_id):
            return False
        try:
            if run.guardian_ticks is None:
                return abs(start_time(run.guardian_pid) - run.guardian_start) <= _CLOCK_SET_S
            return start_ticks(run.guardian_pid) == run.guardian_ticks
        except ProcessLookupError:
            return False

    def log_tail(self, lines: int) -> list[str]:
        """The last lines of the application's log (none when there is no log)."""
        try:
            with (self.path / "app.log").open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except FileNotFoundError:
            return []
        return text.splitlines()[-lines:]

    def log_size(self) -> int:
        """Bytes of the application's log."""
        try:
            return (self.path / "app.log").stat().st_size
        except FileNotFoundError:
            return 0

    def log_since(self, offset: int) -> tuple[list[str], int]:
        """Whole lines of the application's log after byte `offset`, and the offset after them.

        At most the last 16 KiB: a first line says how many bytes were left out. A log that was begun anew is read
        from its start.
        """
        try:
            with (self.path / "app.log").open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                offset = offset if offset <= size else 0
                left_out = max(0, size - offset - _RELAY_BYTES)
                file.seek(offset + left_out)
                block = file.read(_RELAY_BYTES)
        except FileNotFoundError:
            return [], 0
        whole = block[: block.rfind(b"\n") + 1]
        lines = whole.decode(errors="replace").splitlines()
        if left_out:
            lines[:1] = [f"… {left_out} bytes left out, see {self.path}/app.log"]
        return lines, offset + left_out + len(whole)

    def _leased_us(self) -> int:
        try:
            return (self.path / "lease").stat().st_mtime_ns // 1000
        except FileNotFoundError:
            return 0

    def _read(self, name: str) -> dict[str, Any]:
        return read_file(self.path / name)


def lives_on_s(lease_ttl_s: float, grace_s: float) -> float:
    """How long a guardian that nobody renews the lease of may keep its application, in seconds of another host's clock.

    Twice the lease, as clocks are apart; then what the application gets to end.
    """
    return 2 * lease_ttl_s + grace_s + 20.0


def run_folder(application: str) -> RunFolder:
    """The run folder of an application of this host: `$LYREBIRD_STATE/run/<application>`."""
    return RunFolder(state_folder() / "run" / application)
