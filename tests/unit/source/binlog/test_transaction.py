"""Groups of both flavours → transactions: savepoints against a naive model, XA, engines that roll nothing back."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.record.gtid import Flavour
from include.record.position import BinlogPosition
from include.source.binlog.events import QueryEvent
from include.source.binlog.gtid_event import Xid
from include.source.binlog.reader import EventType
from include.source.binlog.transaction import Heartbeat, RowsEvent, SourceTransaction
from tests.support.binlog.builder import (
    FILE,
    SID,
    Log,
    builder,
    image,
    query_body,
    raw,
    rows_body,
    table_map_body,
    transactions,
    xid_body,
)

FLAVOURS: tuple[Flavour, Flavour] = ("mariadb", "mysql")
XID = "X'6131',X'',1"


def said(transaction: SourceTransaction) -> list[str]:
    """`table:number` of each row, statements as they are."""
    found = []
    for step in transaction.steps:
        if isinstance(step, QueryEvent):
            found.append(step.text)
        else:
            images = step.body[2:]
            found += [
                f"{step.table.table}:{struct.unpack_from('<i', images, at + 1)[0]}" for at in range(0, len(images), 5)
            ]
    return found


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_rows_come_out_at_their_commit_with_its_position(flavour: Flavour) -> None:
    log = Log(flavour).begin().insert("t", 1, 2)
    made = builder()
    assert transactions(log.events, made) == []
    assert made.unfinished == BinlogPosition(FILE, 4)
    log.xid()
    (found,) = transactions(log.events)
    assert said(found) == ["t:1", "t:2"]
    assert found.end == BinlogPosition(FILE, log.end)
    assert found.gtid == ("0-1-1" if flavour == "mariadb" else f"{SID}:1")
    assert (found.server_id, found.commit_us, found.thread) == (1, 1_000_000, None if flavour == "mariadb" else 7)
    assert found.size_bytes == len(rows_body(1, image(1) + image(2))) - 8


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_statement_stands_alone_or_in_its_group(flavour: Flavour) -> None:
    log = Log(flavour)
    log.gtid(0x29).query("ALTER TABLE t ADD c int", thread=9)
    log.begin().query("CREATE TABLE n (id int)").insert("n", 1).xid()
    log.begin().query("COMMIT")
    alone, within, empty = transactions(log.events)
    assert (said(alone), alone.thread) == (["ALTER TABLE t ADD c int"], 9)
    assert said(within) == ["CREATE TABLE n (id int)", "n:1"]
    assert said(empty) == []


def test_without_gtids_begin_opens_and_statements_stand_alone() -> None:
    log = Log("mysql").query("BEGIN").insert("t", 1).xid().query("DROP TABLE t").query("BEGIN").insert("m", 2)
    log.query("COMMIT")
    found = transactions(log.events)
    assert [said(each) for each in found] == [["t:1"], ["DROP TABLE t"], ["m:2"]]
    assert [each.gtid for each in found] == ["", "", ""]
    assert [each.thread for each in found] == [7, 7, 7]


def test_an_alter_that_is_only_announced_has_no_effect() -> None:
    log = Log().gtid(0x29, b"\x02" + b"\0" * 5).query("ALTER TABLE t RENAME TO u")
    log.gtid(0x29, b"\x08" + b"\0" * 8).query("ALTER TABLE t RENAME TO u")
    log.gtid(0x29, b"\x04" + b"\0" * 8).query("ALTER TABLE t RENAME TO v")
    assert [said(each) for each in transactions(log.events)] == [[], [], ["ALTER TABLE t RENAME TO v"]]


def test_rows_of_tables_that_nobody_captures_are_not_even_parsed() -> None:
    log = Log().gtid().map(1, "t", database="other")
    log.add(EventType.WRITE_ROWS_COMPRESSED, rows_body(1, b"\x99 nonsense")).insert("t", 3).xid()
    assert [said(each) for each in transactions(log.events)] == [["t:3"]]


def test_what_is_wrong_with_a_tables_events_is_told_of_its_rows_and_stops_no_other_table() -> None:
    broken_map = table_map_body(1, "t", fields=b"\x04\x01\x09")
    broken_rows = rows_body(1, b"\x99 nonsense")
    for log in (
        Log().gtid().add(EventType.TABLE_MAP, broken_map).write(1, 5),
        Log().gtid().map(1, "t").add(EventType.WRITE_ROWS_COMPRESSED, broken_rows),
    ):
        log.insert("u", 3).xid().gtid().insert("u", 4).xid()
        first, second = transactions(log.events)
        wrong, other = [step.table for step in first.steps if isinstance(step, RowsEvent)]
        assert (wrong.database, wrong.table, wrong.types, other.refusal) == ("shop", "t", b"", None)
        assert re.search(r"cause=.*file='bin\.000001', pos=\d+, table='shop\.t'", str(wrong.refusal))
        assert said(second) == ["u:4"]


def test_captures_is_asked_once_for_equal_maps() -> None:
    asked: list[tuple[str, str]] = []
    made = builder()

    def captures(database: str, table: str) -> bool:
        asked.append((database, table))
        return True

    made._statement._captures = captures
    log = Log()
    for number in range(5):
        log.gtid().map(number + 1, "t").write(number + 1, number).map(1, "u").write(1, 0).xid()
    tables = [
        step.table for each in transactions(log.events, made) for step in each.steps if isinstance(step, RowsEvent)
    ]
    assert asked == [("shop", "t"), ("shop", "u")]
    assert len({id(table) for table in tables}) == 2


def test_maps_are_kept_by_id_and_interleave() -> None:
    log = Log().gtid().map(30, "a").map(31, "a_event")
    for number in (1, 2):
        log.write(30, number, end=False).write(31, number, end=number == 2)
    found = transactions(log.xid().events)
    assert said(found[0]) == ["a:1", "a_event:1", "a:2", "a_event:2"]
    assert found[0].orphans == ()


def test_a_table_that_replace_maps_twice_is_no_orphan() -> None:
    log = Log().gtid().map(30, "a").map(31, "a_event").write(31, 1, end=False).map(31, "a_event").write(30, 2).xid()
    (found,) = transactions(log.events)
    assert (said(found), found.orphans) == (["a_event:1", "a:2"], ())


def test_a_table_that_is_mapped_twice_before_its_rows_may_have_lost_others_by_a_cascade() -> None:
    """A trigger deletes one child, the foreign key the others, as MariaDB 11.4 logs it."""
    log = Log().gtid().map(23, "p").map(22, "c").map(22, "c").write(22, 9, end=False).write(23, 5).xid()
    (found,) = transactions(log.gtid().insert("c", 1).xid().events)[:1]
    assert (said(found), found.orphans) == (["c:9", "p:5"], (("shop", "c"),))


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_map_without_rows_is_an_orphan_if_somebody_captures_it(flavour: Flavour) -> None:
    log = Log(flavour).begin().map(1, "parent").map(2, "child").map(3, "x", database="other").write(1, 1)
    log.map(1, "parent").write(1, 2).map(4, "last").xid().begin().insert("t", 1).xid()
    first, second = transactions(log.events)
    assert first.orphans == (("shop", "child"), ("shop", "last"))
    assert second.orphans == ()


def test_orphans_of_what_is_rolled_back_are_forgotten() -> None:
    log = Log().gtid().map(2, "b").insert("a", 1).query("SAVEPOINT s").map(3, "c").insert("a", 2)
    log.query("ROLLBACK TO s").xid().gtid().map(2, "b").insert("a", 1).query("ROLLBACK")
    assert [each.orphans for each in transactions(log.events)] == [(("shop", "b"),), ()]


@pytest.mark.parametrize("end", ["statement", "file", "reconnect"])
def test_rows_of_a_map_that_is_no_longer_valid_stop_the_source(end: str) -> None:
    log, made = Log().gtid().insert("t", 1), builder()
    if end == "file":
        log.xid().add(EventType.FORMAT_DESCRIPTION, bytes(80)).gtid()
    transactions(log.events, made)
    if end == "reconnect":
        made.on_reconnect()
        log.events.clear()
        transactions(log.gtid().events, made)
    with pytest.raises(Terminal, match=r"no map names \(table_id=1, type='WRITE_ROWS', file='bin\.000001', pos="):
        made.on_event(log.write(1, 2).events[-1])


@pytest.mark.parametrize("table_id", [0xFFFFFF, 0xFFFFFFFFFFFF])
def test_a_dummy_id_only_ends_its_statement(table_id: int) -> None:
    body = table_id.to_bytes(6, "little") + b"\x01\0\x02\0\x01\xff"
    log = Log("mysql").begin().map(1, "t").write(1, 1, end=False).add(EventType.WRITE_ROWS_V2, body).xid()
    assert said(transactions(log.events)[0]) == ["t:1"]
    for broken in (body + image(1), body[:6] + b"\0" + body[7:]):
        with pytest.raises(Terminal, match="no map names"):
            transactions(Log("mysql").begin().add(EventType.WRITE_ROWS_V2, broken).events)
    real = Log("mysql").begin().map(0xFFFFFF, "t").write(0xFFFFFF, 5).xid()
    assert said(transactions(real.events)[0]) == ["t:5"]


def test_the_text_of_a_statement_stands_on_its_rows() -> None:
    log = Log().gtid().add(EventType.ANNOTATE, b"INSERT 1").map(1, "t").write(1, 1, end=False).write(1, 2)
    log.insert("t", 3).add(EventType.ANNOTATE, b"INSERT 4").insert("t", 4).xid()
    steps = [step for step in transactions(log.events)[0].steps if isinstance(step, RowsEvent)]
    assert [step.query for step in steps] == ["INSERT 1", "INSERT 1", None, "INSERT 4"]


def test_texts_of_statements_are_whole_whatever_their_length_byte_says() -> None:
    text = "INSERT INTO t VALUES ('" + "ü" * 300 + "')"
    for kind, body in ((EventType.ANNOTATE, text.encode()), (EventType.ROWS_QUERY, b"\x07" + text.encode())):
        log = Log("mysql").begin().add(kind, body).insert("t", 1).xid()
        assert [step.query for step in transactions(log.events)[0].steps if isinstance(step, RowsEvent)] == [text]


def test_a_rolled_back_group_keeps_what_its_engine_kept() -> None:
    log = Log("mysql").begin().insert("t", 1).insert("myisam", 2).insert("t", 3).query("ROLLBACK")
    assert said(transactions(log.events, builder(survives=["myisam"]))[0]) == ["myisam:2"]
    assert said(transactions(log.events)[0]) == []


def test_savepoints_are_found_by_name_without_regard_to_case() -> None:
    log = Log().gtid().insert("t", 1).query("SAVEPOINT `My Point`").insert("t", 2)
    log.query("ROLLBACK TO SAVEPOINT `MY point`").insert("t", 3).query("ROLLBACK TO `my POINT`").insert("t", 4).xid()
    assert said(transactions(log.events)[0]) == ["t:1", "t:4"]


def test_a_rollback_to_an_unknown_savepoint_stops_the_source() -> None:
    log = Log().gtid().query("SAVEPOINT a").query("SAVEPOINT b").query("ROLLBACK TO a").query("ROLLBACK TO b")
    with pytest.raises(Terminal, match="was not set") as refused:
        transactions(log.events)
    assert (refused.value.details["gtid"], refused.value.details["savepoint"]) == ("0-1-1", "b")


Action = tuple[str, int]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["t", "m"]), st.integers(0, 99)),
            st.tuples(st.sampled_from(["SAVEPOINT", "ROLLBACK TO"]), st.integers(0, 3)),
        ),
        max_size=40,
    ),
    st.sampled_from(["COMMIT", "ROLLBACK"]),
    st.sampled_from([0, 30, 400, 1 << 20]),
)
def test_savepoints_are_as_the_naive_model_has_them(actions: list[Action], end: str, memory_bytes: int) -> None:
    log = Log().gtid()
    rows: list[tuple[str, int]] = []
    marks: list[tuple[int, int]] = []
    for what, number in actions:
        if what in ("t", "m"):
            log.insert(what, number)
            rows.append((what, number))
        elif what == "SAVEPOINT":
            log.query(f"SAVEPOINT s{number}")
            marks = [mark for mark in marks if mark[0] != number] + [(number, len(rows))]
        elif number in dict(marks):
            log.query(f"ROLLBACK TO s{number}")
            at = dict(marks)[number]
            rows = rows[:at] + [row for row in rows[at:] if row[0] == "m"]
            marks = marks[: [mark[0] for mark in marks].index(number) + 1]
    log.query(end)
    if end == "ROLLBACK":
        rows = [row for row in rows if row[0] == "m"]
    (found,) = transactions(log.events, builder(survives=["m"], memory_bytes=memory_bytes))
    assert said(found) == [f"{table}:{number}" for table, number in rows] == said(found)
    assert len(found.steps) == len(rows)
    assert found.size_bytes == 7 * len(rows)


def prepared_group(log: Log, *numbers: int) -> Log:
    if log.flavour == "mariadb":
        log.gtid(0x4C, xid_body(b"a1", size="B"))
    else:
        log.gtid().query(f"XA START {XID}", thread=5)
    log.insert("t", *numbers).query(f"XA END {XID}", thread=5)
    return log.add(EventType.XA_PREPARE, b"\0" + xid_body(b"a1"))


def xa_end(log: Log, text: str) -> Log:
    flags = (0x8D, xid_body(b"a1", size="B")) if log.flavour == "mariadb" else ()
    return log.gtid(*flags).query(text)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_prepared_transaction_comes_out_in_the_group_of_its_commit(flavour: Flavour) -> None:
    log, made = Log(flavour).begin().insert("t", 0).xid(), builder()
    start = log.end
    prepared_group(log, 1, 2)
    prepare_end = log.end
    log.begin().insert("t", 3).xid()
    found = transactions(log.events, made)
    assert [said(each) for each in found] == [["t:0"], [], ["t:3"]]
    assert found[1].end == BinlogPosition(FILE, prepare_end)
    (waiting,) = made.prepared
    assert (waiting.xid, waiting.start, waiting.gtid) == (
        Xid(1, b"a1", b""),
        BinlogPosition(FILE, start),
        found[1].gtid,
    )
    log.events.clear()
    (last,) = transactions(xa_end(log, f"XA COMMIT {XID}").events, made)
    assert (said(last), last.end.pos, made.prepared) == (["t:1", "t:2"], log.end, ())
    assert last.gtid == ("0-1-4" if flavour == "mariadb" else f"{SID}:4")


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_prepared_transaction_that_is_rolled_back_leaves_nothing(flavour: Flavour) -> None:
    log, made = prepared_group(Log(flavour), 1), builder()
    xa_end(log, f"XA ROLLBACK {XID}")
    assert [said(each) for each in transactions(log.events, made)] == [[], []]
    assert made.prepared == ()


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_an_xa_commit_of_what_was_never_seen_stops_the_source(flavour: Flavour) -> None:
    with pytest.raises(Terminal, match=r"prepared before capture began to read \(xid=.*--anew"):
        transactions(xa_end(Log(flavour), f"XA COMMIT {XID}").events)
    assert said(transactions(xa_end(Log(flavour), f"XA ROLLBACK {XID}").events)[0]) == []


def test_one_phase_commits_at_once() -> None:
    log = Log("mysql").gtid().query(f"XA START {XID}").insert("t", 1).query(f"XA END {XID}")
    log.add(EventType.XA_PREPARE, b"\x01" + xid_body(b"a1"))
    made = builder()
    assert said(transactions(log.events, made)[0]) == ["t:1"]
    assert made.prepared == ()


def test_prepared_transactions_live_through_reconnects_and_files() -> None:
    log, made = prepared_group(Log(), 1), builder()
    log.add(EventType.FORMAT_DESCRIPTION, bytes(80))
    transactions(log.events, made)
    made.on_reconnect()
    log.events.clear()
    assert said(transactions(xa_end(log, f"XA COMMIT {XID}").events, made)[0]) == ["t:1"]


def test_a_server_that_logs_xa_whole_at_its_commit_is_read_too() -> None:
    log = Log("mysql").begin().insert("t", 1).query(f"XA COMMIT {XID}").begin().insert("t", 2)
    log.query(f"XA ROLLBACK {XID}").begin().map(1, "t", database="other").write(1, 3).query(f"XA COMMIT {XID}")
    assert [said(each) for each in transactions(log.events)] == [["t:1"], [], []]


def test_a_prepare_logged_as_text_is_one_too() -> None:
    log, made = Log("mysql").gtid().query(f"XA START {XID}").insert("t", 1).query(f"XA PREPARE {XID}"), builder()
    xa_end(log, f"XA COMMIT {XID}")
    assert [said(each) for each in transactions(log.events, made)] == [[], ["t:1"]]


def test_an_xa_rollback_leaves_what_its_engine_kept() -> None:
    log = Log("mysql").gtid().query(f"XA START {XID}").insert("t", 1).insert("m", 2).query(f"XA PREPARE {XID}")
    xa_end(log, f"XA ROLLBACK {XID}")
    assert [said(each) for each in transactions(log.events, builder(survives=["m"]))] == [[], ["m:2"]]


def test_a_statement_within_a_rolled_back_group_took_effect() -> None:
    log = Log().gtid().insert("t", 1).query("CREATE TABLE n (id int)").insert("n", 2).query("ROLLBACK")
    assert said(transactions(log.events)[0]) == ["CREATE TABLE n (id int)"]


def test_a_name_is_prepared_only_once() -> None:
    with pytest.raises(Terminal, match="prepared a second time"):
        transactions(prepared_group(prepared_group(Log(), 1), 2).events)


def test_a_payload_is_a_transaction_at_its_own_end() -> None:
    def inner(*events: tuple[int, bytes]) -> bytes:
        packed = zstandard.compress(whole := b"".join(raw(kind, body, checksum=False) for kind, body in events))
        sizes = struct.pack("<I", len(whole))[:3], struct.pack("<I", len(packed))[:3]
        return b"\x02\x01\0\x03\x04\xfd" + sizes[0] + b"\x01\x04\xfd" + sizes[1] + b"\0" + packed

    steps = (2, query_body("BEGIN", thread=3)), (19, table_map_body(1, "t")), (30, rows_body(1, image(5), v2=True))
    log = Log("mysql").gtid().add(EventType.TRANSACTION_PAYLOAD, inner(*steps, (16, b"12345678")))
    (found,) = transactions(log.events)
    assert (said(found), found.end.pos, found.thread) == (["t:5"], log.end, 3)
    open_end = Log("mysql").gtid().add(EventType.TRANSACTION_PAYLOAD, inner(*steps))
    assert transactions(open_end.events) == []
    after = Log("mysql").gtid().add(EventType.TRANSACTION_PAYLOAD, inner(*steps, (16, b"12345678"), steps[0]))
    with pytest.raises(Terminal, match="follows the end of its transaction"):
        transactions(after.events)


def test_heartbeats_count_only_between_transactions() -> None:
    log, made = Log().add(EventType.HEARTBEAT, b"bin.000002"), builder()
    assert made.on_event(log.events[-1]) == Heartbeat(BinlogPosition("bin.000002", log.end))
    made.on_event(log.gtid().events[-1])
    assert made.on_event(log.add(EventType.HEARTBEAT, b"bin.000002").events[-1]) is None


def test_what_carries_no_rows_changes_nothing() -> None:
    log = Log("mysql").begin().insert("t", 1)
    for kind in (
        "STOP",
        "IGNORABLE",
        "PREVIOUS_GTIDS",
        "TRANSACTION_CONTEXT",
        "VIEW_CHANGE",
        "CHECKPOINT",
        "GTID_LIST",
    ):
        log.add(EventType[kind])
    assert said(transactions(log.xid().events)[0]) == ["t:1"]


def test_a_group_that_a_crashed_server_left_open_never_was() -> None:
    log = Log().gtid().insert("t", 1)
    crashed = bytes(52) + b"\x01\0\0\0" + bytes(30)
    log.add(EventType.FORMAT_DESCRIPTION, crashed).gtid().insert("t", 2).xid()
    assert [said(each) for each in transactions(log.events)] == [["t:2"]]


MISPLACED: list[Callable[[], Log]] = [
    lambda: Log().xid(),
    lambda: Log().map(1, "t"),
    lambda: Log().write(1, 1),
    lambda: Log().query("COMMIT"),
    lambda: Log().query("ROLLBACK"),
    lambda: Log().query("SAVEPOINT a"),
    lambda: Log().add(EventType.XA_PREPARE, b"\0" + xid_body(b"a1")),
    lambda: Log().gtid().gtid(),
    lambda: Log().gtid(0x29).map(1, "t"),
    lambda: Log().gtid(0x29).xid(),
    lambda: Log().gtid().insert("t", 1).query("BEGIN"),
    lambda: Log().gtid().insert("t", 1).add(EventType.FORMAT_DESCRIPTION, bytes(80)),
    lambda: Log("mysql").gtid().map(1, "t"),
    lambda: Log("mysql").gtid().xid(),
    lambda: Log("mysql").gtid().gtid(),
]


@pytest.mark.parametrize("log", MISPLACED)
def test_an_event_in_the_wrong_place_stops_the_source(log: Callable[[], Log]) -> None:
    with pytest.raises(Terminal, match=r"type='[A-Z0-9_]+', file='bin\.000001', pos=\d+, gtid="):
        transactions(log().events)


@pytest.mark.parametrize("log", [Log(), Log().gtid().insert("t", 1)])
def test_a_bound_that_is_not_understood_is_told_by_its_place_and_database_alone(log: Log) -> None:
    with pytest.raises(
        Terminal, match=r"file='bin\.000001', pos=\d+, database='shop', begins_with='SAVEPOINT'"
    ) as caught:
        transactions(log.query("SAVEPOINT secret value").events)
    assert "secret" not in str(caught.value)
