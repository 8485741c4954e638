"""The server's transactions after a position: what is idle, what is known already, which XA transactions wait."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from pydantic import SecretStr

from include.clock import ManualClock
from include.errors import Transient
from include.record.gtid import MariadbGtidSet, MysqlGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.source.binlog.reader import Event, EventType
from include.source.binlog.step import PlainRun
from include.source.binlog.transaction import SourceTransaction
from include.source.database import transaction_stream as subject
from include.source.database.transaction_stream import BinlogIdle, TransactionStream
from include.source.definition import SourceDefinition
from include.source.state.capture_state import CaptureState, WaitingXa
from tests.support.binlog.builder import FILE, SID, Log, xid_body

SOURCE = SourceDefinition(host="db", port=1, user="u", password=SecretStr("p"), databases=["shop"], silence_s=2)
SECOND_US = 1_000_000


class Fed:
    """A stream of events made by hand; None among them is a wait in which nothing came."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, position: SourcePosition, *waiting: WaitingXa) -> None:
        self.asked: list[SourcePosition] = []
        monkeypatch.setattr(subject, "dump", lambda _source, _id, at: self.asked.append(at))
        self.clock = ManualClock(1_000 * SECOND_US)
        self.stream = TransactionStream(SOURCE, 7, position, waiting, lambda *_: False, self.clock)
        self._events: deque[Event | None] = deque()
        self.stream._packets = self  # type: ignore[assignment]
        self.stream._events = self  # type: ignore[assignment]
        self.position, self.waiting = position, waiting

    def pass_to(self, _taker: Any) -> bool:
        return False

    def take(self) -> Any:
        return self._events.popleft() if self._events and self._events[0] is not None else None

    def fill(self, timeout_s: float) -> bool:
        self.clock.advance(timeout_s)
        self._events.popleft()
        return False

    def parse(self, event: Event) -> Event:
        return event

    def __call__(self, *events: Event | None) -> list[PlainRun | SourceTransaction | BinlogIdle]:
        """What comes out; keeps position and waiting XA transactions as a session does."""
        self._events.extend(events)
        found = []
        while self._events:
            item = self.stream.next(0.5)
            if isinstance(item, SourceTransaction):
                self.waiting = self.stream.waiting(self.waiting, self.position)
                gtids = self.position.gtids.add(item.gtid) if item.gtid else self.position.gtids
                self.position = SourcePosition(self.position.flavour, gtids, item.end, 0)
            if item is not None:
                found.append(item)
        return found


def at(gtids: str, pos: int) -> SourcePosition:
    return SourcePosition("mariadb", MariadbGtidSet.parse(gtids), BinlogPosition(FILE, pos), 0)


def heartbeat(pos: int) -> Event:
    return Event(EventType.HEARTBEAT, 0, 1, 40, pos, False, FILE.encode(), FILE, "mariadb")


def prepare(log: Log, name: bytes) -> Log:
    log.gtid(0x4C, xid_body(name, size="B")).insert("t", 1).query(f"XA END X'{name.hex()}',X'',1")
    return log.add(EventType.XA_PREPARE, b"\0" + xid_body(name))


def end(log: Log, name: bytes, word: str = "COMMIT") -> Log:
    return log.gtid(0x8D, xid_body(name, size="B")).query(f"XA {word} X'{name.hex()}',X'',1")


def names(waiting: tuple[WaitingXa, ...]) -> list[tuple[str, str]]:
    return [(each.xid.split("'")[1], str(each.after.gtids)) for each in waiting]


def test_a_source_is_idle_at_the_second_heartbeat_of_one_place_as_of_the_last_vain_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fed = Fed(monkeypatch, at("0-1-1", 100))
    assert fed(heartbeat(100)) == []
    assert fed(None) == []
    drained = fed.clock.now_us()
    (idle,) = fed(heartbeat(100))
    assert idle == BinlogIdle(BinlogPosition(FILE, 100), drained - SECOND_US)


def test_heartbeats_that_waited_for_capture_claim_nothing_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    fed = Fed(monkeypatch, at("0-1-1", 100))
    assert fed(heartbeat(100), heartbeat(100)) == []
    fed(None)
    drained = fed.clock.now_us()
    fed.clock.advance(60)
    assert [idle.until_us for idle in fed(heartbeat(100)) if isinstance(idle, BinlogIdle)] == [drained - SECOND_US]


