"""Keeps a note of an alias's last rebuild beside the progress documents, so that it goes on after a kill."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast, get_args

import orjson

from include.errors import Terminal
from include.index.progress.document import NOTES, ensure_notes
from include.index.server.port import IndexNote, SearchIndex

__all__ = ["RebuildNote", "RebuildStage", "declared_hash", "read_rebuild", "write_rebuild"]

RebuildStage = Literal["filling", "following", "promoted"]
"""filling: the rebuild reads the topic's past. following: the application feeds it. promoted: readers had it once, so
that the next rebuild makes another generation."""
_STAGES: Final = get_args(RebuildStage)


@dataclass(frozen=True, slots=True)
class RebuildNote:
    """The generation that the last rebuild makes or made, of which declaration, begun when (UTC microseconds)."""

    alias: str
    generation: int
    declared: str
    stage: RebuildStage
    begun_us: int

    def at(self, stage: RebuildStage) -> RebuildNote:
        """The same, at another stage."""
        return replace(self, stage=stage)


def declared_hash(body: Mapping[str, Any]) -> str:
    """Tells one declaration (`mapping.creation`) from another."""
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def read_rebuild(index: SearchIndex, alias: str) -> tuple[RebuildNote | None, IndexNote | None]:
    """The note, and what `write_rebuild` needs to write over it."""
    note = index.note(NOTES, _note_id(alias))
    if note is None:
        return None, None
    try:
        source = note.source
        if source["stage"] not in _STAGES:
            raise ValueError(source["stage"])
        stage = cast("RebuildStage", source["stage"])
        rebuild = RebuildNote(alias, int(source["generation"]), str(source["declared"]), stage, int(source["begun_us"]))
    except (KeyError, TypeError, ValueError) as error:
        raise Terminal(
            "note of the last rebuild cannot be read",
            index=NOTES,
            note=_note_id(alias),
            fix="Delete that document: the next rebuild then makes a new generation.",
        ) from error
    return rebuild, note


def write_rebuild(index: SearchIndex, note: RebuildNote, last: IndexNote | None) -> None:
    """Write `note` over `last`; raises `Terminal` when another process wrote meanwhile."""
    ensure_notes(index)
    source = {
        "alias": note.alias,
        "generation": note.generation,
        "declared": note.declared,
        "stage": note.stage,
        "begun_us": note.begun_us,
    }
    if index.write_note(NOTES, _note_id(note.alias), source, last) is None:
        raise Terminal(
            "another rebuild of this alias has begun",
            alias=note.alias,
            fix=f"Run `lyrebird index generations {note.alias}` to see how far it is.",
        )


def _note_id(alias: str) -> str:
    return f"rebuild/{alias}"
