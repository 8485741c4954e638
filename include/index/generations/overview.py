"""All generations of an alias at one look: which serves, which are fed, how far and how large they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from include.clock import iso
from include.index.definition import IndexDefinition
from include.index.generations.active import read_fed
from include.index.generations.promote import EndsOf
from include.index.generations.rebuild_note import read_rebuild
from include.index.name import IndexName
from include.index.progress.document import read_progress
from include.index.server.admin import IndexAdmin, StoredIndex
from include.index.server.port import IndexInfo, SearchIndex

__all__ = ["Generation", "generations_of"]


@dataclass(frozen=True, slots=True)
class Generation:
    """One of them; `stored` is None for one that is fed and whose index is missing.

    `waiting` counts offsets of its topics that it has not settled, None when it has settled nothing yet.
    """

    name: IndexName
    stored: StoredIndex | None
    fed: bool
    filling: bool
    waiting: int | None

    @property
    def state(self) -> str:
        """In words: serving, filling, fed, missing, or idle."""
        if self.stored is None:
            return "missing"
        if self.stored.serving:
            return "serving"
        return "filling" if self.filling else "fed" if self.fed else "idle"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        stored = self.stored
        return {
            "generation": self.name.generation,
            "index": str(self.name),
            "state": self.state,
            "serving": stored is not None and stored.serving,
            "fed": self.fed,
            "documents": stored.documents if stored else None,
            "bytes": stored.size_bytes if stored else None,
            "waiting": self.waiting,
            "created": iso(stored.created_ms * 1000) if stored else None,
            "uuid": stored.uuid if stored else None,
        }


def generations_of(
    index: SearchIndex, admin: IndexAdmin, alias: str, definition: IndexDefinition, ends: EndsOf
) -> list[Generation]:
    """Those that are stored and those that are fed, by number."""
    fed = read_fed(index, alias)
    note, _ = read_rebuild(index, alias)
    filling = note.generation if note is not None and note.stage == "filling" else None
    until = {topic: ends(topic) for topic in definition.topics}
    out = {number: Generation(IndexName(alias, number), None, True, False, None) for number in fed}
    for stored in admin.generations(alias):
        number = stored.name.generation
        info = IndexInfo(str(stored.name), stored.uuid, {}, {})
        out[number] = Generation(
            stored.name, stored, number in fed, number == filling and number not in fed, _waiting(index, info, until)
        )
    return [out[number] for number in sorted(out)]


def _waiting(index: SearchIndex, info: IndexInfo, until: Mapping[str, Mapping[int, int]]) -> int | None:
    progress_by_topic = {topic: read_progress(index, info, topic) for topic in until}
    if not any(progress_by_topic.values()):
        return None
    total = 0
    for topic, ends in until.items():
        progress = progress_by_topic[topic]
        acked = progress.acked if progress else {}
        total += sum(max(0, end - acked.get(p, 0)) for p, end in ends.items())
    return total
