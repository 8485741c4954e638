"""A run folder in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typing_extensions import override

from include.clock import Clock, ManualClock
from include.metrics.progress import GAVE_UP, PROGRESS, RunFolder

__all__ = ["MemoryRunFolder"]


@dataclass(frozen=True)
class MemoryRunFolder(RunFolder):
    """`files` has what was written, by name; `written` all names, in their order."""

    path: Path = Path("/nowhere")
    clock: Clock = field(default_factory=ManualClock)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)

    @override
    def report(self, **fields: Any) -> None:
        self.keep(PROGRESS, fields)

    @override
    def give_up(self, incident: dict[str, Any]) -> None:
        self.keep(GAVE_UP, incident)

    @override
    def keep(self, name: str, value: dict[str, Any]) -> None:
        self.files[name] = json.loads(json.dumps(value))
        self.written.append(name)

    @override
    def kept(self, name: str) -> dict[str, Any]:
        return self.files.get(name, {})

    @override
    def stop_requested(self) -> bool:
        return "stop" in self.files
