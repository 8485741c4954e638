from __future__ import annotations

from collections.abc import Callable

from include.clock import ManualClock
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.requests.records import Answer, Request, RequestKind
from include.log.topics import source_answers, source_requests
from include.source.log.direct_log import ensure_topics, memory_log
from include.source.request_queue import RequestQueue
from include.source.state.capture_state import CaptureState, TableSetAside
from include.source.state.job import Job

TABLES = {"shop.orders": 1, "shop.users": 2}


def columns(table: str) -> Callable[[str], str]:
    def column(name: str) -> str:
        if (table, name) not in {("shop.orders", "id"), ("shop.orders", "state"), ("shop.users", "id")}:
            raise LookupError(f"{table} has no such column")
        return name

    return column


def asked(*records: tuple[bytes, bytes | None], answered: tuple[Answer, ...] = ()) -> RequestQueue:
    log = MemoryLog()
    ensure_topics("s", log.admin())
    writer = log.writer("asker")
    writer.begin()
    for key, value in records:
        writer.append(source_requests("s"), key, value)
    for answer in answered:
        writer.append(source_answers("s"), answer.key(), answer.value())
    writer.commit()
    return RequestQueue(memory_log("s", log, MemoryRegistry(), ManualClock()), ManualClock())


def request(id_: str, *tables: str, kind: RequestKind = "snapshot", where: str = "") -> tuple[bytes, bytes]:
    made = Request(id_, kind, "somebody", 0, tables, where=where)
    return made.key(), made.value()


def test_a_request_becomes_a_job_and_is_accepted() -> None:
    taken = asked(request("r1", "orders")).take(CaptureState(), TABLES, columns)
    assert taken is not None
    assert taken.state.jobs == (Job("r1", ("shop.orders",), gap=False, asked=True),)
    assert [(a.id, a.state) for a in taken.answers] == [("r1", "accepted")]


def test_without_tables_all_are_meant() -> None:
    taken = asked(request("r1")).take(CaptureState(), TABLES, columns)
    assert taken is not None
    assert taken.state.jobs[0].tables == ("shop.orders", "shop.users")


def test_an_id_is_taken_up_once() -> None:
    desk = asked(request("r1"), request("r1"), request("r2"), answered=(Answer("r2", "done", 0),))
    taken = desk.take(CaptureState(), TABLES, columns)
    assert taken is not None
    assert [job.id for job in taken.state.jobs] == ["r1"]
    assert desk.take(taken.state, TABLES, columns) is None


def test_what_capture_does_not_do_is_refused_with_a_note() -> None:
    taken = asked(request("a", kind="rebuild"), request("b", "nope"), (b"c", b"{"), (b"d", None)).take(
        CaptureState(), TABLES, columns
    )
    assert taken is not None
    assert taken.state.jobs == ()
    assert [(a.id, a.state) for a in taken.answers] == [("a", "refused"), ("b", "refused"), ("c", "refused")]
    assert "rebuild" in taken.answers[0].note
    assert "nope" in taken.answers[1].note
    assert "not a request" in taken.answers[2].note


def test_a_table_set_aside_is_read_again_over_the_gap() -> None:
    why = TableSetAside("0-1-7", "bin.000001:9", "a row cannot be read", 1)
    state = CaptureState(aside={"shop.users": why})
    taken = asked(request("a", kind="resume_table"), request("b", "orders", kind="resume_table")).take(
        state, TABLES, columns
    )
    assert taken is not None
    assert taken.state.jobs == (Job("a", ("shop.users",), gap=True, asked=True),)
    assert taken.state.aside == {}
    assert taken.state.uncovered == ("shop.users",)
    assert [(a.id, a.state) for a in taken.answers] == [("a", "accepted"), ("b", "refused")]
    assert taken.answers[1].note == "no tables set aside or in want of rows: orders"


def test_a_table_that_lacks_changes_by_cascade_is_read_again_when_asked_for() -> None:
    state = CaptureState(orphans={"shop.users": TableSetAside("0-1-7", "bin.000001:9", "a cascade", 1)})
    assert state.uncovered == ("shop.users",)
    assert CaptureState.from_json(state.to_json()) == state
    taken = asked(request("a", "users", kind="resume_table")).take(state, TABLES, columns)
    assert taken is not None
    assert taken.state.jobs == (Job("a", ("shop.users",), gap=True, asked=True),)
    assert (taken.state.orphans, taken.state.uncovered) == ({}, ("shop.users",))


def test_a_condition_that_does_not_fit_each_of_its_tables_refuses_the_request_and_says_where() -> None:
    taken = asked(
        request("a", "orders", where="state = 'new'"),
        request("b", where="id = 1 AND state = 'new'"),
        request("c", "orders", where="id = 1) UNION SELECT 1 -- "),
    ).take(CaptureState(), TABLES, columns)
    assert taken is not None
    assert [job.id for job in taken.state.jobs] == ["a"]
    assert [(a.id, a.state) for a in taken.answers] == [("a", "accepted"), ("b", "refused"), ("c", "refused")]
    assert "shop.users has no such column" in taken.answers[1].note
    assert "position=12" in taken.answers[1].note
    assert "position=7" in taken.answers[2].note


def test_tables_are_reread_over_all_that_the_log_has_of_them_and_not_covered_meanwhile() -> None:
    taken = asked(request("a", "orders", kind="reread")).take(CaptureState(), TABLES, columns)
    assert taken is not None
    assert taken.state.jobs == (Job("a", ("shop.orders",), gap=True, asked=True),)
    assert taken.state.uncovered == ("shop.orders",)


def test_single_rows_are_reread_while_their_table_stays_covered() -> None:
    def of(id_: str, kind: RequestKind, *tables: str, keys: int = 1) -> tuple[bytes, bytes]:
        made = Request(id_, kind, "somebody", 0, tables, keys=('{"id":"7"}',) * keys)
        return made.key(), made.value()

    taken = asked(
        of("k", "reread", "orders"),
        of("two", "reread", "orders", "users"),
        of("many", "reread", "orders", keys=1001),
        of("kind", "snapshot", "orders"),
    ).take(CaptureState(), TABLES, columns)
    assert taken is not None
    assert taken.state.jobs == (Job("k", ("shop.orders",), gap=False, asked=True, keys=('{"id":"7"}',)),)
    assert taken.state.uncovered == ()
    assert CaptureState.from_json(taken.state.to_json()) == taken.state
    said = {answer.id: (answer.state, answer.note) for answer in taken.answers}
    assert said["k"] == ("accepted", "")
    assert (
        said["two"]
        == said["many"]
        == ("refused", "single keys are read of one table, 1,000 at once, without a condition")
    )
    assert said["kind"] == ("refused", "capture does not carry out requests of kind snapshot for single keys")


def test_a_table_that_the_policy_left_out_is_not_covered_until_it_was_read_over_the_gap() -> None:
    state = CaptureState(tables={"shop.orders": 1}, jobs=(Job("old", ("shop.orders", "shop.users"), gap=True),))
    out = state.with_left_out("shop.orders", TableSetAside("", "bin.000001:9", "the policy", 1))
    assert CaptureState.from_json(out.to_json()) == out
    assert (out.captured, out.jobs[0].tables) == ({}, ("shop.users",))
    assert "shop.orders" in out.uncovered
    back = out.with_back("gap:back", ["shop.orders"])
    assert back.jobs[1] == Job("gap:back", ("shop.orders",), gap=True)
    assert (back.left_out, back.captured) == ({}, {"shop.orders": 1})
    assert "shop.orders" in back.uncovered
