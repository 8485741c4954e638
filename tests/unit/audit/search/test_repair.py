"""Repair: what an audit found is written anew from the topic, newer writes win, and a crash loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import orjson
import pytest

from include.audit.search import audit as search
from include.audit.search import repair as mending
from include.audit.search.report import SearchReport
from include.audit.search.views.state_view import IndexState
from include.errors import Transient
from include.index.server.memory import MemoryIndex
from include.index.server.port import BulkAnswer, ItemAnswer
from tests.support.search.audit_harness import AuditHarness


@pytest.fixture
def world() -> AuditHarness:
    found = AuditHarness()
    found.topic.write([(n, {"state": "completed"}) for n in range(1, 101)])
    found.topic.delete(50)
    found.catch_up()
    return found


def spoil(world: AuditHarness) -> None:
    """One of each kind."""
    world.lose("7")
    world.put("x", 3)
    world.lose("8")
    world.put("8", 2)
    world.put("9", 9, body={"order_id": 9, "state": "forged"})
    found = world.index.get(world.name, "10")
    assert found is not None
    action = {"index": {"_id": "10", "version": 11, "version_type": "external"}}
    world.write([orjson.dumps(action) + b"\n" + orjson.dumps(found.source) + b"\n"])


FOUND = {"missing": ["7"], "extra": ["x"], "stale": ["8"], "altered": ["10", "9"]}


def whole(world: AuditHarness) -> dict[str, Any]:
    """Version and body of each living document."""
    assert isinstance(world.index, MemoryIndex)
    world.index.refresh(world.name)
    there = world.index.visible(world.name)
    return {i: (found.version, found.source["order"]) for i, found in there.items() if not found.deleted}


def test_every_kind_is_mended_and_the_next_audit_is_clean(world: AuditHarness) -> None:
    before = whole(world)
    spoil(world)
    report = world.repair(scrub="all")
    assert report.clean
    assert report.repaired == {"found": FOUND, "rewritten": 4, "removed": 1, "overtaken": 0, "left": {}}
    assert whole(world) == before
    done = "4 written anew from the topic, 1 hidden by a tombstone"
    assert f"  before the repair: 1 missing, 1 extra, 1 stale, 2 altered; {done}" in report.lines()
    assert world.audit().repaired is None


def test_a_version_that_the_server_forgets_late_is_written_once_it_has(
    world: AuditHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = whole(world)
    spoil(world)
    bulk, refused = world.index.bulk, [409, 409]

    def late(name: str, data: bytes) -> BulkAnswer:
        if refused and data.count(b"external_gte") == 1:
            return BulkAnswer(200, [ItemAnswer(refused.pop(), "version_conflict_engine_exception")])
        if data.count(b"external_gte") > 1:
            rows = data.splitlines(keepends=True)
            kept = [row for n, row in enumerate(rows) if b'"_id":"10"' not in rows[n // 2 * 2]]
            answer = bulk(name, b"".join(kept))
            items = list(answer.items or ())
            place = next(n for n, row in enumerate(rows[::2]) if b'"_id":"10"' in row)
            items.insert(place, ItemAnswer(409, "version_conflict_engine_exception"))
            return BulkAnswer(200, items)
        return bulk(name, data)

    monkeypatch.setattr(world.index, "bulk", late)
    report = world.repair(scrub="all")
    assert not refused
    assert report.repaired is not None
    assert (report.repaired["rewritten"], report.repaired["overtaken"]) == (4, 0)
    assert report.clean
    assert whole(world) == before


def test_a_document_that_somebody_has_just_deleted_is_written_once_the_server_has_forgotten_that(
    world: AuditHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = whole(world)
    world.lose("10")
    bulk, refused, forgets = world.index.bulk, [409, 409], list[int]()
    forget = world.forget

    def remembers(name: str, data: bytes) -> BulkAnswer:
        if refused and data.count(b"external_gte") == 1:
            return BulkAnswer(200, [ItemAnswer(refused.pop(), "version_conflict_engine_exception")])
        return bulk(name, data)

    def noted(copies: Sequence[IndexState]) -> AbstractContextManager[None]:
        forgets.append(len(copies))
        return forget(copies)

    monkeypatch.setattr(world.index, "bulk", remembers)
    monkeypatch.setattr(world, "forget", noted)
    report = world.repair()
    assert (refused, forgets) == ([], [0])
    assert report.repaired is not None
    assert (report.repaired["rewritten"], report.repaired["overtaken"]) == (1, 0)
    assert report.clean
    assert whole(world) == before


def test_a_copy_under_another_routing_is_extra_and_goes(world: AuditHarness) -> None:
    routed = {name: of.model_copy(update={"routing": "order_id"}) for name, of in world.spec.index.topics.items()}
    world.spec = replace(world.spec, index=world.spec.index.model_copy(update={"topics": routed}))
    assert isinstance(world.index, MemoryIndex)
    for n in range(1, 101):
        found = world.index.get(world.name, str(n))
        assert found is not None
        action = {"index": {"_id": str(n), "version": found.version, "version_type": "external", "routing": str(n)}}
        world.write([orjson.dumps(action) + b"\n" + orjson.dumps(found.source) + b"\n"])
        if n != 30:
            world.lose(str(n))
    report = world.repair(scrub="none")
    assert report.repaired is not None
    assert report.repaired["found"] == {"missing": [], "extra": ["30"], "stale": [], "altered": []}
    assert report.clean


def test_what_was_set_aside_is_named_with_the_command_that_replays_it(world: AuditHarness) -> None:
    world.topic.put(200, note="no number")
    world.topic.spoil(201, b"\x01")
    world.catch_up()
    report = world.repair()
    assert report.missing == ("200", "201")
    assert report.next_command == "lyrebird index replay-dead orders"
    assert "not mended: 201: its newest record was set aside: value is not in the Confluent wire format" in " ".join(
        report.lines()
    )


def test_what_the_log_has_let_go_meanwhile_is_left_for_a_rebuild(
    world: AuditHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.lose("7")
    examined = search.examine

    def then_removed(*arguments: Any, **how: Any) -> Any:
        found = examined(*arguments, **how)
        for partition, end in world.reader.end_offsets("docs").items():
            world.log.truncate("docs", partition, end - 1)
        return found

    monkeypatch.setattr(search, "examine", then_removed)
    report = world.repair()
    assert report.repaired is not None
    assert report.repaired["left"] == {"7": "the log has let go its record since it was read"}


def test_what_is_wrong_again_after_it_was_mended_asks_who_else_writes(
    world: AuditHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.lose("7")
    mend = mending.repair

    def undone(*arguments: Any) -> Any:
        found = mend(*arguments)
        world.lose("7")
        return found

    monkeypatch.setattr(search, "repair", undone)
    report = world.repair()
    assert report.missing == ("7",)
    assert any("1 were mended and are wrong again" in line for line in report.lines())
    assert report.next_command == "lyrebird audit search docs --repair"


def test_more_than_a_share_is_mended_share_by_share(world: AuditHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mending, "_AT_ONCE", 7)
    before = whole(world)
    for n in range(1, 40):
        world.lose(str(n))
    report = world.repair()
    assert report.clean
    assert whole(world) == before


def test_a_clean_index_is_left_alone(world: AuditHarness) -> None:
    before = whole(world)
    assert world.repair().repaired is None
    assert whole(world) == before


def test_a_report_with_findings_names_the_command_that_mends_them(world: AuditHarness) -> None:
    spoil(world)
    assert world.audit().next_command == "lyrebird audit search docs --repair"


def test_a_newer_write_that_comes_before_the_repair_wins(world: AuditHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(world)
    writing = world.writing

    def late(*arguments: Any) -> Any:
        for n in (7, 8, 9, 10):
            world.topic.put(n, state="cancelled")
        world.catch_up()
        return writing(*arguments)

    monkeypatch.setattr(world, "writing", late)
    report = world.repair(scrub="all")
    assert report.clean
    assert {whole(world)[key][1]["state"] for key in ("7", "8", "9", "10")} == {"cancelled"}
    monkeypatch.undo()
    assert world.audit(scrub="all").clean


def test_a_document_that_was_rewritten_since_the_verdict_is_not_deleted_for_its_greater_version(
    world: AuditHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(world)
    states = world.states
    asked: list[str] = []

    def late(*arguments: Any) -> Any:
        asked.append("states")
        if len(asked) == 2:
            world.topic.put(10, state="cancelled")
            world.catch_up()
        return states(*arguments)

    def forget(copies: list[IndexState]) -> None:
        raise AssertionError(copies)

    monkeypatch.setattr(world, "states", late)
    monkeypatch.setattr(world, "forget", forget)
    report = world.repair(scrub="all")
    assert report.clean
    assert report.repaired is not None
    assert report.repaired["overtaken"] == 1
    assert whole(world)["10"][1]["state"] == "cancelled"


def test_a_document_whose_record_was_set_aside_is_left_and_named(world: AuditHarness) -> None:
    world.topic.spoil(200, b"\x01")
    world.topic.put(201, note="no number")
    world.catch_up()
    report = world.repair()
    assert report.missing == ("200", "201")
    assert report.repaired is not None
    assert sorted(report.repaired["left"]) == ["200", "201"]
    assert "document_parsing_exception" in report.repaired["left"]["201"]
    assert report.next_command == "lyrebird index replay-dead orders"
    assert any(line.startswith("not mended: 200: ") for line in report.lines())


def after_forget(world: AuditHarness, patch: pytest.MonkeyPatch) -> None:
    bulk = world.index.bulk
    patch.setattr(world.index, "bulk", lambda name, data: BulkAnswer(503, reason="away") if name else bulk(name, data))


def after_half_of_the_writes(world: AuditHarness, patch: pytest.MonkeyPatch) -> None:
    bulk = world.index.bulk

    def half(name: str, data: bytes) -> BulkAnswer:
        lines = data.splitlines(keepends=True)
        bulk(name, b"".join(lines[: len(lines) // 4 * 2]))
        return BulkAnswer(0, reason="connection reset")

    patch.setattr(world.index, "bulk", half)


def after_all_writes(world: AuditHarness, patch: pytest.MonkeyPatch) -> None:
    bulk, refresh = world.index.bulk, world.index.refresh
    sent: list[bytes] = []

    def send(name: str, data: bytes) -> BulkAnswer:
        sent.append(data)
        return bulk(name, data)

    def show(name: str) -> None:
        if sent:
            raise Transient("a shard was not refreshed", system="elasticsearch")
        refresh(name)

    patch.setattr(world.index, "bulk", send)
    patch.setattr(world.index, "refresh", show)


@pytest.mark.parametrize("crash", [after_forget, after_half_of_the_writes, after_all_writes])
def test_a_repair_that_dies_after_any_step_is_finished_by_the_next_one(
    world: AuditHarness, monkeypatch: pytest.MonkeyPatch, crash: Callable[[AuditHarness, pytest.MonkeyPatch], None]
) -> None:
    before = whole(world)
    spoil(world)
    with monkeypatch.context() as patch:
        crash(world, patch)
        with pytest.raises(Transient):
            world.repair(scrub="all")
    report: SearchReport = world.repair(scrub="all")
    assert report.clean
    assert whole(world) == before
