"""What an audit does not judge, and says so: records that the log has let go; and topics that were made anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from include.audit.search import audit as search
from include.audit.search.audit import AuditMode
from include.audit.search.bounds import AuditBounds
from include.audit.search.digest import digest
from include.audit.search.views.state_view import IndexState
from include.errors import Terminal, Transient
from include.index.metadata import Metadata, TopicOrigin
from tests.support.documents.topic import DocumentTopic
from tests.support.search.audit_harness import TOPIC, AuditHarness


@pytest.fixture
def world() -> AuditHarness:
    found = AuditHarness(partitions=1)
    found.topic.write([(n, {"state": "completed"}) for n in range(1, 101)])
    found.catch_up(generation=1)
    return found


@pytest.fixture(params=["bisect", "digest"])
def mode(request: pytest.FixtureRequest) -> AuditMode:
    found: AuditMode = request.param
    return found


def made_anew(world: AuditHarness, keys: range) -> None:
    """The topic of that name in its second generation, with other records, indexed."""
    world.log.admin().delete(TOPIC)
    world.topic = DocumentTopic(TOPIC, world.admin, world.log.writer("w"), world.registry, 1)
    world.topic.version = 1000
    generation(world, 2)
    world.topic.write([(n, {"state": "completed"}) for n in keys])
    world.catch_up(generation=2)


def generation(world: AuditHarness, number: int) -> None:
    own = {name: of.model_copy(update={"generation": number}) for name, of in world.spec.index.topics.items()}
    world.spec = replace(world.spec, index=world.spec.index.model_copy(update={"topics": own}))
    world._metadata = Metadata(TopicOrigin("c", "t", TOPIC, number))


def test_documents_whose_records_the_log_has_let_go_are_not_judged_and_counted(
    world: AuditHarness, mode: AuditMode
) -> None:
    world.log.truncate(TOPIC, 0, 40)
    report = world.audit(mode)
    assert report.clean
    assert (report.expected, report.indexed, report.starts) == (60, 60, {0: 40})
    assert "  the log begins at offsets 0:40" in report.lines()
    if mode == "digest":
        assert report.unproven == 40
        assert any("40 documents are of records that the log has let go" in line for line in report.lines())
    assert report.to_json()["starts"] == {"0": 40}


def test_what_the_log_still_holds_is_judged_as_ever(world: AuditHarness, mode: AuditMode) -> None:
    world.log.truncate(TOPIC, 0, 40)
    world.lose("77")
    world.put("x", 3, offset=50)
    world.put("y", 3, offset=5)
    report = world.audit(mode)
    assert (report.missing, report.extra) == (("77",), ("x",))


def test_a_newer_record_proves_that_a_document_of_an_old_one_is_stale(world: AuditHarness, mode: AuditMode) -> None:
    world.swallowed = {"7", "8"}
    world.topic.put(7, state="cancelled")
    world.topic.delete(8)
    world.catch_up()
    world.log.truncate(TOPIC, 0, 40)
    report = world.audit(mode)
    assert report.stale == ("7",)
    # Counts are blind to what they leave out on both sides.
    assert report.extra == (("8",) if mode == "digest" else ())


def test_records_that_go_while_the_audit_reads_are_no_findings(world: AuditHarness, mode: AuditMode) -> None:
    world.between = lambda: world.log.truncate(TOPIC, 0, 40)
    report = world.audit(mode)
    assert report.clean
    assert report.starts == {0: 40}


def test_what_is_removed_in_the_middle_of_reading_is_passed_over(world: AuditHarness) -> None:
    from include.audit.search.expected import records_below

    log, reader = world.log, world.reader

    class Removing:
        def __getattr__(self, name: str) -> object:
            return getattr(reader, name)

        def read(self, topic: str, partition: int, start: int, end: int) -> object:
            if start < 40:
                log.truncate(topic, partition, 40)
            return reader.read(topic, partition, start, end)

    found = list(records_below(Removing(), TOPIC, {0: 60}))  # type: ignore[arg-type]
    assert [record.offset for record in found] == list(range(40, 60))


def test_what_a_former_topic_of_the_name_left_is_extra(world: AuditHarness, mode: AuditMode) -> None:
    made_anew(world, range(50, 60))
    report = world.audit(mode)
    assert len(report.extra) == 90
    assert (report.missing, report.stale, report.in_flight) == ((), (), 0)


def test_what_a_former_topic_left_is_not_judged_once_the_log_lets_records_go(
    world: AuditHarness, mode: AuditMode
) -> None:
    made_anew(world, range(50, 60))
    world.log.truncate(TOPIC, 0, 4)
    report = world.audit(mode)
    assert report.clean
    assert report.expected == 6
    assert report.unproven == (94 if mode == "digest" else 0)


def test_an_unkeyed_topic_says_nothing_of_the_records_of_a_former_one() -> None:
    former, own = (IndexState("a", 1, 0, 5, False, None, generation=n) for n in (1, 2))
    keyed = AuditBounds({0: 3}, 2)
    assert [keyed.unproven(former), keyed.above(former), keyed.counted(former)] == [False, False, True]
    assert replace(keyed, keyed=False).unproven(former)
    assert [keyed.unproven(own), keyed.above(own), keyed.counted(own)] == [False, True, False]
    assert not replace(keyed, lows={0: 1}).counted(former)


def test_the_cut_of_the_last_clean_audit_counts_in_its_own_generation_alone(world: AuditHarness) -> None:
    assert world.audit().clean
    made_anew(world, range(1, 101))
    world.lose("7")
    assert world.audit("bisect", since="last").missing == ("7",)


def test_a_log_that_has_lost_its_end_cannot_be_audited(world: AuditHarness, mode: AuditMode) -> None:
    progress = world.progress()
    world.catch_up(acked={0: progress.acked[0] + 7})
    with pytest.raises(Terminal, match=r"the log ends before.*partition 0.*7.*generation to 2"):
        world.audit(mode)


def test_an_index_that_has_not_taken_up_the_declared_generation_cannot_be_audited(world: AuditHarness) -> None:
    generation(world, 2)
    with pytest.raises(Terminal, match=r"does not follow the declared generation.*index_orders"):
        world.audit()


def test_an_aborted_transaction_at_the_end_of_an_idle_topic_is_no_lag(world: AuditHarness) -> None:
    writer = world.log.writer("other")
    writer.begin()
    writer.append(TOPIC, world.topic.key(900), b"\0")
    writer.abort()
    world.catch_up()
    report = world.audit("bisect", wait_s=60.0)
    assert (report.clean, report.behind, world.clock.monotonic_s()) == (True, 0, 0.0)


def test_counts_from_the_last_audit_on_name_documents_that_an_update_never_reached(world: AuditHarness) -> None:
    assert world.audit("bisect").clean
    world.swallowed = {"7"}
    world.topic.put(7, state="cancelled")
    world.topic.put(8, state="cancelled")
    world.catch_up()
    report = world.audit("bisect", since="last")
    assert (report.stale, report.in_flight) == (("7",), 0)
    # It is a finding, so the next audit starts where this one did.
    assert world.audit("bisect", since="last").stale == ("7",)


def test_a_tombstone_that_a_floor_wrote_is_not_missing_to_counts(world: AuditHarness, mode: AuditMode) -> None:
    found = world._metadata.deleted(0, 6, "7", 500)
    world.write([b'{"index":{"_id":"7","version":500,"version_type":"external"}}\n{"metadata":' + found + b"}\n"])
    assert world.audit(mode).clean


def test_counts_far_ahead_of_the_progress_document_are_refused(
    world: AuditHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_ABOVE", 9)
    for n in range(1, 11):
        world.topic.put(n, state="cancelled")
    world.catch_up(note=False)
    with pytest.raises(Transient, match="far ahead of its progress document"):
        world.audit("bisect")


def test_states_that_come_out_by_chance_again_and_again_leave_the_audit_incomplete(
    world: AuditHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.lose("7")
    view = world.states(world.name, world.spec, AuditBounds({0: 1000}))
    expected = world._following.upto({0: 100}, world.reading(world.progress()))
    monkeypatch.setattr(type(expected), "find", lambda self, states: [])
    monkeypatch.setattr("include.audit.search.digest._MOST_LISTED", -1)
    found = digest(expected, view)
    assert found.left > 0
    assert (found.more, found.less) == ([], [])
