"""A document whose newest state its assembler set aside is told by each audit until a later state of it is there."""

from __future__ import annotations

import pytest

from include.audit.history import StoredRun
from include.audit.history_rows import rows_of
from include.audit.search.audit import AuditMode
from include.audit.search.report import together
from include.audit.search.run_params import refuse_findings
from include.errors import Terminal
from include.log.ports import Record, TopicSpec
from include.log.publishing.dead_letter import DeadLetter
from include.log.topics import dead
from include.record.version import to_header
from tests.support.search.audit_harness import TOPIC, AuditHarness

REASON = "a row is missing: partner, partners {'id': 7}"


@pytest.fixture
def world() -> AuditHarness:
    found = AuditHarness(partitions=1)
    found.topic.write([(n, {"state": "completed"}) for n in range(1, 11)])
    found.catch_up()
    found.admin.ensure(TopicSpec(dead(TOPIC, "assemble_orders"), 1))
    return found


@pytest.fixture(params=["bisect", "digest"])
def mode(request: pytest.FixtureRequest) -> AuditMode:
    found: AuditMode = request.param
    return found


def set_aside(
    world: AuditHarness, order_id: int, version: int, *, offset: int = -1, app: str = "assemble_orders"
) -> None:
    record = Record(TOPIC, 0 if offset >= 0 else -1, offset, world.topic.key(order_id), b"{}", (to_header(version),), 0)
    letter = DeadLetter(record, app, REASON, 1_000_000)
    writer = world.log.writer(f"{app}-{order_id}-{version}")
    writer.begin()
    writer.append(letter.topic, letter.key, letter.value, headers=list(letter.headers))
    writer.commit()


def test_a_document_whose_newest_state_was_set_aside_is_a_line_of_the_verdict(
    world: AuditHarness, mode: AuditMode
) -> None:
    set_aside(world, 4, 100)
    report = world.audit(mode)
    assert (report.findings, report.clean, report.keys, report.differing_sides) == (1, False, [], 0)
    lines = report.lines()
    assert lines[0] == f"audit docs ({mode}): both sides equal, 1 set aside"
    assert f"set aside: 4: version 100 at 1970-01-01T00:00:01.000000Z by assemble_orders: {REASON}" in lines
    assert lines[-1].startswith("next: lyrebird documents rebuild --topic docs --key 4")
    assert report.to_json()["set_aside"] == [
        {
            "doc_id": "4",
            "version": 100,
            "application": "assemble_orders",
            "reason": REASON,
            "at": "1970-01-01T00:00:01.000000Z",
        }
    ]


def test_it_is_told_where_the_document_never_was_as_well(world: AuditHarness, mode: AuditMode) -> None:
    set_aside(world, 77, 100)
    assert [each.doc_id for each in world.audit(mode).set_aside] == ["77"]


def test_it_is_told_until_the_document_has_a_later_state(world: AuditHarness, mode: AuditMode) -> None:
    set_aside(world, 4, 11)
    set_aside(world, 5, 11)
    assert [each.doc_id for each in world.audit(mode).set_aside] == ["4", "5"]
    world.topic.put(4)
    world.topic.delete(5)
    world.catch_up()
    assert world.audit(mode).clean


def test_the_same_state_that_was_made_in_the_end_is_a_later_one(world: AuditHarness, mode: AuditMode) -> None:
    set_aside(world, 4, 11)
    world.topic.put(4)
    assert world.topic.version == 11
    world.catch_up()
    assert world.audit(mode).clean


def test_an_older_state_that_was_set_aside_is_no_line(world: AuditHarness, mode: AuditMode) -> None:
    set_aside(world, 4, 3)
    assert world.audit(mode).clean


def test_the_last_of_several_is_told_once(world: AuditHarness, mode: AuditMode) -> None:
    for version in (100, 102, 101):
        set_aside(world, 4, version)
    assert [(each.doc_id, each.version) for each in world.audit(mode).set_aside] == [("4", 102)]


def test_what_the_indexer_set_aside_is_found_by_comparing_and_not_told_twice(
    world: AuditHarness, mode: AuditMode
) -> None:
    world.admin.ensure(TopicSpec(dead(TOPIC, "index_orders"), 1))
    set_aside(world, 4, 100, offset=3, app="index_orders")
    assert world.audit(mode).clean


def test_a_state_from_above_the_cut_that_is_indexed_already_is_no_line(world: AuditHarness, mode: AuditMode) -> None:
    set_aside(world, 4, 11)
    acked = world.progress().acked
    world.topic.put(4)
    world.catch_up(acked=acked)
    report = world.audit(mode, wait_s=0.0)
    assert (report.set_aside, report.behind) == ((), 2)


def test_a_repair_leaves_it_and_a_nightly_audit_fails(world: AuditHarness) -> None:
    set_aside(world, 4, 100)
    report = world.repair()
    assert ([each.doc_id for each in report.set_aside], report.repaired) == (["4"], None)
    with pytest.raises(Terminal, match="1 findings"):
        refuse_findings(together([report]))


def test_the_history_names_it(world: AuditHarness) -> None:
    set_aside(world, 4, 100)
    (row,) = rows_of("search", StoredRun("run", 0, together([world.audit()])))
    assert (row.clean, row.said, row.details) == (False, "both sides equal, 1 set aside", ("set aside: 4",))
