"""The search audit by both modes: what is wrong is named, and what live writes change is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from include.audit.nothing import NothingJudged, exit_status
from include.audit.search.audit import AuditMode, judged_or_nothing
from include.audit.search.report import together
from include.errors import NothingToJudge, Terminal
from include.index.generations.active import change_fed
from include.index.progress.document import NOTES
from include.index.server.memory import MemoryIndex
from tests.support.search.audit_harness import AuditHarness


@pytest.fixture
def world() -> AuditHarness:
    found = AuditHarness()
    found.topic.write([(n, {"state": "completed"}) for n in range(1, 101)])
    found.topic.delete(50)
    found.catch_up()
    return found


@pytest.fixture(params=["bisect", "digest"])
def mode(request: pytest.FixtureRequest) -> AuditMode:
    found: AuditMode = request.param
    return found


def test_a_whole_copy_is_clean_and_says_up_to_where(world: AuditHarness, mode: AuditMode) -> None:
    report = world.audit(mode)
    assert report.clean
    assert (report.expected, report.indexed, report.behind) == (99, 99, 0)
    assert report.position is not None
    assert report.position["gtids"] == "0-1-1"
    assert report.next_command == ""
    assert report.lines()[0] == f"audit docs ({mode}): clean"


def test_documents_that_went_missing_are_named_by_key(world: AuditHarness, mode: AuditMode) -> None:
    for key in ("7", "77", "99"):
        world.lose(key)
    report = world.audit(mode)
    assert set(report.missing) == {"7", "77", "99"}
    assert (report.extra, report.stale, report.altered) == ((), (), ())
    assert "missing: 77" in report.lines()
    assert report.lines()[-1].startswith("next: lyrebird ")


def test_many_findings_ask_for_the_whole_topic_and_the_report_stays_short(world: AuditHarness, mode: AuditMode) -> None:
    for n in range(1, 40):
        world.lose(str(n))
    report = world.audit(mode)
    assert len([line for line in report.lines() if line.startswith("missing: ")]) == 21
    assert len(report.to_json()["missing"]) == 39


def test_a_document_that_should_be_deleted_is_extra(world: AuditHarness, mode: AuditMode) -> None:
    # A copy of the index from before the delete, as a restored snapshot would bring it.
    world.lose("50")
    world.put("50", 50)
    assert world.audit(mode).extra == ("50",)


def test_a_topic_that_has_grown_is_told_instead_of_a_verdict(world: AuditHarness, mode: AuditMode) -> None:
    world.log.grow(world.topic.name, 5)
    world.topic.put(1_000)
    with pytest.raises(Terminal, match="has grown") as refused:
        world.audit(mode)
    assert (refused.value.details["partitions"], refused.value.details["before"]) == (5, 2)


def test_a_document_that_nobody_sent_is_extra(world: AuditHarness, mode: AuditMode) -> None:
    world.put("7x", 7)
    assert world.audit(mode).extra == ("7x",)


def test_a_digest_finds_missing_extra_stale_and_altered_documents_at_once(world: AuditHarness) -> None:
    world.lose("7")
    world.put("x", 3)
    world.lose("8")
    world.put("8", 2)
    world.put("9", 9, body={"order_id": 9, "state": "forged"})
    report = world.audit()
    assert report.by_kind == {"missing": ("7",), "extra": ("x",), "stale": ("8",), "altered": ("9",)}
    assert report.differing == 6
    assert report.findings == 4


def test_as_many_extra_as_missing_documents_in_a_range_hide_from_counts_but_not_from_the_digest(
    world: AuditHarness,
) -> None:
    # More keys than the first level has ranges, and in one of them a key for another.
    world.topic.write([(n, {"state": "completed"}) for n in range(1000, 2000)])
    world.catch_up()
    world.lose("1500")
    world.put("1500x", 150)
    assert world.audit("bisect").clean
    found = world.audit("digest")
    assert (found.missing, found.extra) == (("1500",), ("1500x",))


def test_writes_above_the_cut_are_no_findings(world: AuditHarness, mode: AuditMode) -> None:
    def live() -> None:
        world.topic.put(1, state="cancelled")
        world.topic.delete(2)
        world.topic.put(50)
        world.topic.put(1000)
        world.catch_up()

    world.between = live
    report = world.audit(mode)
    assert report.clean
    assert report.behind == 4 + 4  # each transaction ends with a marker


@pytest.mark.parametrize("note", [True, False])
def test_documents_that_were_written_just_before_the_view_are_not_judged(
    world: AuditHarness, mode: AuditMode, note: bool
) -> None:
    # The index is ahead of its progress document: bulks were acknowledged, the document not yet written.
    for n in range(1, 11):
        world.topic.put(n, state="cancelled")
    world.topic.delete(20)
    world.topic.put(50)
    world.catch_up(note=note)
    report = world.audit(mode)
    assert report.clean
    if not note:
        assert report.in_flight == (12 if mode == "digest" else 11)


def test_faults_are_found_beside_documents_that_were_written_meanwhile(world: AuditHarness) -> None:
    world.lose("30")
    world.put("x", 3)
    for n in range(1, 30):
        world.topic.put(n, state="cancelled")
    world.catch_up(note=False)
    report = world.audit()
    assert report.by_kind == {"missing": ("30",), "extra": ("x",), "stale": (), "altered": ()}
    assert report.in_flight == 29


def test_records_without_a_readable_key_are_counted_and_not_judged(world: AuditHarness, mode: AuditMode) -> None:
    world.topic.spoil(1, b"\x01", versioned=False)
    world.catch_up()
    report = world.audit(mode)
    assert report.clean
    assert report.unreadable == 1
    assert any("1 records without a readable key" in line for line in report.lines())


def test_a_document_that_was_set_aside_is_missing(world: AuditHarness, mode: AuditMode) -> None:
    world.topic.put(200, note="no number")
    world.topic.spoil(201, b"\x01")
    world.catch_up()
    assert world.audit(mode).missing == ("200", "201")


def test_a_document_whose_newest_state_was_set_aside_is_stale(world: AuditHarness) -> None:
    world.topic.put(1, note="no number")
    world.topic.spoil(2, b"\x01")
    world.catch_up()
    assert world.audit().stale == ("1", "2")
    assert world.audit("bisect").clean


def test_keys_below_the_low_watermark_are_not_compared(world: AuditHarness) -> None:
    lows = dict(world.progress().acked)
    world.lose("7")
    world.topic.put(300)
    world.topic.put(301)
    world.catch_up()
    world.lose("300")
    report = world.audit("bisect", since=lows)
    assert report.missing == ("300",)
    assert (report.expected, report.indexed) == (2, 1)
    assert any(", from " in line for line in report.lines())


def test_routed_documents_that_moved_meanwhile_are_no_findings(world: AuditHarness, mode: AuditMode) -> None:
    routed = {name: of.model_copy(update={"routing": "state"}) for name, of in world.spec.index.topics.items()}
    world.spec = replace(world.spec, index=world.spec.index.model_copy(update={"topics": routed}))
    world.lose("7")
    for n in range(20, 30):
        world.topic.put(n, state="cancelled")
    world.catch_up(note=False)
    report = world.audit(mode)
    assert (report.missing, report.extra, report.in_flight) == (("7",), (), 10)


@pytest.mark.parametrize("first", ["bisect", "digest"])
def test_since_the_last_clean_audit_only_newer_keys_are_compared(world: AuditHarness, first: AuditMode) -> None:
    assert world.audit("bisect", since="last").expected == 99
    assert world.audit(first).clean
    world.lose("7")
    world.topic.put(300)
    world.topic.put(301)
    world.catch_up()
    world.lose("300")
    # After findings it starts where it did.
    for _ in range(2):
        report = world.audit("bisect", since="last")
        assert (report.missing, report.expected) == (("300",), 2)
    assert set(world.audit("bisect").missing) == {"7", "300"}


def test_an_audit_that_waits_judges_what_the_topic_held_at_its_start(world: AuditHarness) -> None:
    world.topic.put(400)
    report = world.audit(wait_s=1.0)
    assert report.behind == 2
    clock = world.clock
    slept: list[float] = []

    class Waiting:
        now_us, monotonic_s = clock.now_us, clock.monotonic_s

        def sleep(self, seconds: float) -> None:
            slept.append(seconds)
            clock.sleep(seconds)
            world.catch_up()

    world.clock = Waiting()
    report = world.audit(wait_s=60.0)
    assert (report.behind, report.expected, len(slept)) == (0, 100, 1)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda world: world.log.admin().delete("docs"), "not the one that the index was filled from"),
        (lambda world: lose_index(world), "no index serves this alias any more.*lyrebird index promote orders"),
        (lambda world: lose_progress(world), "what it says of its progress is gone"),
    ],
)
def test_what_cannot_be_audited_because_it_is_lost_says_why_and_what_to_do(
    world: AuditHarness, spoil: Callable[[AuditHarness], None], said: str
) -> None:
    spoil(world)
    with pytest.raises(Terminal, match=said) as refused:
        judged_or_nothing(world.spec, world)
    assert not isinstance(refused.value, NothingToJudge)


def lose_index(world: AuditHarness) -> None:
    assert isinstance(world.index, MemoryIndex)
    # As whoever makes an index notes it.
    change_fed(world.index, world.alias, add=[1])
    world.index.drop(world.name)


def lose_progress(world: AuditHarness) -> None:
    assert world.index.forget_notes(NOTES, world.name)
    world.index.refresh(world.name)


def test_a_generation_is_audited_by_its_own_name(world: AuditHarness) -> None:
    world.lose("7")
    world.spec = replace(world.spec, alias="orders-v1")
    assert world.audit().missing == ("7",)
    world.spec = replace(world.spec, alias="orders-v9")
    with pytest.raises(Terminal, match="lyrebird index rebuild orders"):
        world.audit()


def test_an_index_that_nothing_was_written_to_has_nothing_to_judge_though_its_topic_has_documents() -> None:
    world = AuditHarness(MemoryIndex())
    world.topic.put(1)
    with pytest.raises(NothingToJudge, match=r"nothing was indexed yet.*index_orders"):
        world.audit()
    told = judged_or_nothing(world.spec, world)
    assert isinstance(told, NothingJudged)
    assert (told.what, told.topic, told.clean, exit_status([told])) == ("docs", "docs", False, 4)
    assert together([told])["audits"]["docs"]["verdict"] == "nothing"


def test_an_index_that_nobody_has_made_yet_has_nothing_to_judge() -> None:
    world = AuditHarness(MemoryIndex())
    assert isinstance(world.index, MemoryIndex)
    world.index.drop(world.name)
    told = judged_or_nothing(world.spec, world)
    assert isinstance(told, NothingJudged)
    assert "Start the application index_orders" in told.error


def test_an_index_that_is_as_empty_as_its_topic_was_not_judged_clean_but_not_at_all() -> None:
    world = AuditHarness(MemoryIndex())
    world.catch_up()
    assert world.audit().clean
    assert isinstance(judged_or_nothing(world.spec, world), NothingJudged)


def test_what_is_empty_again_after_it_was_written_is_judged(world: AuditHarness) -> None:
    for n in range(1, 101):
        world.topic.delete(n)
    world.catch_up()
    report = judged_or_nothing(world.spec, world)
    assert (report.verdict, report.clean) == ("clean", True)


def test_reports_together_tell_the_findings_of_each_audit(world: AuditHarness) -> None:
    world.lose("7")
    found = together([world.audit()])
    assert found["audits"]["docs"]["findings"] == 1
    assert found["audits"]["docs"]["missing"] == ("7",)
