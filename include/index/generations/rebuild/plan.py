"""Plans a rebuild without doing any of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from include.errors import Terminal
from include.index.generations.active import read_fed, serving_or_none
from include.index.generations.rebuild.ranges import Work, size_of
from include.index.generations.rebuild_note import RebuildNote, declared_hash, read_rebuild
from include.index.name import IndexName
from include.index.progress.document import read_progress
from include.index.server.admin import IndexAdmin
from include.index.server.port import IndexNote, SearchIndex

__all__ = ["RebuildPlan", "make_plan", "unsettled"]

_STEPS: Final = (
    "note that {name} is being filled",
    "make {name} as declared, without refreshes and replicas; no reader sees it",
    "read {total} offsets of {topics} into it, many ranges at once; what is settled stays so after a kill",
    "give it its own settings and refresh it",
    "let {application} write it beside {serving}",
    "note that {name} is followed",
    "wait until it has all that the topics hold, then compare it",
)


@dataclass(frozen=True)
class RebuildPlan:
    """One generation to be filled, or to be filled further: `begun` says how far an earlier run came.

    `body` is what the index is created with in the end. `work` is what the topics hold now and the generation has not
    settled. `followed`: the application writes it already, so that only the comparison is left.
    """

    name: IndexName
    application: str
    serving: str | None
    note: RebuildNote
    last: IndexNote | None
    body: Mapping[str, Any]
    work: Work
    begun: bool = False
    followed: bool = False

    def lines(self) -> list[str]:
        """The steps, numbered, for people."""
        topics = ", ".join(sorted({topic for topic, _ in self.work})) or "no topic"
        said = [
            step.format(
                name=self.name,
                total=f"{size_of(self.work):,}",
                topics=topics,
                application=self.application,
                serving=self.serving or "nothing, as no index serves",
            )
            for step in _STEPS
        ]
        first = len(said) - 1 if self.followed else 0
        head = f"{self.name} {'goes on' if self.begun else 'is new'}; readers have {self.serving or 'no index'}"
        return [head, *(f"{n}. {text}" for n, text in enumerate(said, 1) if n > first)]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "index": str(self.name),
            "generation": self.name.generation,
            "serving": self.serving,
            "resumes": self.begun,
            "followed": self.followed,
            "offsets": size_of(self.work),
        }


def make_plan(
    index: SearchIndex,
    admin: IndexAdmin,
    alias: str,
    application: str,
    body: Mapping[str, Any],
    *,
    begins: Mapping[str, Mapping[int, int]],
    ends: Mapping[str, Mapping[int, int]],
    first: int,
    now_us: int,
    longest_us: int,
    new: bool = False,
) -> RebuildPlan:
    """Choose the generation: one that an earlier run left unfinished, else the next number. Reads only.

    Args:
        index: the server.
        admin: the same server's indexes.
        alias: whose generation.
        application: who feeds it later.
        body: as declared (`mapping.creation`).
        begins: first offset that each partition of each topic still holds.
        ends: their ends.
        first: the number of the first generation, as declared.
        now_us: UTC.
        longest_us: how long a topic keeps the tombstone of a deleted key, at least.
        new: another generation, even if one is unfinished.

    Raises:
        Terminal: an unfinished one was begun from another declaration, or too long ago.
    """
    note, last = read_rebuild(index, alias)
    serves = serving_or_none(index, alias)
    declared = declared_hash(body)
    stored = {one.name.generation for one in admin.generations(alias)}
    fed = set(read_fed(index, alias))
    going_on = None if new else _unfinished(note, declared, serves.name if serves else None, stored, fed)
    if going_on is not None and going_on.generation not in fed:
        _require_fresh(going_on, declared, stored, now_us, longest_us)
    begun = going_on is not None and going_on.generation in stored
    if going_on is not None and not begun:
        going_on = replace(going_on, begun_us=now_us)
    if going_on is None:
        known = {first - 1, *stored, *fed, *([note.generation] if note else [])}
        going_on = RebuildNote(alias, max(known) + 1, declared, "filling", now_us)
    name = IndexName(alias, going_on.generation)
    return RebuildPlan(
        name=name,
        application=application,
        serving=serves.name if serves else None,
        note=going_on,
        last=last,
        body=body,
        work=unsettled(index, str(name), begins, ends),
        begun=begun,
        followed=begun and name.generation in fed,
    )


def unsettled(
    index: SearchIndex, name: str, begins: Mapping[str, Mapping[int, int]], ends: Mapping[str, Mapping[int, int]]
) -> Work:
    """Finds what index `name` has not settled of its topics; all of it when there is no such index yet."""
    info = index.describe(name)
    work = {}
    for topic, until in ends.items():
        progress = read_progress(index, info, topic) if info else None
        acked = progress.acked if progress else {}
        for p, end in until.items():
            start = max(acked.get(p, 0), begins.get(topic, {}).get(p, 0))
            if start < end:
                work[topic, p] = (start, end)
    return work


def _unfinished(
    note: RebuildNote | None, declared: str, serving: str | None, stored: set[int], fed: set[int]
) -> RebuildNote | None:
    """The note of a rebuild that was not promoted and still makes what is declared."""
    if note is None or note.stage == "promoted" or serving == str(IndexName(note.alias, note.generation)):
        return None
    if note.generation not in stored and (note.stage != "filling" or note.declared != declared):
        # Somebody dropped it.
        return None
    if note.generation in fed and note.declared != declared:
        # It is whole; now something else is wanted.
        return None
    return note


def _require_fresh(note: RebuildNote, declared: str, stored: set[int], now_us: int, longest_us: int) -> None:
    name = IndexName(note.alias, note.generation)
    fix = f"Run `lyrebird index drop {note.alias} --generation {note.generation}`, or begin another one by `--new`."
    if note.generation in stored and note.declared != declared:
        raise Terminal("an unfinished rebuild was begun from another declaration", index=str(name), fix=fix)
    if note.generation in stored and now_us - note.begun_us > longest_us:
        # A deletion that it has not read may be gone from the topic, and the document would stay for ever.
        raise Terminal(
            "an unfinished rebuild was begun longer ago than topics keep deletions",
            index=str(name),
            days=round((now_us - note.begun_us) / 86_400e6, 1),
            allowed_days=round(longest_us / 86_400e6, 1),
            fix=fix,
        )
