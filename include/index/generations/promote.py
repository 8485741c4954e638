"""Lets readers follow another generation, and drops one that nobody needs any more.

A promotion is one call that moves the alias from the index that was compared to the one that was proved; a second one
that began beside it finds the alias elsewhere and is refused. Rolling back is the same call, as the old generation
stays fed until it is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from include.clock import Clock
from include.errors import Terminal
from include.index.definition import IndexDefinition
from include.index.generations.active import change_fed, read_fed, serving_or_none
from include.index.generations.rebuild_note import read_rebuild, write_rebuild
from include.index.mapping.declared import require_metadata
from include.index.name import IndexName
from include.index.progress.document import NOTES, read_progress
from include.index.server.admin import IndexAdmin
from include.index.server.port import IndexInfo, SearchIndex

__all__ = [
    "Behind",
    "EndsOf",
    "PromotionState",
    "behind",
    "caught_up",
    "drop_generation",
    "promote",
    "rebuilt_generation",
    "standing",
]

EndsOf = Callable[[str], Mapping[int, int]]
"""A topic's end of each partition, now."""
Behind = Mapping[str, int]
"""Topic -> offsets that searches do not see yet; topics without any are left out."""
_POLL_S: Final = 0.25
_IGNORED: Final[Mapping[str, Any]] = {"exists": {"field": "_ignored"}}


@dataclass(frozen=True, slots=True)
class PromotionState:
    """How a generation stands before a promotion. `serving` is the index that readers have now.

    What speaks against it: `lasting` stays until somebody does something, `passing` may be over soon.
    """

    name: IndexName
    info: IndexInfo
    serving: IndexInfo | None
    lasting: tuple[str, ...]
    passing: tuple[str, ...] = ()

    @property
    def refusals(self) -> tuple[str, ...]:
        """All that speaks against it."""
        return (*self.lasting, *self.passing)

    @property
    def serves(self) -> bool:
        """Whether readers have it already."""
        return self.serving is not None and self.serving.uuid == self.info.uuid


def behind(index: SearchIndex, info: IndexInfo, ends: Mapping[str, Mapping[int, int]]) -> Behind:
    """How much searches of an index lack, up to `ends` of each topic."""
    out = {}
    for topic, until in ends.items():
        progress = read_progress(index, info, topic)
        seen = progress.searchable if progress else {}
        lacking = sum(max(0, end - seen.get(p, 0)) for p, end in until.items())
        if lacking:
            out[topic] = lacking
    return out


def caught_up(
    index: SearchIndex, info: IndexInfo, ends: Mapping[str, Mapping[int, int]], clock: Clock, within_s: float
) -> Behind:
    """Wait until searches of an index see all below `ends`; gives what they lack after `within_s`, or nothing."""
    until_s = clock.monotonic_s() + within_s
    while True:
        lacking = behind(index, info, ends)
        if not lacking or clock.monotonic_s() >= until_s:
            return lacking
        clock.sleep(_POLL_S)


def standing(
    index: SearchIndex,
    admin: IndexAdmin,
    name: IndexName,
    definition: IndexDefinition,
    *,
    ends: EndsOf,
    clock: Clock,
    within_s: float,
) -> PromotionState:
    """Finds what speaks against a promotion, but for the comparison of documents. Reads only.

    Args:
        index: the server's documents.
        admin: its indexes as a whole.
        name: of the generation.
        definition: of the index.
        ends: gives a topic's ends at the call, up to which the generation has to be.
        clock: for the wait.
        within_s: longest wait for the generation to get there.

    Raises:
        Terminal: there is no such index, it lacks metadata fields, or its alias leads to no generation of its own.
        Transient: the server does not answer.
    """
    info = index.describe(str(name))
    if info is None:
        raise Terminal("no such generation", index=str(name), fix=f"Run `lyrebird index generations {name.alias}`.")
    require_metadata(info.name, info.mapping)
    refusals: list[str] = []
    lacking: Behind = {}
    if name.generation not in read_fed(index, name.alias):
        refusals.append(f"{name} is not fed: run lyrebird index rebuild {name.alias}")
    interval = admin.settings(info.name).get("refresh_interval", "")
    if interval.startswith("-"):
        refusals.append(f"{name} is not refreshed: run lyrebird index rebuild {name.alias}")
    else:
        lacking = caught_up(index, info, {topic: ends(topic) for topic in definition.topics}, clock, within_s)
    ignored = admin.count(info.name, _IGNORED)
    if ignored:
        refusals.append(f"{name} ignores a value in {ignored:,} documents: they cannot be searched by it")
    late = [
        f"{name} is {count:,} offsets of {topic} behind: see that {definition.application} runs"
        for topic, count in lacking.items()
    ]
    return PromotionState(name, info, serving_or_none(index, name.alias), tuple(refusals), tuple(late))


def rebuilt_generation(index: SearchIndex, alias: str) -> int:
    """The number of the generation that was rebuilt last; raises `Terminal` when there was none."""
    note, _ = read_rebuild(index, alias)
    if note is None:
        raise Terminal("nothing was rebuilt", alias=alias, fix=f"Run `lyrebird index rebuild {alias}`.")
    return note.generation


def promote(index: SearchIndex, admin: IndexAdmin, found: PromotionState) -> None:
    """Let readers follow the generation.

    The steps:

    1. the alias moves from the index that `found` was compared with, in one stroke; refused when it is elsewhere,
    2. the note of the rebuild says that readers had it.

    Killed after 1, the generation serves, and a call does 2.
    """
    if not found.serves:
        admin.move_alias(found.name.alias, found.info.name, source=found.serving.name if found.serving else None)
    note, last = read_rebuild(index, found.name.alias)
    if note is not None and note.generation == found.name.generation and note.stage != "promoted":
        write_rebuild(index, note.at("promoted"), last)


def drop_generation(index: SearchIndex, admin: IndexAdmin, name: IndexName) -> None:
    """Feed a generation no more and delete its index.

    The steps, each of which may be done again:

    1. the application feeds it no more,
    2. the index is deleted, in one stroke with proof that another one serves, where one does,
    3. its progress documents are deleted; an application that still holds them is fenced, and lets it go.

    Raises `Terminal` for the index that serves, or when a promotion chose it meanwhile: it is fed again then.
    """
    now = serving_or_none(index, name.alias)
    if now is not None and now.name == str(name):
        raise Terminal(
            "this generation serves readers",
            index=str(name),
            fix=f"Promote another one first: `lyrebird index promote {name.alias} --generation N`.",
        )
    there = index.describe(str(name))
    fed = read_fed(index, name.alias)
    if there is None and name.generation not in fed and not index.forget_notes(NOTES, str(name)):
        raise Terminal("no such generation", index=str(name), fix=f"Run `lyrebird index generations {name.alias}`.")
    change_fed(index, name.alias, remove=[name.generation])
    if there is not None:
        try:
            admin.retire(name.alias, str(name), serving=now.name if now else None)
        except Terminal:
            if index.describe(str(name)) is not None and name.generation in fed:
                change_fed(index, name.alias, add=[name.generation])
            raise
    index.forget_notes(NOTES, str(name))
