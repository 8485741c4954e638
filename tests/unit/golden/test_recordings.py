"""The recordings themselves: whole, consistent with what the server said, and holding what they are there for."""

from __future__ import annotations

import struct
from collections import Counter
from functools import cache
from itertools import pairwise

import pytest

from tests.support.golden.cases import CASES
from tests.support.golden.matrix import as_markdown, recorded_on
from tests.support.golden.recording import Recording, load, names
from tests.support.golden.whole import require_whole
from tests.support.paths import GOLDEN
from tests.support.servers.catalogue import SERVERS

_SERVERS = [row.name for row in SERVERS]
_HOLDS = {
    ("mariadb-10.1", "checksum-none"): {23, 24, 25},
    ("mariadb-10.2", "compressed-events"): {165, 166, 167, 168},
    ("mariadb-11.4", "compressed-events"): {165, 166, 167, 168},
    ("mariadb-11.4", "xa-interleaved"): {38},
    ("mariadb-11.4", "statement-format"): {5, 13, 14},
    ("mariadb-11.4", "statements-logged"): {160, 162},
    ("mysql-5.6", "gtid-old"): {33, 35},
    ("mysql-5.6", "image-full"): {30, 31, 32},
    ("mysql-5.6", "statements-logged"): {29},
    ("mysql-9.7", "payload"): {40},
    ("mysql-9.7", "payload-partial-json"): {40},
    ("mysql-9.7", "json-partial"): {39},
    ("mysql-9.7", "json-partial-minimal"): {39},
    ("mysql-9.7", "gtid-anonymous"): {34},
    ("mysql-9.7", "gtid-tagged"): {33, 42},
    ("mysql-9.7", "xa-one-phase"): {38},
}


@cache
def _recordings(server: str) -> tuple[Recording, ...]:
    return tuple(load(*name) for name in names() if name[0] == server)


@pytest.mark.parametrize("server", _SERVERS)
def test_every_file_is_whole_to_its_last_byte(server: str) -> None:
    assert all(require_whole(recording.data)[15] == 1 for recording in _recordings(server))


@pytest.mark.parametrize("server", _SERVERS)
def test_what_the_matrix_names_is_recorded_and_nothing_else(server: str) -> None:
    assert {recording.case for recording in _recordings(server)} == set(recorded_on(server))


@pytest.mark.parametrize("server", _SERVERS)
def test_each_statement_ends_where_an_event_does(server: str) -> None:
    for recording in _recordings(server):
        ends, at = {4}, 4
        while at < len(recording.data):
            at += struct.unpack_from("<I", recording.data, at + 9)[0]
            ends.add(at)
        said = [statement.end for statement in recording.statements]
        assert ends.issuperset(said), recording.case
        assert all(before <= after for before, after in pairwise(said)), recording.case


@pytest.mark.parametrize("server", _SERVERS)
def test_changes_add_up_to_rows_of_the_described_shape(server: str) -> None:
    for recording in _recordings(server):
        for after in range(-1, len(recording.statements)):
            described = recording.descriptions(after)
            for table, rows in recording.rows(after).items():
                assert {len(row) for row in rows} <= {len(described[table].cells)}, (recording.case, table)
        for change in recording.changes:
            assert not Counter(change.gone) & Counter(change.come), recording.case


@pytest.mark.parametrize(("server", "case"), _HOLDS)
def test_a_case_holds_the_events_that_it_is_there_for(server: str, case: str) -> None:
    assert set(require_whole(load(server, case).data)) >= _HOLDS[server, case]


def test_schema_is_what_the_command_documents() -> None:
    (first, *_) = load("mysql-9.7", "enums").schema()
    assert list(first) == [
        "TABLE_SCHEMA",
        "TABLE_NAME",
        "ORDINAL_POSITION",
        "COLUMN_NAME",
        "COLUMN_TYPE",
        "NUMERIC_PRECISION",
        "NUMERIC_SCALE",
        "DATETIME_PRECISION",
        "CHARACTER_SET_NAME",
        "COLUMN_KEY",
    ]


def test_there_are_more_than_sixty_cases_in_less_than_four_megabytes() -> None:
    assert len({case.name for case in CASES}) >= 60
    assert sum(path.stat().st_size for name in _SERVERS for path in (GOLDEN / name).iterdir()) < 4_000_000


@pytest.mark.parametrize("server", ["mariadb-10.1", "mysql-9.7"])
def test_a_flipped_or_missing_byte_is_noticed(server: str) -> None:
    data = load(server, "integers").data
    if server == "mysql-9.7":
        for at in range(0, len(data), 7):
            with pytest.raises((ValueError, struct.error)):
                require_whole(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :])
    for cut in range(1, len(data) - 4):
        with pytest.raises(ValueError, match=r"bytes at|ends|magic"):
            require_whole(data[:-cut])


def test_readme_shows_the_matrix() -> None:
    assert as_markdown() in (GOLDEN / "README.md").read_text("utf-8")
