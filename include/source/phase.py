"""Names the phase that a capture is in now, in words for a person who was woken by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from include.clock import iso

__all__ = ["CapturePhase", "phase_of"]

PhaseName = Literal["follows", "reads", "waits", "silent", "stopped", "off"]
"""follows: the binlog; reads: a table for a snapshot; waits: for a system, then goes on by itself; silent: its process
lives and has said nothing for a while; stopped: it ended, and a restart would meet the same; off: no process."""

# A capture that is well reports at least once a second.
_SILENT_AFTER_US: Final = 5_000_000
_SYSTEMS: Final = {
    "kafka": "Kafka",
    "mysql": "the database server",
    "registry": "the schema registry",
    "disk": "room on disk",
}


@dataclass(frozen=True, slots=True)
class CapturePhase:
    """`since_us` None: not known. `tries` counts the attempts of a wait; `fix` is the command that comes next."""

    name: PhaseName
    text: str
    since_us: int | None = None
    awaits: str = ""
    tries: int = 0
    fix: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def phase_of(
    progress: Mapping[str, Any], gave_up: Mapping[str, Any], now_us: int, *, running: bool, away: str = ""
) -> CapturePhase:
    """From what the last capture on this host reported, and why it gave up; {} where it said nothing.

    `away`: the system that does not answer whoever asks for the phase, so hardly capture either.
    """
    at_us = progress.get("at_us")
    if not running:
        return _ended(at_us, gave_up)
    if cause := progress.get("waiting_for"):
        since_us = progress.get("waiting_since_us", at_us)
        what, tries = str(progress.get("waits_for", "")), int(progress.get("attempt", 0))
        text = (
            f"waits for {_SYSTEMS.get(what, what) or 'another system'} {_since(since_us, now_us)}, "
            f"{tries} {'try' if tries == 1 else 'tries'} so far, and goes on by itself: {cause}"
        )
        return CapturePhase("waits", text, since_us, what, tries)
    if at_us is not None and now_us - at_us >= _SILENT_AFTER_US:
        said = f"has said nothing {_since(at_us, now_us)}"
        if away:
            text = f"{said}, and {_SYSTEMS.get(away, away)} does not answer: it waits for it, and goes on by itself"
            return CapturePhase("waits", text, at_us, away)
        text = f"{said}: Kafka or the server keeps it waiting, or a large transaction is on its way"
        return CapturePhase("silent", text, at_us)
    if reading := progress.get("reading"):
        return CapturePhase(
            "reads", f"reads {reading.get('table', 'tables')} for a snapshot", progress.get("started_us")
        )
    return CapturePhase("follows", "follows the binlog", progress.get("started_us"))


def _ended(at_us: int | None, gave_up: Mapping[str, Any]) -> CapturePhase:
    if gave_up:
        text = f"stopped, and a restart would meet the same: {gave_up.get('text', '')}"
        return CapturePhase("stopped", text, at_us, fix=str(gave_up.get("fix", "")))
    last = f"; its last word is of {iso(at_us)}" if at_us is not None else ""
    return CapturePhase("off", f"does not run on this host{last}", at_us)


def _since(since_us: int | None, now_us: int) -> str:
    if since_us is None:
        return "now"
    seconds = max(0, (now_us - since_us) // 1_000_000)
    return f"since {iso(since_us)} ({seconds // 60} min {seconds % 60} s)" if seconds >= 60 else f"for {seconds} s"
