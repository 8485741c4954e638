"""Bodies: statements, rows up to their images, GTIDs of all kinds, XA, heartbeats."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.record.gtid import Flavour, MariadbGtidSet, MysqlGtidSet
from include.record.position import BinlogPosition
from include.source.binlog.events import (
    QueryEvent,
    parse_heartbeat,
    parse_prepare,
    parse_query,
    parse_rows_head,
)
from include.source.binlog.gtid_event import Xid, parse_gtid
from include.source.binlog.reader import Event, EventType
from tests.support.binlog.builder import SID, image, query_body, rows_body, xid_body

US = 1_795_000_000_123_456


def event(kind: EventType, body: bytes, flavour: Flavour = "mysql") -> Event:
    return Event(kind, 1, 1, 19 + len(body) + 4, 100, False, body, "bin.000001", flavour)


def varlen(number: int) -> bytes:
    for more in range(8):
        if number < 1 << (7 * (more + 1)):
            return ((number << more + 1) | ((1 << more) - 1)).to_bytes(more + 1, "little")
    return b"\xff" + number.to_bytes(8, "little")


def signed(number: int) -> bytes:
    return varlen(number << 1)


def tagged(fields: dict[int, bytes], last_needed: int = 0, version: int = 1) -> bytes:
    content = varlen(last_needed) + b"".join(varlen(number) + value for number, value in fields.items())
    size = len(content) + 2
    size += len(varlen(size)) - 1
    return varlen(version) + varlen(size) + content


TAGGED = {
    0: varlen(1),
    1: b"".join(map(varlen, SID.bytes)),
    2: signed(4711),
    3: varlen(8) + b"some_tag",
    4: signed(0),
    5: signed(1),
    6: varlen(US),
    8: varlen(300),
    9: varlen(90_700),
}


def test_a_statement_comes_in_the_charset_of_its_client() -> None:
    status = b"\x00\0\0\0\0\x01" + b"\4\0\x10" + b"\0" * 5 + b"\x06\x03std\x03\x01\0\x01\0\x04\x08\0\x21\0\x08\0"
    body = query_body("", status=status) + "DROP TABLE `größe`".encode("latin-1")
    assert parse_query(event(EventType.QUERY, body)) == QueryEvent(7, "shop", "DROP TABLE `größe`", 1 << 20 | 4)
    assert parse_query(event(EventType.QUERY, query_body("DROP TABLE `größe`"))).text == "DROP TABLE `größe`"
    broken = query_body("") + b"SELECT '\xff'"
    assert parse_query(event(EventType.QUERY, broken)).text == r"SELECT '\xff'"


def test_a_statement_cut_inside_of_its_head_is_refused() -> None:
    body = query_body("BEGIN", status=b"\x04\x21\0\x21\0\x21\0")
    for cut in range(len(body) - len("BEGIN")):
        with pytest.raises(Terminal, match="cut short"):
            parse_query(event(EventType.QUERY, body[:cut]))


@given(st.binary(max_size=40))
def test_any_status_of_a_statement_is_stepped_over(status: bytes) -> None:
    assert parse_query(event(EventType.QUERY, query_body("BEGIN", status=status))).text == "BEGIN"


def test_extra_data_of_rows_counts_its_own_length() -> None:
    for extra in (b"", b"\x01\x02partition"):
        head = parse_rows_head(event(EventType.WRITE_ROWS_V2, rows_body(5, image(1), v2=True, extra=extra)))
        assert (head.table_id, head.op, head.end_of_statement, head.partial) == (5, "c", True, False)
        assert head.body == b"\x01\x01" + image(1)


def test_a_statement_ends_by_a_bit_whatever_other_flags_say() -> None:
    for flags, end in ((0x11, True), (0x12, False), (0x13, True), (0, False)):
        body = struct.pack("<IHH", 5, 0, flags) + b"\x01\x01"
        assert parse_rows_head(event(EventType.DELETE_ROWS, body)).end_of_statement is end


def test_partial_updates_are_marked() -> None:
    head = parse_rows_head(event(EventType.PARTIAL_UPDATE_ROWS, rows_body(5, v2=True)))
    assert (head.op, head.partial) == ("u", True)


def test_extra_data_that_is_not_there_is_refused() -> None:
    for body in (b"\0" * 9, b"\0" * 8 + b"\x01\0", b"\0" * 8 + b"\x09\0abc"):
        with pytest.raises(Terminal, match="inside of its head"):
            parse_rows_head(event(EventType.WRITE_ROWS_V2, body))


def test_mariadb_gtids_say_how_their_group_goes_on() -> None:
    def found(flags: int, more: bytes = b"\0" * 6) -> tuple[str, bool, bool, bool, int | None]:
        gtid = parse_gtid(event(EventType.GTID, struct.pack("<QIB", 25, 3, flags) + more, "mariadb"))
        assert str(MariadbGtidSet.parse(gtid.text)) == "3-1-25"
        return gtid.text, gtid.standalone, gtid.begun, gtid.no_effect, gtid.thread

    assert found(0x0C) == ("3-1-25", False, True, False, None)
    assert found(0x29) == ("3-1-25", True, False, False, None)
    assert found(0x0E, b"12345678") == ("3-1-25", False, True, False, None)
    assert found(0x8D, struct.pack("<IBB", 1, 2, 1) + b"abc") == ("3-1-25", True, False, False, None)
    assert found(0x29, b"\x02" + b"\0" * 5) == ("3-1-25", True, False, True, None)
    assert found(0x29, b"\x04" + b"12345678") == ("3-1-25", True, False, False, None)
    assert found(0x29, b"\x08" + b"12345678") == ("3-1-25", True, False, True, None)
    assert found(0x0C, b"\x11\x01" + struct.pack("<I", 77)) == ("3-1-25", False, True, False, 77)


def test_mysql_gtids_of_every_age_are_read() -> None:
    head = b"\x01" + SID.bytes + struct.pack("<Q", 4711)
    clock = b"\x02" + b"\0" * 16
    original = (US | 1 << 55).to_bytes(7, "little") + US.to_bytes(7, "little")
    for body, commit_us in (
        (head, None),
        (head + clock, None),
        (head + clock + US.to_bytes(7, "little") + b"\xfc\x2c\x01" + b"\0" * 4, US),
        (head + clock + original + b"\xfc\x2c\x01" + b"\0" * 8, US),
    ):
        gtid = parse_gtid(event(EventType.MYSQL_GTID, body))
        assert (gtid.text, gtid.commit_us, gtid.begun) == (f"{SID}:4711", commit_us, False)
        assert str(MysqlGtidSet.parse(gtid.text)) == gtid.text
        assert parse_gtid(event(EventType.ANONYMOUS_GTID, body)).text == ""


def test_a_tagged_gtid_is_read_by_its_own_format() -> None:
    gtid = parse_gtid(event(EventType.TAGGED_GTID, tagged(TAGGED)))
    assert (gtid.text, gtid.commit_us) == (f"{SID}:some_tag:4711", US)
    assert str(MysqlGtidSet.parse(gtid.text)) == gtid.text
    later = tagged({**TAGGED, 40: b"whatever"})
    assert parse_gtid(event(EventType.TAGGED_GTID, later)) == gtid


@pytest.mark.parametrize(
    "body",
    [
        tagged(TAGGED, version=2),
        tagged(TAGGED, last_needed=41),
        tagged(TAGGED) + b"\0",
        tagged({**TAGGED, 3: varlen(0)}),
        tagged({**TAGGED, 3: varlen(3) + b"\xc3\xa9x"}),
        tagged({**TAGGED, 2: varlen(3)}),
        tagged({**TAGGED, 1: varlen(256) * 16}),
        tagged({number: TAGGED[number] for number in (0, 1, 2)}),
        tagged({1: TAGGED[1], 0: TAGGED[0]}),
    ],
)
def test_a_tagged_gtid_that_says_more_or_less_is_refused(body: bytes) -> None:
    with pytest.raises(Terminal, match=r"tagged GTID says more|malformed"):
        parse_gtid(event(EventType.TAGGED_GTID, body))


def test_a_gtid_cut_at_any_byte_is_refused_or_says_less() -> None:
    body = tagged(TAGGED)
    for cut in range(len(body)):
        with pytest.raises(Terminal):
            parse_gtid(event(EventType.TAGGED_GTID, body[:cut]))


@given(st.integers(0, 2**64 - 1))
def test_integers_of_variable_length_are_read_back(number: int) -> None:
    fields = {**TAGGED, 8: varlen(number)}
    assert parse_gtid(event(EventType.TAGGED_GTID, tagged(fields))).commit_us == US


def test_prepare_names_its_transaction() -> None:
    body = b"\0" + xid_body(b"first", b"branch", 2**32 - 2)
    assert parse_prepare(event(EventType.XA_PREPARE, body)) == (Xid(2**32 - 2, b"first", b"branch"), False)
    assert parse_prepare(event(EventType.XA_PREPARE, b"\x01" + body[1:]))[1] is True
    assert str(Xid(1, b"01", b"")) == "X'3031',X'',1"
    for broken in (body[:-1], body + b"x", b"\x02" + body[1:], b"\0" + xid_body(b""), b"\0" + xid_body(b"x" * 65)):
        with pytest.raises(Terminal, match="malformed"):
            parse_prepare(event(EventType.XA_PREPARE, broken))


def test_heartbeats_of_both_kinds_tell_a_position() -> None:
    assert parse_heartbeat(event(EventType.HEARTBEAT, b"bin.000009")) == BinlogPosition("bin.000009", 100)
    body = b"\x01\x0abin.000009\x02\x09\xfe" + struct.pack("<Q", 2**33) + b"\0"
    assert parse_heartbeat(event(EventType.HEARTBEAT_V2, body)) == BinlogPosition("bin.000009", 2**33)
    for cut in range(len(body)):
        with pytest.raises(Terminal):
            parse_heartbeat(event(EventType.HEARTBEAT_V2, body[:cut]))
