"""A snapshot's place in the binlog, as each family of servers tells it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from include.clock import ManualClock
from include.errors import Terminal, Transient
from include.record.gtid import parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition
from include.source.definition import SourceDefinition
from include.source.snapshot import reader as snapshot_reader
from include.source.snapshot.reader import SnapshotReader

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


class Answers:
    """A connection to a server that answers as told: a text → rows, or what gives rows at each time it is asked."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.asked = {"lower_case": [(0,)], **answers}, list[str]()

    def __call__(self, _connection: object, _source: object, sql: str, *_values: object) -> list[tuple[Any, ...]]:
        self.asked.append(sql)
        for text, rows in self.answers.items():
            if text in sql:
                return rows() if callable(rows) else rows
        return []


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Any:
    def made(answers: dict[str, Any]) -> tuple[SnapshotReader, Answers, ManualClock]:
        asked, clock = Answers(answers), ManualClock()
        monkeypatch.setattr(snapshot_reader, "connect", lambda *_: object())
        monkeypatch.setattr(snapshot_reader, "query", asked)
        source = SourceDefinition(host="db", port=1, user="u", password=SecretStr("p"), databases=["shop"])
        return SnapshotReader(source, clock), asked, clock

    return made


def mariadb(*steps: tuple[str, int], committed: int | Iterator[int]) -> dict[str, Any]:
    """A server that logged these (GTIDs, end of its file), one at each look, and has committed so much of the file."""
    logged, ended = itertools.chain(steps, itertools.repeat(steps[-1])), [steps[0][1]]

    def gtids() -> list[tuple[str]]:
        found, ended[0] = next(logged)
        return [(found,)]

    def place() -> list[tuple[str, str]]:
        pos = committed if isinstance(committed, int) else next(committed)
        return [("Binlog_snapshot_file", "bin.000002"), ("Binlog_snapshot_position", str(pos))]

    return {
        "VERSION()": [("11.4.5-MariaDB",)],
        "binlog_snapshot_": place,
        "SHOW MASTER STATUS": lambda: [("bin.000002", ended[0])],
        "gtid_binlog_pos": gtids,
    }


