"""Judges documents of a topic: compares what the database gives for a key with the topic's newest record. Pure.

Each round reads the database at a moment that has all that the topic spoke of before, then the topic as far as it
speaks for that moment. A document is wrong when two rounds in a row find the same on both sides, and the sides
differ. For then the topic's was there before the second look at the database, whose document has not moved since:
were the topic's newer, the database would show it; were it older, its signal would have come. So nothing is called
wrong because it was changed meanwhile, on a replica that lags neither.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol

from include.record.position import SourcePosition

__all__ = [
    "DocumentBody",
    "DocumentDatabase",
    "DocumentDifference",
    "DocumentDifferenceKind",
    "JudgedKeys",
    "NewestRecord",
    "Topic",
    "differing",
    "judged",
]

_ROUNDS: Final = 10

DocumentBody = Mapping[str, Any]
"""A document's fields as JSON has them; those that are null are left out."""
DocumentDifferenceKind = Literal["missing", "extra", "altered"]


class NewestRecord(NamedTuple):
    """The newest record of a key: its version, and the document; None is a tombstone, or that there is none."""

    version: int = -1
    body: DocumentBody | None = None


@dataclass(frozen=True, slots=True)
class DocumentDifference:
    """A document that the topic lacks (`missing`), that it alone has (`extra`), or that is another there.

    `fields` that are not the same, of one that both have; those within an object with a point between.
    """

    kind: DocumentDifferenceKind
    key: str
    fields: tuple[str, ...] = ()


@dataclass
class JudgedKeys:
    """The outcome for the keys that were asked about.

    `unsure` changed whenever they were looked at, so that nothing can be said of them. `unknown` have no document to
    compare: a row that they need is missing, or a hook fails on them, or all their rows are transient.
    """

    wrong: list[DocumentDifference] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


class DocumentDatabase(Protocol):
    """Documents as the database makes them."""

    def documents(self, keys: Collection[str]) -> tuple[SourcePosition, Mapping[str, DocumentBody | None]]:
        """A position that has all that is shown, and the documents: None of a key without rows, left out if unknown.

        What is shown has all that the topic spoke of when it was read last.
        """


class Topic(Protocol):
    """Newest records."""

    def newest(self, keys: Collection[str], at: SourcePosition) -> Mapping[str, NewestRecord]:
        """As of a moment at which the topic speaks for `at`; keys without a record are left out."""


def judged(keys: Collection[str], database: DocumentDatabase, topic: Topic) -> JudgedKeys:
    """Look at these keys until all is clear, or for ten rounds. Raises what the two raise."""
    out, left = JudgedKeys(), set(keys)
    before: dict[str, tuple[DocumentBody | None, NewestRecord]] = {}
    for _ in range(_ROUNDS):
        if not left:
            break
        at, documents = database.documents(left)
        stands = topic.newest(left, at)
        again: dict[str, tuple[DocumentBody | None, NewestRecord]] = {}
        for key in left:
            if key not in documents:
                out.unknown.append(key)
                continue
            pair = documents[key], stands.get(key, NewestRecord())
            if pair[0] == pair[1].body:
                continue
            if before.get(key) == pair:
                out.wrong.append(_difference(key, *pair))
            else:
                again[key] = pair
        left, before = set(again), again
    out.unsure += sorted(left)
    out.wrong.sort(key=lambda each: each.key)
    out.unknown.sort()
    return out


def _difference(key: str, here: DocumentBody | None, there: NewestRecord) -> DocumentDifference:
    if here is None:
        return DocumentDifference("extra", key)
    if there.body is None:
        return DocumentDifference("missing", key)
    return DocumentDifference("altered", key, tuple(differing(here, there.body)))


def differing(here: DocumentBody, there: DocumentBody, above: str = "") -> Iterator[str]:
    """Names of the fields that differ, in the order of their names."""
    for name in sorted({*here, *there}):
        one, other = here.get(name), there.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            yield from differing(one, other, f"{above}{name}.")
        elif one != other:
            yield above + name
