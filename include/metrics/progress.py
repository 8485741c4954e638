"""A supervised application reports to its guardian, and hears from it, by files in its run folder.

`progress.json`: any change of it counts as progress. `stop`: when it is there, end cleanly with exit code 0.
`gave-up.json`: why it ends, where no restart helps. Files of the application's own (`keep`) are left for its next run;
the guardian removes the first three.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

from include.clock import Clock, SystemClock
from include.metrics.exporter import write_atomically

__all__ = ["GAVE_UP", "PROGRESS", "RunFolder", "last_run_folder", "read_file", "supervised"]

GAVE_UP, PROGRESS = "gave-up.json", "progress.json"
_GIVEN = "LYREBIRD_RUN"
_TELLING = threading.Lock()
"""Parts report from threads of their own."""


def supervised() -> bool:
    """Whether a guardian has started this process."""
    return bool(os.environ.get(_GIVEN))


def read_file(path: Path) -> dict[str, Any]:
    """A file of a run folder; {} when there is none, or no JSON object in it.

    Raises:
        OSError: it cannot be read: what it holds may not be taken for nothing, and written over.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def last_run_folder(application: str, state: Path) -> Path:
    """The run folder in which an application on this host reported last, under a guardian or by hand."""
    folders = [state / "run" / name for name in (application, f"by-hand-{application}")]
    return max(folders, key=_reported_us)


def _reported_us(folder: Path) -> int:
    try:
        return int(read_file(folder / PROGRESS).get("at_us", 0))
    except OSError:
        # Of another account.
        return 0


@dataclass(frozen=True)
class RunFolder:
    """The run folder of one application."""

    path: Path
    clock: Clock

    @classmethod
    def from_environment(cls, application: str, state: Path, clock: Clock | None = None) -> RunFolder:
        """`$LYREBIRD_RUN` as its guardian set it; a run by hand gets `<state>/run/by-hand-<application>/`.

        What an earlier run by hand left there of a stop request or an end is removed; the guardian clears its own.
        """
        given = os.environ.get(_GIVEN)
        path = Path(given) if given else state / "run" / f"by-hand-{application}"
        path.mkdir(parents=True, exist_ok=True)
        if not given:
            for name in ("stop", GAVE_UP):
                (path / name).unlink(missing_ok=True)
        return cls(path, clock or SystemClock())

    def report(self, **fields: Any) -> None:
        """Say that work goes on, with numbers that a person may want to see in the task log.

        A full disk ends no application: what there is no room for is not said.
        """
        try:
            write_atomically(self.path / PROGRESS, json.dumps({"at_us": self.clock.now_us(), **fields}))
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise

    def of_part(self, part: str, told: dict[str, dict[str, Any]]) -> RunFolder:
        """The folder as one part of an application sees it that has several: what all of them report is one report.

        `told`, shared by all parts, is what each of them said last; it is written as `parts`, with the incidents of all
        and the oldest commit beside it.
        """
        return _PartFolder(self.path, self.clock, part, told)

    def give_up(self, incident: dict[str, Any]) -> None:
        """Say that a restart would meet the same, before ending: the task fails at once, and is mailed.

        Args:
            incident: `id`, `kind`, `text` (what happened, and what to do) and `fix` (the command to run next).
        """
        write_atomically(self.path / GAVE_UP, json.dumps(incident))

    def keep(self, name: str, value: dict[str, Any]) -> None:
        """Write a file of the application's own, all or nothing."""
        write_atomically(self.path / name, json.dumps(value))

    def kept(self, name: str) -> dict[str, Any]:
        """What `keep` wrote last, as `read_file` gives it."""
        return read_file(self.path / name)

    def stop_requested(self) -> bool:
        """Whether to drain and end."""
        return (self.path / "stop").exists()


@dataclass(frozen=True)
class _PartFolder(RunFolder):
    """What `RunFolder.of_part` gives."""

    part: str
    told: dict[str, dict[str, Any]]

    @override
    def report(self, **fields: Any) -> None:
        with _TELLING:
            self.told[self.part] = fields
            parts = list(self.told.values())
            whole: dict[str, Any] = {name: fields[name] for name in ("application",) if name in fields}
            commits = [part["commit_us"] for part in parts if "commit_us" in part]
            if commits:
                whole["commit_us"] = min(commits)
            whole["incidents"] = [incident for part in parts for incident in part.get("incidents", ())]
            for name in ("rows", "lag_records"):
                whole[name] = sum(part.get(name, 0) for part in parts)
            super().report(**whole, parts=self.told)

    @override
    def keep(self, name: str, value: dict[str, Any]) -> None:
        """The file is this part's own."""
        super().keep(f"{self.part}.{name}", value)

    @override
    def kept(self, name: str) -> dict[str, Any]:
        return super().kept(f"{self.part}.{name}")
