"""`lyrebird binlog cat` without its command line: rows of recordings and of files made by hand; what is left out."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import fastavro
import pytest

from include.errors import Terminal
from include.source.binlog.event_type import EventType
from include.source.cat.cat import Cat
from include.source.cat.schema_rows import described
from tests.support.binlog.builder import description, query_body, raw, rows_body, table_map_body, xid_body
from tests.support.binlog.cat_check import printed, prove, told
from tests.support.golden.recording import load, names
from tests.unit.source.rows.test_images import OLD_METADATA, OLD_ROW, OLD_TYPES

SAMPLE = [
    *names()[::9],
    ("mariadb-11.4", "hash-keys-unnamed"),
    ("mariadb-11.4", "image-mixed"),
    ("mysql-9.7", "image-minimal"),
    ("mysql-9.7", "payload"),
]
DESCRIPTION = description("5.6.21-log")
V1 = EventType.WRITE_ROWS
INT_SIGNED = b"\x01\x01\x00"


@pytest.mark.parametrize("given", [False, True], ids=["by-map", "by-schema"])
@pytest.mark.parametrize(("server", "case"), SAMPLE)
def test_what_is_printed_is_what_select_showed(server: str, case: str, given: bool) -> None:
    recording = load(server, case)
    if given or told(recording):
        assert prove(recording, given)


def run(
    *events: bytes, schema: list[dict[str, Any]] | None = None, **options: Any
) -> tuple[list[dict[str, Any]], list[str]]:
    """The lines of one file of these events, and what was refused."""
    refused: list[str] = []
    cat = Cat(lambda error: refused.append(str(error)), Path(gettempdir()), described(schema or []), **options)
    cat.on_file("old.000001")
    lines = [line for event in events for line in cat.on_event(event)]
    unfinished = cat.on_end()
    return lines, refused + ([str(unfinished)] if unfinished else [])


def begin() -> bytes:
    return raw(2, query_body("BEGIN"))


def xid() -> bytes:
    return raw(16, struct.pack("<Q", 1))


def one_int(table: str, *numbers: int, table_id: int = 1, fields: bytes = INT_SIGNED) -> tuple[bytes, bytes]:
    images = b"".join(b"\0" + struct.pack("<i", number) for number in numbers)
    return raw(19, table_map_body(table_id, table, fields=fields)), raw(V1, rows_body(table_id, images))


def ids(lines: list[dict[str, Any]]) -> list[Any]:
    return [next(iter((line["after"] or line["before"]).values())) for line in lines]


OLD_SCHEMA = [
    ("id", "int(11)", None, None, None),
    ("a", "int(11)", None, None, None),
    ("b", "varchar(255)", None, None, "latin1"),
    ("c", "decimal(10,2)", 10, 2, None),
    ("d", "decimal(10,2) unsigned/*old*/", 10, 2, None),
    ("e", "decimal(5,3)/*old*/", 5, 3, None),
    ("f", "datetime", None, None, None),
    ("g", "decimal(5,3)/*old*/", 5, 3, None),
    ("h", "varchar(40)", None, None, "latin1"),
    ("i", "datetime", None, None, None),
    ("j", "datetime", None, None, None),
    ("k", "varchar(10)", None, None, "latin1"),
    ("l", "int(11)", None, None, None),
    ("m", "int(10) unsigned", None, None, None),
    ("n", "varchar(255)", None, None, "latin1"),
    ("o", "varchar(1023)", None, None, "latin1"),
]


def test_a_file_of_the_old_world_is_read_by_what_information_schema_says() -> None:
    schema = [
        {
            "TABLE_SCHEMA": "shop",
            "TABLE_NAME": "old",
            "ORDINAL_POSITION": place,
            "COLUMN_NAME": name,
            "COLUMN_TYPE": kind,
            "NUMERIC_PRECISION": precision,
            "NUMERIC_SCALE": scale,
            "DATETIME_PRECISION": 0 if kind == "datetime" else None,
            "CHARACTER_SET_NAME": charset,
            "COLUMN_KEY": "PRI" if name == "id" else "",
        }
        for place, (name, kind, precision, scale, charset) in enumerate(OLD_SCHEMA, 1)
    ]
    described_ = description("5.1.73-log", checksum=None, types=27)
    body = struct.pack("<IHH", 7, 0, 1) + b"\x10\xff\xff" + b"\0\0" + OLD_ROW
    events = [
        described_,
        raw(2, query_body("BEGIN"), checksum=False),
        raw(19, table_map_body(7, "old", types=OLD_TYPES, metas=OLD_METADATA), checksum=False),
        raw(V1, body, checksum=False),
        raw(16, struct.pack("<Q", 1), checksum=False, end=4 + len(described_) + 500),
    ]
    lines, refused = run(*events, schema=schema[::-1])
    assert refused == []
    assert lines == [
        {
            "file": "old.000001",
            "pos": lines[0]["pos"],
            "gtid": None,
            "server_id": 1,
            "timestamp": "1970-01-01T00:00:01.000000Z",
            "database": "shop",
            "table": "old",
            "op": "c",
            "before": None,
            "after": {
                "id": 1,
                "a": -2,
                "b": "caf",
                "c": "0.00",
                "d": "0.00",
                "e": "0.000",
                "f": "2026-11-21 12:34:56",
                "g": "-1.500",
                "h": "12",
                "i": "0000-00-00 00:00:00",
                "j": "2026-02-31 00:00:00",
                "k": "é",
                "l": -1,
                "m": 4_000_000_000,
                "n": "",
                "o": "hello",
            },
        }
    ]
    lines, refused = run(*events)
    assert lines == []
    assert len(refused) == 1
    assert "table='shop.old'" in refused[0]
    assert "--schema" in refused[0]


def test_columns_without_names_are_numbered() -> None:
    lines, refused = run(DESCRIPTION, begin(), *one_int("t", 5), xid())
    assert [line["after"] for line in lines] == [{"@1": 5}]
    assert refused == []


def test_a_table_that_cannot_be_read_is_named_once_and_the_rest_goes_on() -> None:
    bad = [event for _ in range(3) for event in one_int("bad", 1, fields=b"")]
    lines, refused = run(DESCRIPTION, begin(), *bad, *one_int("t", 5), xid())
    assert ids(lines) == [5]
    assert len(refused) == 1
    assert "shop.bad" in refused[0]


def test_a_table_map_that_cannot_be_read_takes_only_its_own_rows_away() -> None:
    unknown = raw(19, table_map_body(1, "odd", types=b"\x63"))
    rows = raw(V1, rows_body(1, b"\0" + bytes(4)))
    lines, refused = run(DESCRIPTION, begin(), unknown, rows, unknown, rows, *one_int("t", 5), xid())
    assert ids(lines) == [5]
    assert len(refused) == 1
    assert "shop.odd" in refused[0]


def test_events_of_an_unknown_type_are_named_and_the_rest_is_printed() -> None:
    lines, refused = run(DESCRIPTION, begin(), *one_int("t", 5), raw(200, b"what"), *one_int("t", 6), xid())
    assert ids(lines) == [5, 6]
    assert len(refused) == 1
    assert "type=200" in refused[0]


def test_a_transaction_whose_bounds_are_not_known_is_left_out_whole() -> None:
    broken = raw(2, query_body("COMMIT"))[:-1] + b"\0"
    events = [begin(), *one_int("t", 5), broken, begin(), *one_int("t", 6), xid()]
    lines, refused = run(DESCRIPTION, *events)
    assert ids(lines) == [6]
    assert len(refused) == 1
    assert "checksum" in refused[0]
    assert ids(run(DESCRIPTION, *events, everything=True)[0]) == [5, 6]


def test_rolled_back_and_unfinished_rows_are_printed_on_demand_only() -> None:
    undone = [begin(), *one_int("t", 1), raw(2, query_body("ROLLBACK"))]
    events = [DESCRIPTION, *undone, begin(), *one_int("t", 2), xid(), begin(), *one_int("t", 3)]
    lines, refused = run(*events)
    assert ids(lines) == [2]
    assert len(refused) == 1
    assert "ends inside of a transaction" in refused[0]
    assert ids(run(*events, everything=True)[0]) == [1, 2, 3]


def test_a_prepared_transaction_is_printed_at_its_commit_and_asked_for_where_it_is_missing() -> None:
    name = "X'6c79',X'',1"
    prepare = [
        raw(2, query_body(f"XA START {name}")),
        *one_int("t", 1),
        raw(2, query_body(f"XA END {name}")),
        raw(38, b"\0" + xid_body(b"ly")),
    ]
    commit = raw(2, query_body(f"XA COMMIT {name}"))
    between = [begin(), *one_int("t", 2), xid()]
    lines, refused = run(DESCRIPTION, *prepare, *between, commit)
    assert (ids(lines), refused) == ([2, 1], [])
    lines, refused = run(DESCRIPTION, commit, *between)
    assert ids(lines) == [2]
    assert len(refused) == 1
    assert "XA PREPARE" in refused[0]


def test_a_prepared_transaction_waits_over_the_end_of_its_file() -> None:
    recording = load("mariadb-11.4", "xa-commit")
    lines, _ = printed(recording, given=False)
    whole, refused = run(*_events(recording.data), *_events(recording.data)[:1])
    assert refused == []
    assert len(whole) == len(lines) > 0


def _events(data: bytes) -> list[bytes]:
    from include.source.binlog.files import read_events

    return list(read_events(io.BytesIO(data)))


def test_statements_that_changed_rows_as_text_are_named() -> None:
    lines, refused = run(DESCRIPTION, begin(), raw(2, query_body("DELETE FROM t")), *one_int("t", 5), xid())
    assert ids(lines) == [5]
    assert len(refused) == 1
    assert "logged as text" in refused[0]


def test_only_wanted_tables_are_printed_and_read() -> None:
    bad = one_int("bad", 1, fields=b"")
    lines, refused = run(
        DESCRIPTION,
        begin(),
        *bad,
        *one_int("t", 5),
        xid(),
        wanted=lambda database, table: (database, table) == ("shop", "t"),
    )
    assert (ids(lines), refused) == ([5], [])


def test_avro_images_read_back_by_the_schema_that_came_before() -> None:
    for case in ("image-minimal", "datetimes", "integers"):
        lines, refused = printed(load("mysql-9.7", case), given=False, avro=True)
        plain, _ = printed(load("mysql-9.7", case), given=False)
        assert refused == []
        schemas: dict[str, Any] = {}
        rows = 0
        for line in lines:
            if "schema" in line:
                schemas[line["table"]] = fastavro.parse_schema(line["schema"])
                continue
            for side in ("before", "after"):
                image, shown = line[side], plain[rows][side]
                assert (image is None) == (shown is None)
                if image is not None:
                    stream = io.BytesIO(bytes.fromhex(image["hex"]))
                    fastavro.schemaless_reader(stream, schemas[line["table"]], None)
                    assert not stream.read()
                    fields = [
                        field["name"] for field in schemas[line["table"]]["fields"] if field["name"] != "_invalid"
                    ]
                    assert set(fields) - set(image.get("absent", [])) == set(shown)
            rows += 1
        assert rows == len(plain) > 0


def test_positions_begin_anew_with_each_file() -> None:
    refused: list[Terminal] = []
    cat = Cat(refused.append, Path(gettempdir()))
    for name in ("bin.000001", "bin.000002"):
        cat.on_file(name)
        at = 4
        found = []
        for kind, body in ((15, b""), (2, query_body("BEGIN")), (19, b""), (23, b""), (16, struct.pack("<Q", 1))):
            if kind == 15:
                event = description("5.6.21-log", end=4 + len(DESCRIPTION))
            elif kind == 19:
                event = one_int("t", 5)[0]
            elif kind == 23:
                event = one_int("t", 5)[1]
            else:
                event = raw(kind, body)
            at += len(event)
            found += list(cat.on_event(event))
        assert [(line["file"], line["pos"]) for line in found] == [(name, at)]
        assert cat.on_end() is None
    assert refused == []


@pytest.mark.parametrize(
    "rows",
    [
        [{"TABLE_NAME": "t"}],
        ["text"],
        [
            {"TABLE_SCHEMA": "d", "TABLE_NAME": "t", "ORDINAL_POSITION": 1, "COLUMN_NAME": name, "COLUMN_TYPE": "int"}
            for name in "ab"
        ],
        [{"TABLE_SCHEMA": "d", "TABLE_NAME": "t", "ORDINAL_POSITION": "x", "COLUMN_NAME": "a", "COLUMN_TYPE": "int"}],
    ],
)
def test_a_schema_that_is_none_is_refused(rows: Any) -> None:
    with pytest.raises(Terminal, match=r"information_schema\.columns"):
        described(rows)
