"""Two stores' answers to one question: are they the same, and where not? Pure.

What is no difference: how a moment is written (zone, precision below `precision_us`), that one store gives a number and
the other its text (12.3, "12.30"), null or absent, the order of documents of equal time, where a page is cut, and which
of equal times it cuts off.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import zip_longest
from typing import Any, Literal

from include.search.cursor import field_of, moment_us

__all__ = ["AnswerDifference", "AnswerDifferenceKind", "ComparisonRules", "Listing", "differences", "same_value"]

AnswerDifferenceKind = Literal["missing", "extra", "order", "field"]
"""missing: the new store lacks it. extra: the old one does. order: the same ones in another order. field: a value."""


@dataclass(frozen=True, slots=True)
class Listing:
    """An answer: ids with their bodies, in order. `size`: most that was asked for; None: all."""

    documents: tuple[tuple[str, Mapping[str, Any]], ...]
    size: int | None = None


@dataclass(frozen=True, slots=True)
class ComparisonRules:
    """How answers are compared. `time_field`: what lists are sorted by; `ignored`: fields, with dots, left out."""

    time_field: str
    precision_us: int = 1
    ignored: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class AnswerDifference:
    """One of them; `field` is its path without the numbers of list items, `old` and `new` are what was read."""

    kind: AnswerDifferenceKind
    doc_id: str
    field: str = ""
    old: Any = None
    new: Any = None

    @property
    def name(self) -> str:
        """What it is counted under."""
        return f"field {self.field}" if self.kind == "field" else self.kind


def differences(old: Listing, new: Listing, rules: ComparisonRules) -> list[AnswerDifference]:
    """All differences; empty when the answers are the same."""
    sizes = [size for size in (old.size, new.size) if size is not None]
    limit = min(sizes) if sizes else None
    olds, news = old.documents[:limit], new.documents[:limit]
    by_id = dict(news)
    known = {doc_id for doc_id, _ in olds}
    findings = [
        AnswerDifference("missing", doc_id)
        for doc_id, body in olds
        if doc_id not in by_id and not _on_the_edge(body, news, limit, rules)
    ]
    findings += [
        AnswerDifference("extra", doc_id)
        for doc_id, body in news
        if doc_id not in known and not _on_the_edge(body, olds, limit, rules)
    ]
    findings += _order(olds, news, rules)
    for doc_id, body in olds:
        if doc_id in by_id:
            findings += _fields(doc_id, body, by_id[doc_id], rules, "")
    return findings


def same_value(old: Any, new: Any, precision_us: int = 1) -> bool:
    """Whether two plain values mean the same."""
    if old is None or new is None or isinstance(old, bool) or isinstance(new, bool):
        return old is new
    numbers = _number(old, new), _number(new, old)
    if None not in numbers:
        return numbers[0] == numbers[1]
    moments = _moment(old), _moment(new)
    if moments[0] is not None and moments[1] is not None:
        return moments[0] // precision_us == moments[1] // precision_us
    return bool(old == new)


def _order(
    olds: Sequence[tuple[str, Any]], news: Sequence[tuple[str, Any]], rules: ComparisonRules
) -> list[AnswerDifference]:
    """The first document, of those in both answers, that stands elsewhere and has another time."""
    both = {doc_id for doc_id, _ in olds} & {doc_id for doc_id, _ in news}
    first = [(doc_id, body) for doc_id, body in olds if doc_id in both]
    second = [(doc_id, body) for doc_id, body in news if doc_id in both]
    for (doc_id, body), (other, other_body) in zip(first, second, strict=True):
        if doc_id != other and not same_value(_time(body, rules), _time(other_body, rules), rules.precision_us):
            return [AnswerDifference("order", doc_id, old=doc_id, new=other)]
    return []


def _fields(doc_id: str, old: Any, new: Any, rules: ComparisonRules, path: str) -> list[AnswerDifference]:
    if path in rules.ignored:
        return []
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        names = sorted(old.keys() | new.keys())
        below = [(name, old.get(name), new.get(name)) for name in names]
        return [
            difference
            for name, was, now in below
            for difference in _fields(doc_id, was, now, rules, f"{path}.{name}" if path else name)
        ]
    if _is_list(old) and _is_list(new):
        pairs = zip_longest(old, new)
        return [difference for was, now in pairs for difference in _fields(doc_id, was, now, rules, path)]
    if same_value(old, new, rules.precision_us):
        return []
    return [AnswerDifference("field", doc_id, path, old, new)]


def _on_the_edge(
    body: Mapping[str, Any], others: Sequence[tuple[str, Mapping[str, Any]]], limit: int | None, rules: ComparisonRules
) -> bool:
    """Whether a full page may have left it out, as it is as old as the page's last document."""
    if limit is None or len(others) < limit:
        return False
    return same_value(_time(body, rules), _time(others[-1][1], rules), rules.precision_us)


def _time(body: Mapping[str, Any], rules: ComparisonRules) -> Any:
    return field_of(body, rules.time_field)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _number(value: Any, other: Any) -> Decimal | None:
    """As a number; a text only beside a number, as two texts mean what they say."""
    if isinstance(value, int | float | Decimal):
        return Decimal(str(value))
    if not isinstance(value, str) or not isinstance(other, int | float | Decimal):
        return None
    try:
        found = Decimal(value)
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def _moment(value: Any) -> int | None:
    if isinstance(value, dt.datetime):
        value = value.isoformat()
    if not isinstance(value, str) or len(value) < len("2026-11-02T03:04") or value[10:11] not in ("T", " "):
        return None
    try:
        return moment_us(value)
    except ValueError:
        return None
