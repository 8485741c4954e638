"""What `lyrebird capture status` says, from a log in memory."""

from __future__ import annotations

from typing import Any

from include.log.memory import MemoryLog
from include.log.requests.records import Answer, Request
from include.log.resolved import ResolvedRecord
from include.log.topics import source_answers, source_requests
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.source.database.binlog_files import BinlogLook
from include.source.database.purge import PurgeHorizon
from include.source.log.direct_log import ensure_topics
from include.source.state.capture_state import CaptureState, TableSetAside, WaitingXa
from include.source.state.job import Job
from include.source.status import lines_of, open_requests, refused_requests, status_of

NOW_US = 1_000_000_000
AT = SourcePosition("mariadb", MariadbGtidSet.parse("0-1-5"), BinlogPosition("bin.000001", 700), NOW_US - 2_500_000)
LOOK = BinlogLook(1234, PurgeHorizon(20.0, "its limit of time"), 5.5)
PROGRESS = {
    "at_us": NOW_US,
    "started_us": NOW_US - 60_000_000,
    "ops": {"c": 1200, "r": 3},
    "skipped": {"UPDATE_ROWS": 2},
    "past": 7,
    "reading": {"table": "shop.big", "rows": 5000, "done": 5000, "total": 20000, "rows_per_s": 2500, "left_s": 6},
    "incidents": [{"id": "purge:1", "kind": "purge", "text": "soon purged", "fix": "raise it"}],
}


def resolved(state: CaptureState) -> ResolvedRecord:
    return ResolvedRecord(
        source="shop",
        sequence=7,
        version=41,
        position=AT,
        full=True,
        next_offsets={},
        uncovered=state.uncovered,
        state=state.to_json(),
    )


def status(
    state: CaptureState | None, progress: dict[str, Any], server: BinlogLook | str = LOOK, running: bool = True
) -> dict[str, Any]:
    last = None if state is None else resolved(state)
    return status_of("shop", last, [], progress, server, NOW_US, running=running)


def test_a_source_that_was_never_captured_has_a_status() -> None:
    found = status(None, {}, "nothing was captured yet", running=False)
    assert (found["snapshot"], found["position"], found["lag_s"], found["lag_bytes"]) == ("missing", None, None, None)
    assert found["purge"] == {"hours": None, "basis": "unknown: nothing was captured yet", "oldest_file_h": None}
    assert (found["rows"], found["skipped"], found["uncovered"], found["requests"]) == ({}, {}, [], [])
    assert "capture does not run on this host" in lines_of(found)[0]


def test_a_running_capture_is_told_whole() -> None:
    why = TableSetAside("0-1-3", "bin.000001:300", "a row cannot be read", NOW_US - 9_000_000)
    state = CaptureState(
        snapshot="done",
        aside={"shop.t": why},
        jobs=(Job("r1", ("shop.big",), gap=False, asked=True),),
        waiting=(WaitingXa("X'61'", "0-1-4", AT),),
    )
    found = status(state, PROGRESS)
    assert (found["gtids"], found["position"], found["lag_s"], found["lag_bytes"]) == (
        "0-1-5",
        "bin.000001:700",
        2.5,
        1234,
    )
    assert found["purge"] == {"hours": 20.0, "basis": "its limit of time", "oldest_file_h": 5.5}
    assert (found["rows"], found["skipped"]) == ({"c": 1200, "r": 3}, {"UPDATE_ROWS": 2})
    assert found["aside"] == [
        {
            "table": "shop.t",
            "gtid": "0-1-3",
            "position": "bin.000001:300",
            "cause": "a row cannot be read",
            "since_us": NOW_US - 9_000_000,
        }
    ]
    assert found["owed"] == [{"id": "r1", "tables": ["shop.big"], "gap": False, "done": 0, "total": None}]
    assert found["past"] == 7
    text = "\n".join(lines_of(found))
    for part in (
        "capture runs",
        "7 rows that system-versioned tables keep of their past: not copied",
        "2.5 s, 1,234 bytes",
        "in 20.0 h, by its limit of time; the oldest file is 5.5 h old",
        "inserted 1,200, read 3 since 1970-01-01T00:15:40",
        "UPDATE_ROWS 2 row events",
        "lyrebird capture resume-table --source shop shop.t",
        "shop.big: 5,000 of about 20,000 rows, 2,500 rows/s, about 6 s left",
        "X'61' after bin.000001:700",
    ):
        assert part in text


