"""Compares every document with its rows, and tells lag from real differences by the database's position.

1. Read a page of documents and the rows that name them. The same: `equal`.
2. Once enough documents differ, or all were read: note the database's position P, which is behind all that was read.
   Wait until searches of both indexes cover P.
3. Read these documents and their rows again. The same: `lag`. Neither side has changed: both are what they are at P,
   so they differ (`differs`). One has: it takes the place of the first answer, from 2.

What is not decided before the deadline is `undecided`. A document that has gone meanwhile is compared with nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from include.clock import Clock
from include.search.cursor import field_of
from include.search.dark_rows.comparison import ReadDocument, differences, items_of
from include.search.dark_rows.definition import DarkRowsDefinition
from include.search.dark_rows.report import DarkRowsReport
from include.search.dark_rows.sides import RowSides

__all__ = ["compare_rows"]

_SUSPECTS: Final = 1000
_LOOK_S: Final = 0.5


def compare_rows(
    name: str, sides: RowSides, rules: DarkRowsDefinition, clock: Clock, deadline_s: float
) -> DarkRowsReport:
    """Compare all documents; raises what the sides raise.

    Args:
        name: of the entry.
        sides: what is compared.
        rules: by which fields.
        clock: for waiting.
        deadline_s: longest wait for the indexes, of a thousand documents that differ.
    """
    report = DarkRowsReport(name)
    suspects: dict[str, ReadDocument] = {}
    for page in sides.pages():
        for doc_id, answer in _with_rows(sides, rules, page):
            if differences(answer, rules):
                suspects[doc_id] = answer
            else:
                report.decided("equal", items_of(answer, rules), len(answer.rows))
        if len(suspects) >= _SUSPECTS:
            _settle(sides, rules, clock, deadline_s, suspects, report)
            suspects = {}
    _settle(sides, rules, clock, deadline_s, suspects, report)
    return report


def _with_rows(
    sides: RowSides, rules: DarkRowsDefinition, documents: Mapping[str, Mapping[str, Any]]
) -> Iterable[tuple[str, ReadDocument]]:
    named = {doc_id: field_of(body, rules.of) for doc_id, body in documents.items()}
    rows = sides.rows([of for of in named.values() if of is not None])
    for doc_id, body in documents.items():
        own = sorted(rows.get(str(named[doc_id]), ()), key=repr)
        yield doc_id, ReadDocument(body, tuple(own))


def _settle(
    sides: RowSides,
    rules: DarkRowsDefinition,
    clock: Clock,
    deadline_s: float,
    suspects: Mapping[str, ReadDocument],
    report: DarkRowsReport,
) -> None:
    """Steps 2 and 3, until all are decided or the deadline has come."""
    until_s = clock.monotonic_s() + deadline_s
    while suspects and _covered(sides, clock, until_s):
        still: dict[str, ReadDocument] = {}
        for doc_id, answer in _with_rows(sides, rules, sides.documents(suspects.keys())):
            found = differences(answer, rules)
            if found and answer != suspects[doc_id]:
                still[doc_id] = answer
            else:
                report.decided("differs" if found else "lag", items_of(answer, rules), len(answer.rows), found)
        suspects = still
    for answer in suspects.values():
        report.decided("undecided", items_of(answer, rules), len(answer.rows))


def _covered(sides: RowSides, clock: Clock, until_s: float) -> bool:
    """Wait until searches of both sides see all that the database has now; False when the time is over before."""
    position = sides.position()
    while position is not None:
        if all(each is not None and each.covers(position) for each in sides.visible()):
            return True
        if clock.monotonic_s() >= until_s:
            return False
        clock.sleep(_LOOK_S)
    return False
