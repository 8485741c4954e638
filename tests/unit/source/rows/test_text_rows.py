"""Rows of a SELECT from the bytes of a connection: the compiled reader against the Python one, and the protocol."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pymysql
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import Terminal
from include.record.schema import Column, TableSchema
from include.source.rows import text_rows
from include.source.rows.avro import NULL
from include.source.rows.shape import EncodedImage, TableShape
from include.source.rows.text import row_reader, text_charset
from include.source.rows.text_rows import select_rows
from tests.support.binlog.decoded_recording import converted, shape_of
from tests.support.golden.recording import load, names

Row = tuple[bytes | None, ...]
EOF_PACKET = b"\xfe\0\0\2\0"
COLUMNS = (
    Column("tiny", "tinyint"),
    Column("int_u", "int", unsigned=True),
    Column("big", "bigint"),
    Column("big_u", "bigint", unsigned=True),
    Column("year", "year"),
    Column("dec", "decimal", precision=12, scale=2),
    Column("dec_0", "decimal", precision=18, scale=0),
    Column("dec_all", "decimal", precision=18, scale=18),
    Column("dec_wide", "decimal", precision=65, scale=30),
    Column("float", "float"),
    Column("double", "double"),
    Column("bit", "bit", length=5),
    Column("bit_64", "bit", length=64),
    Column("date", "date"),
    Column("datetime", "datetime"),
    Column("datetime_6", "datetime", digits=6),
    Column("stamp_3", "timestamp", digits=3),
    Column("time", "time"),
    Column("time_6", "time", digits=6),
    Column("text", "text", charset="utf8mb4"),
    Column("enum", "enum", charset="utf8mb4", labels=("a", "b")),
    Column("json", "json"),
    Column("blob", "blob"),
    Column("uuid", "uuid"),
    Column("vector", "vector", length=3),
    Column("point", "point"),
)


def shape(columns: tuple[Column, ...], **more: Any) -> TableShape:
    every = (Column("id", "int"), *columns)
    return TableShape(every, TableSchema("shop", "t", every, ("id",)), **more)


def packet(payload: bytes, number: int) -> bytes:
    out = b""
    while True:
        part, payload = payload[:0xFFFFFF], payload[0xFFFFFF:]
        out += len(part).to_bytes(3, "little") + bytes((number & 0xFF,)) + part
        number += 1
        if len(part) < 0xFFFFFF:
            return out


def length(size: int) -> bytes:
    if size < 0xFB:
        return bytes((size,))
    more = 2 if size < 1 << 16 else 3 if size < 1 << 24 else 8
    return {2: b"\xfc", 3: b"\xfd", 8: b"\xfe"}[more] + size.to_bytes(more, "little")


def text_row(row: Row) -> bytes:
    return b"".join(b"\xfb" if value is None else length(len(value)) + value for value in row)


def result(width: int, rows: list[Row], end: bytes = EOF_PACKET) -> bytes:
    described = [length(width), *[b"\3def" * 6] * width, EOF_PACKET]
    out, number = [], 1
    for payload in (*described, *map(text_row, rows), end):
        out.append(packet(payload, number))
        number += 1 + len(payload) // 0xFFFFFF
    return b"".join(out)


class ScriptedConnection:
    """A connection whose server says `data`, in pieces as `random` has it."""

    client_flag = 0
    _read_timeout = 1.0

    def __init__(self, data: bytes, random: Random | None = None) -> None:
        self.left = data
        self.random = random
        self.asked: list[Any] = []
        self.closed = False
        self._sock = self

    def _execute_command(self, command: int, sql: str) -> None:
        self.asked.append((command, sql))

    def _force_close(self) -> None:
        self.closed = True

    def settimeout(self, seconds: float | None) -> None:
        assert seconds == 1.0

    def recv_into(self, room: memoryview) -> int:
        size = min(len(room), len(self.left))
        if self.random and size:
            size = min(size, self.random.choice((1, 3, 7, 100, 5000)))
        room[:size] = self.left[:size]
        self.left = self.left[size:]
        return size


def read(told: TableShape, rows: list[Row], random: Random | None = None) -> list[EncodedImage]:
    talk: Any = ScriptedConnection(result(len(told.columns) - len(told.skipped), rows), random)
    found = [image for images in select_rows(talk, "SELECT", told) for image in images]
    assert not talk.closed
    assert talk.asked == [(3, "SELECT")]
    return found


def outcome(told: TableShape, rows: list[Row], compiled: bool) -> list[EncodedImage] | str:
    try:
        return read(told, rows) if compiled else [row_reader(told)(row) for row in rows]
    except Terminal as error:
        return str(error)


def moments(random: Random) -> Iterator[bytes]:
    while True:
        date = f"{random.choice((0, 1, 1000, 1970, 2024, 2026, 9999)):04}-{random.randint(0, 12):02}"
        yield f"{date}-{random.choice((0, 1, 28, 29, 30, 31)):02}".encode()


def value(random: Random, column: Column) -> bytes | None:
    """A value as a server may write it."""
    if random.random() < 0.15:
        return None
    kind = column.type
    bits = random.randint(0, 63)
    number = random.getrandbits(bits)
    if kind == "decimal":
        whole, scale = (column.precision or 0) - (column.scale or 0), column.scale or 0
        text = str(random.randrange(10 ** random.randint(0, whole)))
        text += f".{random.randrange(10**scale):0{scale}}" if scale else ""
        return (random.choice(("", "-")) + text).encode()
    if kind in ("float", "double"):
        style = random.randrange(4)
        found = random.choice((random.random() * 10 ** random.randint(-8, 17), random.uniform(-1, 1), float(number)))
        if kind == "float":
            found = struct.unpack("<f", struct.pack("<f", found))[0]
        if style == 3 and kind == "double":
            found = struct.unpack("<d", struct.pack("<Q", random.getrandbits(62)))[0]
        text = repr(found)
        return (text.replace("e+", "e") if style == 1 else text.removesuffix(".0") if style == 2 else text).encode()
    if kind == "bit":
        return random.randbytes((column.length + 7) // 8) if column.length == 64 else bytes((random.randrange(32),))
    if kind in ("date", "datetime", "timestamp"):
        date = next(moments(random))
        clock = f" {random.randrange(24):02}:{random.randrange(60):02}:{random.randrange(60):02}".encode()
        part = f".{random.randrange(10**column.digits):0{column.digits}}".encode() if column.digits else b""
        return date if kind == "date" else date + clock + part
    if kind == "time":
        fraction = f".{random.randrange(10**column.digits):0{column.digits}}" if column.digits else ""
        time = f"{random.randrange(839):02}:{random.randrange(60):02}:{random.randrange(60):02}{fraction}"
        return (random.choice(("", "-")) + time).encode()
    if kind == "vector":
        return random.randbytes(4 * random.randint(0, 3))
    if kind in ("tinyint", "int", "bigint", "year"):
        sign = "-" if random.random() < 0.4 and not column.unsigned else ""
        zeros = "0" * random.choice((0, 4)) if bits < 40 and bits % 2 == 0 else ""
        number = (1 << 64) - 1 - number if column.unsigned and kind == "bigint" and bits % 2 else number
        return f"{sign}{zeros}{number}".encode()
    size = random.choice((0, 1, 5, 31, 32, 33, 250, 251, 300))
    if text_charset(column) is not None:
        return "".join(random.choice("abcxyz ?é€🙂") for _ in range(size)).encode()
    return random.randbytes(size)


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**64 - 1), kinds=st.lists(st.sampled_from(COLUMNS), unique=True), rows=st.integers(0, 6))
def test_rows_of_any_columns_are_read_as_python_reads_them(seed: int, kinds: list[Column], rows: int) -> None:
    random = Random(seed)
    told = shape(tuple(kinds))
    made = [(b"%d" % i, *(value(random, column) for column in kinds)) for i in range(rows)]
    assert read(told, made, random) == [row_reader(told)(row) for row in made]


@settings(max_examples=150, deadline=None)
@given(column=st.sampled_from(COLUMNS), data=st.binary(max_size=30), seed=st.integers(0, 2**64 - 1))
def test_what_no_server_says_is_read_or_refused_as_python_does(column: Column, data: bytes, seed: int) -> None:
    random = Random(seed)
    good = bytearray(value(random, column) or b"0")
    for each in b" +-.:e_0195xZ\xb9\0":
        changed = bytearray(good or b"0")
        changed[random.randrange(len(changed))] = each
        for odd in (bytes(changed), good + bytes((each,)), bytes((each,)) + good, bytes((each,))):
            rows: list[Row] = [(b"1", bytes(odd))]
            assert outcome(shape((column,)), rows, compiled=True) == outcome(shape((column,)), rows, compiled=False)
    rows = [(b"1", data)]
    assert outcome(shape((column,)), rows, compiled=True) == outcome(shape((column,)), rows, compiled=False)


@pytest.mark.compiled
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_every_kind_is_read_by_the_compiled_reader_itself(column: Column, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(column.name)
    told = shape((column,))
    rows: list[Row] = [(b"%d" % i, value(random, column)) for i in range(50)]
    expected = [row_reader(told)(row) for row in rows]
    monkeypatch.setattr(text_rows, "row_reader", lambda _: pytest.fail)
    assert read(told, rows) == expected


def test_keys_partitions_masks_and_ignored_columns_are_those_of_the_shape() -> None:
    columns = (
        Column("id", "int"),
        Column("out", "text"),
        Column("day", "date"),
        Column("who", "int"),
        Column("b", "int"),
    )
    schema = TableSchema("shop", "t", (columns[0], *columns[2:]), ("b", "id"), frozenset({"b"}))
    told = TableShape(columns, schema, ("who",), {"day": lambda piece: b"\2\2!" + piece})
    rows: list[Row] = [(b"7", b"2026-02-31", b"-3", None), (b"8", None, b"4", b"5")]
    assert read(told, rows) == [
        EncodedImage(b"\2\x0e" + b"\2\2!\0" + b"\2\5" + b"\0" + NULL, b"\0\x0e", b"\5"),
        EncodedImage(b"\2\x10" + b"\2\2!\0" + b"\2\x08" + b"\2\x0a" + NULL, b"\2\x0a\x10", b"\x08"),
    ]
    with pytest.raises(Terminal, match="holds no value") as refused:
        read(told, [(b"7", None, None, None)])
    assert (refused.value.details["table"], refused.value.details["column"]) == ("shop.t", "who")


def test_a_masked_key_is_read_by_python() -> None:
    column = Column("id", "int")
    told = TableShape((column,), TableSchema("shop", "t", (column,), ("id",)), masks={"id": lambda _: b"\2\0"})
    assert read(told, [(b"7",)]) == [EncodedImage(b"\2\0", b"\x0e", None)]


@pytest.mark.parametrize("server", sorted({server for server, _ in names()}))
def test_rows_that_real_servers_selected_are_read_as_python_reads_them(server: str) -> None:
    compared = 0
    for recording in (load(*name) for name in names() if name[0] == server):
        described = {}
        for change in recording.changes:
            if change.description:
                try:
                    logged = shape_of(change.table, change.description, recording.server)
                    described[change.table] = replace(converted(logged), until=None)
                except Terminal:
                    described.pop(change.table, None)
            told = described.get(change.table)
            if change.dropped or told is None:
                continue
            kept = [i for i in range(len(told.columns)) if i not in told.skipped]
            rows = [tuple(row[i] for i in kept) for row in (*change.gone, *change.come)]
            expected = [row_reader(told)(row) for row in rows]
            assert read(told, rows, Random(1)) == expected
            compared += len(rows)
    assert compared > 50


def test_a_row_of_several_packets_and_lists_of_about_a_piece_are_read() -> None:
    told = shape((Column("blob", "longblob"),))
    rows: list[Row] = [(b"1", b"x" * size) for size in (0xFFFFFF - 6, 0xFFFFFF + 5, *[50_000] * 30, 7)]
    talk: Any = ScriptedConnection(result(2, rows))
    lists = list(select_rows(talk, "SELECT", told))
    assert len(lists) > 4
    assert [image for images in lists for image in images] == [row_reader(told)(row) for row in rows]


def test_packets_may_be_many_as_their_numbers_begin_anew() -> None:
    told = shape(())
    rows: list[Row] = [(b"%d" % i,) for i in range(1000)]
    assert [image.key for image in read(told, rows, Random(2))] == [row_reader(told)(row).key for row in rows]


def test_an_error_among_rows_is_what_pymysql_raises_and_leaves_the_connection() -> None:
    talk: Any = ScriptedConnection(
        result(1, [(b"1",)], b"\xff" + (1317).to_bytes(2, "little") + b"#70100Query was interrupted")
    )
    with pytest.raises(pymysql.err.OperationalError, match=r"1317.*interrupted"):
        list(select_rows(talk, "SELECT", shape(())))
    assert not talk.closed


BROKEN = {
    "cut short": (result(1, [(b"1",)])[:-1], pymysql.err.OperationalError, "Lost connection"),
    "a packet too many": (result(1, [])[:-9] + packet(b"\x011", 9), pymysql.err.InternalError, "packet 9 for packet 4"),
    "shut down": (result(1, [])[:-9] + packet(b"\xffbye", 0), pymysql.err.OperationalError, "Lost connection"),
    "an empty packet": (result(1, [])[:-9] + packet(b"", 4), pymysql.err.InternalError, "empty packet"),
    "more columns": (result(2, []), Terminal, r"other columns.*table='shop\.t'"),
    "no columns": (packet(b"\0\0\0\2\0\0\0", 1), Terminal, "other columns"),
    "too few described": (packet(b"\1", 1) + packet(EOF_PACKET, 2), pymysql.err.InternalError, "too few columns"),
    "a column more described": (
        packet(b"\1", 1) + packet(b"\3def", 2) + packet(b"\3def", 3), pymysql.err.InternalError, "too many columns"),
    "a row cut short": (result(1, [])[:-9] + packet(b"\x051", 4), Terminal, r"row does not end.*table='shop\.t'"),
    "a value too many": (result(1, [])[:-9] + packet(b"\x011\x011", 4), Terminal, "row does not end"),
    "no number": (result(1, [(b"x",)]), Terminal, r"cannot be read.*table='shop\.t'.*column='id'"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_result_is_refused_and_the_connection_closed(case: str) -> None:
    data, kind, message = BROKEN[case]
    talk: Any = ScriptedConnection(data)
    with pytest.raises(kind, match=message):
        list(select_rows(talk, "SELECT", shape(())))
    assert talk.closed


def test_a_reader_that_stops_early_closes_the_connection() -> None:
    told = shape((Column("blob", "blob"),))
    talk: Any = ScriptedConnection(result(2, [(b"1", b"x" * 60_000)] * 20))
    lists = select_rows(talk, "SELECT", told)
    assert next(lists)
    lists.close()  # type: ignore[attr-defined]
    assert talk.closed


def test_a_timeout_is_told_as_a_lost_connection() -> None:
    class Silent(ScriptedConnection):
        def recv_into(self, room: memoryview) -> int:
            raise TimeoutError("timed out")

    talk: Any = Silent(b"")
    with pytest.raises(pymysql.err.OperationalError, match=r"Lost connection.*timed out"):
        list(select_rows(talk, "SELECT", shape(())))
    assert talk.closed
