"""Definitions of answers. Every answer says where it came from and up to which position of the source it holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from include.clock import iso
from include.record.position import SourcePosition

__all__ = ["AnswerOrigin", "CompleteTo", "Hit", "Page", "RankedName", "Ranking"]

AnswerOrigin = Literal["index", "index+mysql", "mysql"]
"""index: all of it. index+mysql: the index's answer with newer rows of the database. mysql: without the index."""

_SAID: Final[Mapping[AnswerOrigin, str]] = {
    "index": "the index",
    "index+mysql": "the index, with newer rows of the database",
    "mysql": "the database",
}


@dataclass(frozen=True, slots=True)
class CompleteTo:
    """Whole up to `position` (None: unknown), but for changes of the tables `uncovered`, which capture has set aside.

    `fresh` is False when the write that the caller named may be missing.
    """

    origin: AnswerOrigin
    position: SourcePosition | None
    fresh: bool = True
    uncovered: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        position = self.position.to_json() if self.position else None
        return {
            "origin": self.origin,
            "position": position,
            "fresh": self.fresh,
            "uncovered": list(self.uncovered),
        }

    def line(self) -> str:
        """For people."""
        upto = "position unknown"
        if self.position is not None:
            where = str(self.position.gtids) or str(self.position.binlog)
            # The database does not say when it committed last: its position has the time of the question.
            when = "asked" if self.origin == "mysql" else "committed"
            upto = f"up to {where}, {when} {iso(self.position.commit_us)}"
        if self.origin == "index+mysql":
            upto = f"the index itself {upto}"
        lagging = f"; may lack changes of {', '.join(self.uncovered)}" if self.uncovered else ""
        missing = "" if self.fresh else "; the write that was named may be missing"
        return f"from {_SAID[self.origin]}, {upto}{lagging}{missing}"


@dataclass(frozen=True, slots=True)
class Hit:
    """A living document. `lines`: those of its lines that matched a text; `distance_m`: to the point that was named.

    `version` is None for one that was read from the database, which counts none.
    """

    doc_id: str
    version: int | None
    body: Mapping[str, Any]
    lines: tuple[Mapping[str, Any], ...] = ()
    distance_m: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values, without what does not apply."""
        more: dict[str, Any] = {"lines": [dict(line) for line in self.lines]} if self.lines else {}
        if self.distance_m is not None:
            more["distance_m"] = self.distance_m
        return {"doc_id": self.doc_id, "version": self.version, "body": dict(self.body), **more}


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list. `next` is given to the next call as `after`; None: there is no more."""

    hits: tuple[Hit, ...]
    next: str | None
    seen: CompleteTo

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"hits": [hit.to_json() for hit in self.hits], "next": self.next, "seen": self.seen.to_json()}


@dataclass(frozen=True, slots=True)
class RankedName:
    """One name: lines that have it, documents that such lines belong to, pieces."""

    name: str
    lines: int
    documents: int
    pieces: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """Names by their number of lines, most first. `error`: most lines by which a number may be too small.

    `others`: lines with names that are not listed.
    """

    rows: tuple[RankedName, ...]
    others: int
    error: int
    seen: CompleteTo = field(default_factory=lambda: CompleteTo("index", None))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        rows = [
            {"name": row.name, "lines": row.lines, "documents": row.documents, "pieces": row.pieces}
            for row in self.rows
        ]
        return {"rows": rows, "others": self.others, "error": self.error, "seen": self.seen.to_json()}