def test_what_a_capture_did_that_has_ended_is_not_shown_as_going_on() -> None:
    found = status(CaptureState(snapshot="done"), PROGRESS | {"waiting_for": "x"}, "no answer", running=False)
    assert (found["reading"], found["waiting_for"]) == (None, None)
    assert found["rows"] == {"c": 1200, "r": 3}
    assert "unknown: no answer" in "\n".join(lines_of(found))


def test_tables_in_want_of_rows_and_waiting_are_shown() -> None:
    state = CaptureState(orphans={"shop.child": TableSetAside("", "bin.000001:9", "a cascade", 1)})
    text = "\n".join(lines_of(status(state, PROGRESS | {"waiting_for": "the server"})))
    assert "in want    shop.child since" in text
    assert "waits for another system" in text
    assert text.splitlines()[1].endswith("goes on by itself: the server")


def test_while_the_log_cannot_be_read_what_capture_reported_last_is_told() -> None:
    progress = PROGRESS | {
        "gtids": "0-1-9",
        "position": "bin.000002:7",
        "snapshot": "done",
        "commit_us": NOW_US - 10**6,
    }
    progress |= {"incidents": [{"kind": "purge", "text": "in 20.0 h it is purged", "fix": "lyrebird capture status"}]}
    found = status_of("shop", None, [], progress, LOOK, NOW_US, running=True, unread="Kafka does not answer")
    assert (found["gtids"], found["position"], found["snapshot"], found["lag_s"]) == (
        "0-1-9",
        "bin.000002:7",
        "done",
        1,
    )
    lines = lines_of(found)
    assert lines[2] == (
        "log        cannot be read, so this is what capture on this host said last: Kafka does not answer"
    )
    assert "purge      in 20.0 h it is purged\n           `lyrebird capture status`" in lines
    assert not any(line.startswith(("uncovered", "requests")) for line in lines)


def test_requests_are_open_until_they_are_done_or_refused() -> None:
    log = MemoryLog()
    ensure_topics("s", log.admin())
    writer = log.writer("asker")
    writer.begin()
    for id_ in ("a", "b", "c", "d", "b"):
        request = Request(id_, "snapshot", "somebody", 0)
        writer.append(source_requests("s"), request.key(), request.value())
    for answer in (Answer("a", "done", 0), Answer("b", "running", 0), Answer("c", "refused", 0)):
        writer.append(source_answers("s"), answer.key(), answer.value())
    writer.commit()
    assert open_requests(log.reader(), "s") == ["b", "d"]
    assert refused_requests(log.reader(), "s") == [{"id": "c", "at_us": 0, "note": ""}]


def test_refused_requests_are_told_with_their_reason() -> None:
    refused = [{"id": "r7", "at_us": NOW_US, "note": "no captured tables: nosuch"}]
    found = status_of("shop", None, [], {}, "no answer", NOW_US, running=False, refused=refused)
    assert found["refused"] == refused
    assert any(line.startswith("refused    r7 at ") and "nosuch" in line for line in lines_of(found))


def test_why_a_capture_ended_is_told_until_the_next_one_runs() -> None:
    gone = {"id": "stopped:1", "kind": "stopped", "group": "", "text": "capture has stopped: gone", "fix": "lyrebird x"}
    table = {"id": "aside:1", "kind": "aside", "group": "shop.t", "text": "table shop.t is set aside", "fix": "y"}
    lines = lines_of(status(CaptureState(), {"incidents": [table, gone]}, running=False))
    assert lines[-1] == "stopped    capture has stopped: gone\n           `lyrebird x`"
    assert "shop.t" not in "".join(lines)