def test_mariadb_tells_what_its_engine_had_committed_before_and_what_was_logged_after(reader: Any) -> None:
    opened, asked, clock = reader(mariadb(("0-1-9", 77), ("0-1-12", 99), committed=iter([60, 77, 99])))
    span = opened.open()
    assert (str(span.low.gtids), str(span.high.gtids)) == ("0-1-9", "0-1-12")
    # What a snapshot says of its own place may be a transaction off: it is asked before, until it has all.
    begun = asked.asked.index("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    assert [place for place, sql in enumerate(asked.asked) if "binlog_snapshot" in sql] == [begun - 2, begun - 1]
    assert clock.monotonic_s() == pytest.approx(0.01)
    # Nobody has committed meanwhile: it is of one moment.
    still = opened.open()
    assert still.low is still.high


def test_an_engine_that_holds_commits_back_is_told_of(reader: Any) -> None:
    opened, _, _ = reader(mariadb(("0-1-9", 77), committed=60))
    with pytest.raises(Transient, match="does not commit what the server has logged") as refused:
        opened.open()
    assert refused.value.details["committed"] == "bin.000002:60"


def test_mysql_tells_what_is_in_it_for_certain_and_what_may_be(reader: Any) -> None:
    gtids = iter([f"{UUID}:1-4", f"{UUID}:1-6"])
    opened, _, clock = reader(
        {
            "VERSION()": [("9.7.4",)],
            "gtid\\_mode": [("gtid_mode", "ON")],
            "SHOW BINARY LOG STATUS": [("bin.000001", 9)],
            "@@global.gtid_executed": lambda: [(next(gtids),)],
        }
    )
    span = opened.open()
    assert (str(span.low.gtids), str(span.high.gtids)) == (f"{UUID}:1-4", f"{UUID}:1-6")
    assert clock.monotonic_s() == 0


WAITS = [("rpl_semi_sync_source_enabled", "ON"), ("rpl_semi_sync_source_timeout", "10000")]


@pytest.mark.parametrize(
    ("semi_sync", "seconds"),
    [
        ([], 2.0),
        ([("rpl_semi_sync_master_enabled", "OFF")], 2.0),
        # Before MySQL 5.7, and by choice after it, the engine commits before replicas are waited for.
        (WAITS, 2.0),
        ([*WAITS, ("rpl_semi_sync_source_wait_point", "AFTER_COMMIT")], 2.0),
        ([*WAITS, ("rpl_semi_sync_source_wait_point", "AFTER_SYNC")], 12.0),
    ],
)
def test_without_gtids_all_up_to_the_place_is_given_the_time_to_be_committed(
    reader: Any, semi_sync: list[tuple[str, str]], seconds: float
) -> None:
    ends = iter([[("bin.000001", 100)], [("bin.000001", 300)]])
    opened, _, clock = reader(
        {
            "VERSION()": [("5.6.21",)],
            "gtid\\_mode": [("gtid_mode", "OFF")],
            "rpl_semi_sync": semi_sync,
            "innodb_trx": refused,
            "SHOW MASTER STATUS": lambda: next(ends),
        }
    )
    span = opened.open()
    assert (str(span.low.binlog), str(span.high.binlog)) == ("bin.000001:100", "bin.000001:300")
    assert seconds <= clock.monotonic_s() < seconds + 0.5


def refused() -> None:
    raise Terminal("the account lacks a privilege")


def test_without_gtids_the_server_is_asked_for_a_place_up_to_which_all_is_committed(reader: Any) -> None:
    opened, _, clock = reader(
        {
            "VERSION()": [("8.0.11",)],
            "gtid\\_mode": [("gtid_mode", "OFF")],
            "log_status": [("bin.000001", "100")],
            "SHOW MASTER STATUS": [("bin.000001", 300)],
        }
    )
    span = opened.open()
    assert (str(span.low.binlog), str(span.high.binlog)) == ("bin.000001:100", "bin.000001:300")
    assert clock.monotonic_s() == 0


def test_without_gtids_transactions_that_may_be_logged_are_waited_for(reader: Any) -> None:
    asked: Answers

    def mine() -> tuple[object, ...]:
        return (b"281", 1, asked.asked[-1].encode(), 0)

    def busy(name: str) -> tuple[object, ...]:
        return (name, 0, None, 1)

    def idle(name: str) -> tuple[object, ...]:
        return (name, 0, None, 0)

    looks = iter(
        [
            # Not fresh: what another reader saw before we had begun.
            lambda: [busy("1"), (b"281", 1, b"SELECT of before", 0)],
            lambda: [busy("2"), busy("3"), idle("4"), mine()],
            lambda: [busy("3"), busy("5"), mine()],
            lambda: [busy("5"), mine()],
        ]
    )
    opened, asked, clock = reader(
        {
            "VERSION()": [("5.6.21",)],
            "gtid\\_mode": [("gtid_mode", "OFF")],
            "innodb_trx": lambda: next(looks)(),
            "SHOW MASTER STATUS": [("bin.000001", 100)],
        }
    )
    span = opened.open()
    assert str(span.low.binlog) == "bin.000001:100"
    assert next(looks, None) is None
    assert clock.monotonic_s() < 1
    begun = [n for n, sql in enumerate(asked.asked) if sql == "START TRANSACTION WITH CONSISTENT SNAPSHOT"]
    last = max(n for n, sql in enumerate(asked.asked) if "innodb_trx" in sql)
    assert begun[0] < last < begun[1]


def test_a_server_that_never_looks_again_is_told(reader: Any) -> None:
    opened, _, _ = reader(
        {
            "VERSION()": [("5.7.44",)],
            "gtid\\_mode": [("gtid_mode", "OFF")],
            "innodb_trx": [(b"281", 1, b"SELECT of before", 0)],
            "SHOW MASTER STATUS": [("bin.000001", 100)],
        }
    )
    with pytest.raises(Transient, match="innodb_trx so often"):
        opened.open()


def test_a_snapshot_that_lacks_what_the_stream_has_is_opened_again(reader: Any) -> None:
    opened, asked, _ = reader(mariadb(*[("0-1-8", 60)] * 4, ("0-1-9", 77), committed=77))
    beyond = SourcePosition("mariadb", parse_gtid_set("0-1-9", "mariadb"), BinlogPosition("bin.000002", 60), 0)
    assert str(opened.open(beyond).low.gtids) == "0-1-9"
    assert asked.asked.count("ROLLBACK") == 2


def test_a_server_that_stays_behind_the_stream_is_told(reader: Any) -> None:
    opened, _, _ = reader(mariadb(("0-1-8", 60), committed=77))
    beyond = SourcePosition("mariadb", parse_gtid_set("0-1-9", "mariadb"), BinlogPosition("bin.000002", 60), 0)
    with pytest.raises(Transient, match="no snapshot reaches"):
        opened.open(beyond)
