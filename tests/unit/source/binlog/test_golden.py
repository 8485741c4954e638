"""Recordings of real servers: what the binlog says of each row equals what SELECT says, to the byte.

Both are compared as the Avro images that leave: the streamed one, and the one that a snapshot would send.
"""

from __future__ import annotations

from collections import Counter

import pytest

from include.errors import Terminal
from include.source.binlog.events import QueryEvent
from include.source.binlog.step import RowsEvent
from include.source.binlog.text.ddl import effects
from include.source.rows.shape import TableShape
from tests.support.binlog.decoded_recording import DecodedRecording, selected, server_of, shape_of, transactions
from tests.support.golden.recording import Recording, Table, load, names

REFUSED = {
    # After the update that leaves out the document, nothing has what the changes are of.
    "json-partial-minimal": "changes of a document that is not there",
    "image-minimal": "a row image lacks a column",
    "image-minimal-generated": "a row image lacks a column",
    "image-mixed": "a row image lacks a column",
    "image-noblob": "a row image lacks a column",
    # SELECT shows ? for bytes that are no character of the charset.
    "charsets-one-byte": "column='c_swe7'",
}
OLD = {
    "enums": "may not be what information_schema shows",
    "charsets-labels": "may not be what information_schema shows",
}
"""Refused where table maps hold no labels."""
SELF_CASCADE = "self-cascade"
UNLOGGED = {"cascades", SELF_CASCADE}
"""Rows that InnoDB changes by itself, which are not logged; within one table without an orphan map either."""
WITHOUT_ORPHANS = {"mariadb-10.1", "mysql-5.6"}


TEXT = "versioned-transactions"
"""MariaDB logs changes of such a table as text, whatever binlog_format says."""


def refusal(server: str, case: str) -> str | None:
    return REFUSED.get(case) or (OLD.get(case) if server in ("mariadb-10.1", "mariadb-10.2", "mysql-5.6") else None)


@pytest.mark.parametrize(("server", "case"), [name for name in names() if refusal(*name) is None and name[1] != TEXT])
def test_streamed_rows_equal_selected_ones(server: str, case: str) -> None:
    recording = load(server, case)
    compared, missed = compare(recording)
    assert compared
    if missed:
        assert case in UNLOGGED
        assert server != "mysql-9.7"
        orphans = {name for transaction in transactions(recording) for name in transaction.orphans}
        assert case == SELF_CASCADE or server in WITHOUT_ORPHANS or missed <= orphans


@pytest.mark.parametrize(("server", "case"), [name for name in names() if refusal(*name)])
def test_what_the_binlog_does_not_tell_is_refused(server: str, case: str) -> None:
    with pytest.raises(Terminal, match=refusal(server, case)):
        compare(load(server, case))


def compare(recording: Recording) -> tuple[int, set[Table]]:
    """Changes that were compared, and tables that changed without a row in the log."""
    decoded = DecodedRecording(recording)
    left = transactions(recording)
    shapes: dict[Table, TableShape] = {}
    compared, missed = 0, set[Table]()
    for number, statement in [(-1, recording.statements[0]), *enumerate(recording.statements)]:
        steps: list[RowsEvent] = []
        texts = set[Table]()
        end = recording.statements[number].end if number >= 0 else 0
        while left and left[0].end.pos <= end:
            for step in left.pop(0).steps:
                if isinstance(step, RowsEvent):
                    steps.append(step)
                else:
                    texts |= changed_by(step, recording.server)
        before = dict(shapes)
        changes = [change for change in recording.changes if change.after == number]
        for change in changes:
            if change.description:
                shapes[change.table] = shape_of(change.table, change.description, recording.server)
        streamed = decoded.change(steps, {**before, **shapes})
        for change in changes:
            if not change.dropped and recording.descriptions(number)[change.table].kind == "SEQUENCE":
                # No table of rows: capture leaves it out.
                streamed.pop(change.table, None)
                continue
            of_text = change.description is not None or change.table in texts
            if change.dropped or (of_text and change.table not in streamed):
                continue
            shape = shapes[change.table]
            expected = selected(shape, change.come)
            expected.subtract(selected(shape, change.gone))
            expected = Counter({row: n for row, n in expected.items() if n})
            if change.table not in streamed:
                missed.add(change.table)
                continue
            found = streamed.pop(change.table)
            if found != expected and recording.case == SELF_CASCADE:
                missed.add(change.table)
            else:
                assert found == expected, statement.sql
            compared += 1
        assert {table: net for table, net in streamed.items() if net and table in shapes} == {}, statement.sql
    assert not [each for each in left if any(isinstance(step, RowsEvent) for step in each.steps)]
    return compared, missed


def changed_by(query: QueryEvent, server: str) -> set[Table]:
    """Tables whose rows change by the text alone: capture reads them anew, or writes a floor."""
    found = effects(query.text, query.database, sql_mode=query.sql_mode, flavour=server_of(server).flavour)
    return {(effect.database, effect.table) for effect in found if effect.kind in ("truncate", "reread", "rows")}


@pytest.mark.parametrize(("server", "case"), [name for name in names() if name[1] == TEXT])
def test_rows_changed_by_statements_logged_as_text_are_those_of_its_table(server: str, case: str) -> None:
    texts = [step for each in transactions(load(server, case)) for step in each.steps if isinstance(step, QueryEvent)]
    assert len(texts) == 4
    assert effects(texts[0].text, "golden")[0].kind == "create"
    for step in texts[1:]:
        assert len(changed_by(step, server)) == 1
