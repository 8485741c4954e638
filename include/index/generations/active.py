"""Tells which generations of an alias the application feeds, and which of them serves.

The first is a note beside the progress documents, changed over its last version only: every generation in it gets
every record. The second is the alias alone. So a new generation is filled and proved beside the one that serves, and
an old one stays ready to serve again until it is dropped.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from include.errors import SettingsError, Terminal, Transient
from include.index.name import IndexName
from include.index.progress.document import NOTES, ensure_notes
from include.index.server.port import IndexInfo, IndexNote, SearchIndex

__all__ = ["change_fed", "read_fed", "serving", "serving_or_none"]

_TRIES: Final = 20


def serving(index: SearchIndex, alias: str) -> IndexInfo:
    """The index that readers of `alias` get; raises `Terminal` when there is none.

    A generation's own name stands for itself, so that one that does not serve yet can be looked at in the same way.
    """
    info = serving_or_none(index, alias)
    if info is None:
        raise Terminal("no index serves this alias", alias=alias, fix=f"Run `lyrebird index create {alias}`.")
    return info


def serving_or_none(index: SearchIndex, alias: str) -> IndexInfo | None:
    """The same, or None; raises `Terminal` for an alias that leads to no generation of its own."""
    info = index.describe(alias)
    if info is None or info.name == alias:
        return info
    if _name_of(info, alias) is None:
        raise Terminal(
            "alias leads to an index that is none of its generations",
            alias=alias,
            index=info.name,
            fix=f"Remove it from that index, then run `lyrebird index create {alias}`.",
        )
    return info


def read_fed(index: SearchIndex, alias: str) -> tuple[int, ...]:
    """Numbers of the generations that are fed, ascending; the one that serves is always among them.

    Raises `Terminal` for a note that cannot be read.
    """
    noted = _noted(index.note(NOTES, _note_id(alias)), alias)
    info = index.describe(alias)
    name = _name_of(info, alias) if info else None
    return tuple(sorted({*noted, name.generation} if name else noted))


def _noted(note: IndexNote | None, alias: str) -> set[int]:
    if note is None:
        return set()
    try:
        return {int(number) for number in note.source["fed"]}
    except (KeyError, TypeError, ValueError) as error:
        raise Terminal(
            "note of the fed generations cannot be read",
            index=NOTES,
            note=_note_id(alias),
            fix=f"Delete that document, then run `lyrebird index create {alias}`.",
        ) from error


def change_fed(
    index: SearchIndex, alias: str, *, add: Collection[int] = (), remove: Collection[int] = ()
) -> tuple[int, ...]:
    """Add and remove generations; gives those that are fed from now on. May be called again.

    Raises `Transient` when other processes change the note all the time.
    """
    ensure_notes(index)
    for _ in range(_TRIES):
        last = index.note(NOTES, _note_id(alias))
        before = _noted(last, alias) if last else {*read_fed(index, alias)}
        after = sorted({*before, *add} - {*remove})
        if last is not None and after == sorted(before):
            return read_fed(index, alias)
        if index.write_note(NOTES, _note_id(alias), {"alias": alias, "fed": after}, last) is not None:
            return read_fed(index, alias)
    raise Transient("note of the fed generations changes all the time", system="elasticsearch", alias=alias)


def _note_id(alias: str) -> str:
    return f"generations/{alias}"


def _name_of(info: IndexInfo, alias: str) -> IndexName | None:
    """Its name when it is a generation of `alias`."""
    try:
        name = IndexName.parse(info.name)
    except SettingsError:
        return None
    return name if name.alias == alias else None
