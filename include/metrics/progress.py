"""What a supervised application tells its guardian, and hears from it, by files in its run folder.

`progress.json`: any change of it counts as progress. `stop`: when it is there, end cleanly with exit code 0.
`gave-up.json`: why it ends, where no restart helps. Files of the application's own (`keep`) are left for its next run;
the guardian removes the first three.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from include.clock import Clock, SystemClock
from include.metrics.exporter import write_atomically

__all__ = ["GAVE_UP", "RunFolder", "supervised"]

GAVE_UP = "gave-up.json"
_GIVEN = "LYREBIRD_RUN"


def supervised() -> bool:
    """Whether a guardian has started this process."""
    return bool(os.environ.get(_GIVEN))


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
        """Say that work goes on, with numbers that a person may want to see in the task log."""
        write_atomically(self.path / "progress.json", json.dumps({"at_us": self.clock.now_us(), **fields}))

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
        """What `keep` wrote last, {} when there is nothing or no JSON object."""
        try:
            found = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def stop_requested(self) -> bool:
        """Whether to drain and end."""
        return (self.path / "stop").exists()
