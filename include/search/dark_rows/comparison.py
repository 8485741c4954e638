"""One document beside the rows of its items: are they the same, and where not? Pure.

What is no difference: how a number or a moment is written (`compare.same_value`); null or absent; that an item has
several rows, as a join makes one for each partner of a line, as long as all of them say the same as the document.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from include.search.cursor import field_of
from include.search.dark_launch.compare import same_value
from include.search.dark_rows.definition import DarkRowsDefinition

__all__ = ["DarkRowDifferenceKind", "ReadDocument", "RowDifference", "differences", "items_of"]

DarkRowDifferenceKind = Literal["missing", "extra", "field"]
"""missing: an item has no row. extra: a row has no item. field: both are there, a value is another one."""


@dataclass(frozen=True)
class ReadDocument:
    """A document's body, and the rows that name it, each as it was read."""

    body: Mapping[str, Any]
    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class RowDifference:
    """One of them. `of`: the document's value of that field; `item`: which one; `field`: as in the document."""

    kind: DarkRowDifferenceKind
    of: str
    item: str
    field: str = ""
    document: Any = None
    row: Any = None

    @property
    def name(self) -> str:
        """What it is counted under."""
        return f"field {self.field}" if self.kind == "field" else self.kind

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def items_of(answer: ReadDocument, rules: DarkRowsDefinition) -> int:
    """How many items are to have rows."""
    return len(_items(answer.body, rules))


def differences(answer: ReadDocument, rules: DarkRowsDefinition) -> list[RowDifference]:
    """All differences, by item; empty when both sides say the same."""
    of = str(field_of(answer.body, rules.of))
    items = _by_item(_items(answer.body, rules), rules)
    rows = _by_item(answer.rows, rules)
    findings: list[RowDifference] = []
    for name in sorted(items.keys() | rows.keys(), key=lambda text: (len(text), text)):
        if name not in rows:
            findings.append(RowDifference("missing", of, name))
        elif name not in items:
            findings.append(RowDifference("extra", of, name))
        else:
            told: list[RowDifference] = []
            for item, row in itertools.product(items[name], rows[name]):
                told += [each for each in _fields(of, name, (answer.body, item), row, rules) if each not in told]
            findings += told
    return findings


def _items(body: Mapping[str, Any], rules: DarkRowsDefinition) -> list[Mapping[str, Any]]:
    if any(str(field_of(body, field)) not in values for field, values in rules.only.items()):
        return []
    return list(field_of(body, rules.items) or ())


def _by_item(found: Iterable[Mapping[str, Any]], rules: DarkRowsDefinition) -> Mapping[str, list[Mapping[str, Any]]]:
    out = defaultdict[str, list[Mapping[str, Any]]](list)
    for each in found:
        out[str(field_of(each, rules.item))].append(each)
    return out


def _fields(
    of: str,
    name: str,
    document: tuple[Mapping[str, Any], Mapping[str, Any]],
    row: Mapping[str, Any],
    rules: DarkRowsDefinition,
) -> Iterable[RowDifference]:
    body, item = document
    below = f"{rules.items}."
    for field, of_row in rules.fields.items():
        of_item = field.startswith(below)
        wanted = field_of(item, field.removeprefix(below)) if of_item else field_of(body, field)
        held = field_of(row, of_row)
        if not same_value(wanted, held):
            yield RowDifference("field", of, name, field, wanted, held)