def test_one_heartbeat_before_more_events_is_no_idleness(monkeypatch: pytest.MonkeyPatch) -> None:
    fed, log = Fed(monkeypatch, at("", 4)), Log().begin().insert("t", 1).xid()
    found = fed(None, heartbeat(4), *log.events, heartbeat(log.end), None, heartbeat(log.end + 1))
    assert [type(each) for each in found] == [SourceTransaction]


def test_a_silent_server_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    fed = Fed(monkeypatch, at("0-1-1", 100))
    fed(None, None, None)
    fed.clock.advance(2)
    fed.stream.heard()
    fed(None)
    fed.clock.advance(2)
    with pytest.raises(Transient, match="silent"):
        fed(None)


def test_who_waits_is_known_with_the_position_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log().begin().insert("t", 0).xid()
    prepare(log, b"a")
    prepare(log, b"b")
    fed = Fed(monkeypatch, at("", 4))
    assert len(fed(*log.events)) == 3
    assert names(fed.waiting) == [("61", "0-1-1"), ("62", "0-1-2")]
    log.events.clear()
    end(log, b"a")
    prepare(log, b"c")
    fed(*log.events)
    assert names(fed.waiting) == [("62", "0-1-2"), ("63", "0-1-4")]
    log.events.clear()
    end(log, b"c", "ROLLBACK")
    end(log, b"b")
    fed(*log.events)
    assert fed.waiting == ()


def test_a_restart_reads_from_before_the_oldest_and_counts_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    log = prepare(Log(), b"a")
    start = len(log.events)
    prepare(log, b"b")
    end(log, b"a")
    log.begin().insert("t", 9).xid()
    first = Fed(monkeypatch, at("", 4))
    first(*log.events)
    again = Fed(monkeypatch, first.position, *first.waiting)
    assert [str(asked.gtids) for asked in again.asked] == ["0-1-1"]
    # The commit of "a" comes without its beginning, and is known.
    assert again(*log.events[start:]) == []
    assert names(again.waiting) == [("62", "0-1-1")]
    log.events.clear()
    (last,) = again(*end(log, b"b").events)
    assert isinstance(last, SourceTransaction)
    assert len(last.steps) == 1
    assert again.waiting == ()


def test_without_gtids_what_ends_before_the_position_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log("mysql").query("BEGIN").insert("t", 1).xid()
    middle = log.end
    log.query("BEGIN").insert("t", 2).xid()
    nothing = MysqlGtidSet.parse("")
    known = SourcePosition("mysql", nothing, BinlogPosition(FILE, middle), 0)
    waiting = WaitingXa("X'61',X'',1", "", SourcePosition("mysql", nothing, BinlogPosition(FILE, 4), 0))
    (found,) = Fed(monkeypatch, known, waiting)(*log.events)
    assert isinstance(found, SourceTransaction)
    assert found.end.pos == log.end


def test_waiting_transactions_are_kept_in_the_state() -> None:
    waiting = WaitingXa(
        "X'61',X'',1", f"{SID}:5", SourcePosition("mysql", MysqlGtidSet.parse(f"{SID}:1-4"), BinlogPosition(FILE, 9), 3)
    )
    state = CaptureState(waiting=(waiting,))
    assert CaptureState.from_json(state.to_json()) == state
    older = {name: value for name, value in state.to_json().items() if name != "waiting"}
    assert CaptureState.from_json(older).waiting == ()


def test_a_place_beyond_4_gib_of_a_file_is_read_from_the_files_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log("mysql").query("BEGIN").insert("t", 1).xid()
    log.end += 5 << 30
    log.query("BEGIN").insert("t", 2).xid()
    far = log.end
    log.query("BEGIN").insert("t", 3).xid()
    fed = Fed(monkeypatch, SourcePosition("mysql", MysqlGtidSet(), BinlogPosition(FILE, far), 0))
    assert [each.binlog for each in fed.asked] == [BinlogPosition(FILE, 4)]
    assert [each.end.pos for each in fed(*log.events) if isinstance(each, SourceTransaction)] == [log.end]
    by_gtid = SourcePosition("mysql", MysqlGtidSet.parse(f"{SID}:1"), BinlogPosition(FILE, far), 0)
    assert Fed(monkeypatch, by_gtid).asked == [by_gtid]
