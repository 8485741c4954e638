"""Keeps the result of the last clean audit of a topic for the next one: a note beside the index's progress.

It goes by the index's uuid, so that it never speaks of another index. Losing it costs work, not truth: the next
audit then looks at everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from include.audit.search.bounds import Window
from include.index.progress.document import NOTES, ensure_notes
from include.index.server.port import IndexInfo, IndexNote, SearchIndex

__all__ = ["LastAudit", "LastAuditNote"]


@dataclass(frozen=True)
class LastAudit:
    """`window` is the cut of the last clean audit, in offsets of the topic's `generation`.

    `marks` are sequence numbers by shard: every body up to them was read, or will be in shares from `next_share` on.
    """

    window: Window = field(default_factory=dict)
    marks: Mapping[int, int] = field(default_factory=dict)
    next_share: int = 0
    generation: int = 0

    def window_of(self, generation: int) -> Window:
        """The cut, if it is in offsets of that generation of the topic."""
        return self.window if self.generation == generation else {}

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "window": {str(partition): offset for partition, offset in sorted(self.window.items())},
            "marks": {str(shard): mark for shard, mark in sorted(self.marks.items())},
            "next_share": self.next_share,
            "topic_generation": self.generation,
        }


class LastAuditNote:
    """Reads the note once, and writes it over what was read."""

    def __init__(self, index: SearchIndex, info: IndexInfo, topic: str) -> None:
        self._index = index
        self._id = f"audit/{info.uuid}/{topic}"
        self._about = {"topic": topic, "index": info.name}
        self._note: IndexNote | None = index.note(NOTES, self._id)
        said = self._note.source if self._note else {}
        self.last = LastAudit(
            _numbers(said.get("window", {})),
            _numbers(said.get("marks", {})),
            int(said.get("next_share", 0)),
            int(said.get("topic_generation", 0)),
        )

    def keep(self, **changes: Any) -> None:
        """Replace parts of it. An audit that was quicker keeps its own: that is as good."""
        self.last = replace(self.last, **changes)
        source = {**self._about, **self.last.to_json()}
        if self._note is None or dict(self._note.source) != source:
            ensure_notes(self._index)
            self._note = self._index.write_note(NOTES, self._id, source, self._note) or self._note


def _numbers(said: Mapping[str, Any]) -> dict[int, int]:
    return {int(name): int(value) for name, value in said.items()}
