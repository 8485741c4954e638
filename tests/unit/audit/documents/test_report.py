"""What an audit of documents says: the tables behind a field, what is stale, and the command that comes next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from include.audit.documents.judge import DocumentDifference
from include.audit.documents.report import DocumentFinding, DocumentsReport, finding, tables_of
from include.audit.history import StoredRun
from include.audit.history_rows import rows_of
from include.audit.nothing import NothingJudged, exit_status
from include.document.definition import DocumentDefinition

pytestmark = pytest.mark.unit

ORDERS = DocumentDefinition.model_validate(
    {
        "application": "assemble",
        "source": "shop",
        "database": "shop",
        "entity": "order",
        "fact": {"table": "orders", "key": ["order_id"], "newest_by": "id", "state": "state", "final": ["done"]},
        "fields": {"order_id": "order_id", "note": "note"},
        "lookups": {
            "vertical": {
                "via": [{"table": "businesses", "where": {"id": "business_id"}}],
                "table": "verticals",
                "where": {"id": "vertical_id"},
                "value": "name",
            },
            "part": {
                "table": "parts",
                "where": {"order_row_id": "id"},
                "fields": {"name": "name"},
                "lookups": {"maker": {"table": "makers", "where": {"id": "maker_id"}, "value": "name"}},
            },
        },
        "computed": {"total": {"hook": "include.document.hooks.lines_total", "type": "long"}},
        "signals": ["businesses", "parts"],
    }
)


@pytest.mark.parametrize(
    ("field", "tables"),
    [
        ("note", ["orders"]),
        ("vertical", ["businesses", "verticals"]),
        ("part", ["parts"]),
        ("part.name", ["parts"]),
        ("part.maker", ["parts", "makers"]),
        ("total", []),
    ],
)
def test_a_field_names_the_tables_that_it_is_read_of(field: str, tables: list[str]) -> None:
    assert tables_of(field, ORDERS) == tables


@pytest.mark.parametrize(
    ("difference", "kind", "tables"),
    [
        (DocumentDifference("altered", "7", ("note", "total")), "altered", ["orders"]),
        (DocumentDifference("missing", "7"), "missing", []),
        (DocumentDifference("altered", "7", ("total",)), "altered", []),
        (DocumentDifference("altered", "7", ("part.maker",)), "altered", ["makers", "parts"]),
    ],
)
def test_a_difference_keeps_its_kind_where_a_table_signals(
    difference: DocumentDifference, kind: str, tables: list[str]
) -> None:
    found = finding(difference, ORDERS)
    assert (found.kind, list(found.tables)) == (kind, tables)


def test_a_document_that_shows_tables_of_before_is_stale_where_none_of_them_signals() -> None:
    silent = ORDERS.model_copy(update={"signals": []})
    found = finding(DocumentDifference("altered", "7", ("vertical",)), silent)
    assert str(found) == "stale: 7 in vertical of businesses, verticals"
    assert finding(DocumentDifference("altered", "7", ("note", "vertical")), silent).kind == "altered"


def report(**said: Any) -> DocumentsReport:
    return DocumentsReport("assembled_order", "2026-11-25T05:00:07Z", "0-1-7", 900, **said)


LOST = [DocumentFinding("missing", str(key)) for key in range(30)]


@pytest.mark.parametrize(
    ("said", "verdict", "command"),
    [
        ({}, "clean", ""),
        ({"unknown": 4}, "clean", ""),
        ({"unsure": 1}, "incomplete", ""),
        ({"found": LOST, "unsure": 1}, "findings", "lyrebird audit documents assembled_order --repair"),
        ({"found": LOST, "left_out": 9}, "findings", "lyrebird documents rebuild --topic assembled_order"),
        (
            {"found": LOST, "repaired": {"found": 31, "asked": 31}},
            "findings",
            "lyrebird documents rebuild --topic assembled_order",
        ),
        ({"repaired": {"found": 31, "asked": 31}}, "clean", ""),
    ],
)
def test_the_verdict_leads_to_the_command_that_mends(said: dict[str, Any], verdict: str, command: str) -> None:
    made = report(**said)
    assert (made.verdict, made.next_command) == (verdict, command)
    assert made.to_json()["verdict"] == verdict
    assert (made.lines()[-1] == f"  next: {command}") is bool(command)


def test_where_neither_side_has_anything_nothing_was_judged() -> None:
    empty = DocumentsReport("assembled_order", "2026-11-25T05:00:07Z", "0-1-7")
    nothing = empty.or_nothing
    assert isinstance(nothing, NothingJudged)
    assert (nothing.what, nothing.topic, nothing.clean, exit_status([nothing])) == (
        "assembled_order",
        "assembled_order",
        False,
        4,
    )
    said = ({"documents": 3}, {"records": 3}, {"unknown": 1}, {"unsure": 1}, {"found": LOST})
    for judged in (replace(empty, **each) for each in said):
        assert judged.or_nothing is judged
    # Others of the keys may have one.
    part = replace(empty, share=16)
    assert part.or_nothing is part
    assert part.verdict == "incomplete"


def test_a_part_of_the_keys_without_a_document_is_not_clean() -> None:
    part = replace(report(share=16), documents=0, records=90)
    assert part.verdict == "incomplete"
    assert "  no document of the database falls into this part: nothing was compared" in part.lines()
    assert exit_status([part]) == 0
    (row,) = rows_of("document", StoredRun("run", 0, {"documents": {"assembled_order": part.to_json()}}))
    assert (row.clean, row.incomplete, row.details) == (
        False,
        True,
        ("no document of the database falls into this part: nothing was compared",),
    )
    # All of them were deleted, which was looked at.
    assert replace(report(), documents=0, records=90).verdict == "clean"


def test_a_person_reads_what_is_wrong_first_and_not_all_of_it() -> None:
    lines = report(found=LOST, left_out=5, share=16, unknown=2, unheard=["verticals"]).lines()
    assert lines[0] == "assembled_order: 30 missing, 5 more that differ"
    assert lines[1].startswith("  900 documents of the database, one part of 16")
    assert "  2 keys without a document to compare: `lyrebird documents status`" in lines
    assert "  changes of verticals signal nothing: name them under `signals`" in lines
    assert "  … and 10 more" in lines
