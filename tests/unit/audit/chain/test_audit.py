"""The audit beside writers, upgrades, backfills and expiry; what it tells; and counts of groups that cut elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.audit.chain import group as chain_group
from include.audit.chain.audit import ChainAuditOptions, audit_chain
from include.audit.chain.compare import CountDifference, Segment, differences
from include.audit.chain.report import audit_line, together
from include.errors import SettingsError, Transient
from include.lake.protocol.chain import Chain
from include.lake.protocol.commit_protocol import PlannedEnd
from include.lake.protocol.pointer import ranges_of, read_pointer
from include.lake.reading.log_ranges import PortRanges
from include.lake.writing.log_cuts import LogCuts
from include.store.memory import MemoryStore
from include.store.object_store import ObjectInfo
from tests.support.lake.chain_harness import GROUPS, PARTED, Apart, ChainHarness, faults

DEEP = ChainAuditOptions(depth="bytes")


@pytest.fixture
def world(tmp_path: Path) -> ChainHarness:
    made = ChainHarness(tmp_path)
    made.fill()
    return made


def backfilled(world: ChainHarness, *firsts: int) -> int:
    """Cuts of partition 0 of `by_date` made again and promoted; their generation."""
    topic = world.chain().of
    pointer = read_pointer(world.store, topic).reserve("backfill x", "backfill")
    generation = pointer.reserved[-1].generation
    world.store.put(topic.pointer, pointer.to_bytes())
    chain = world.chain(generation=generation)
    ranges = PortRanges(world.memory.reader(), world.memory.admin())
    cuts = LogCuts(ranges, chain, Apart(), world.folder / "backfill", 10**9, 1000)
    made = [
        Chain(world.store, chain).write_cut(each.first, PlannedEnd(each.next, "backfill", "", "w", exact=True), cuts)
        for each in world.commits()
        if each.first in firsts
    ]
    live = pointer.live
    assert live is not None
    held = {0: ranges_of(made)}
    world.store.put(topic.pointer, pointer.promote(generation, held, replaces=live.generation).to_bytes())
    return generation


def upgrade(world: ChainHarness) -> None:
    """Another revision of `by_date` takes over, while the one before goes on."""
    world.drivers.insert(1, world.started_parted(PARTED.model_copy(update={"revision": 2})))


@pytest.fixture
def unaware(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers do not look whether they were overtaken: as they are between two looks."""
    monkeypatch.setattr("include.lake.writing.driver.require_current", lambda *_: None)


@pytest.mark.usefixtures("unaware")
def test_an_upgrade_is_clean_and_so_is_what_the_old_one_writes_behind_it(world: ChainHarness) -> None:
    upgrade(world)
    world.fill(1)
    assert [(each.first, each.next) for each in world.commits(generation=2)] == [(244, 305)]
    report = world.audit(DEEP)
    assert faults(report) == []
    assert report.groups[1].records == 600


@pytest.mark.usefixtures("unaware")
def test_a_hole_between_generations_is_found(world: ChainHarness) -> None:
    upgrade(world)
    world.fill(1)
    for commit in [each for each in world.commits() if each.first >= 183]:
        for key in (world.chain().commit(commit.first), world.chain().intent(commit.first)):
            world.store.delete(key)
        for file in commit.files:
            world.store.delete(file.key)
    (finding,) = world.audit().findings
    assert (finding.fault, finding.first, finding.until) == ("hole", 183, 244)


def test_a_backfill_stands_beside_what_it_replaces_and_the_old_objects_may_go(world: ChainHarness) -> None:
    replaced = [file.key for each in world.commits() if each.first in (61, 122) for file in each.files]
    generation = backfilled(world, 61, 122)
    report = world.audit(DEEP)
    assert faults(report) == []
    assert (report.groups[1].objects, report.groups[1].records) == (24 + 6, 480)
    for key in replaced:
        world.store.delete(key)
    report = world.audit(DEEP)
    assert faults(report) == []
    assert (report.groups[1].objects, report.groups[1].replaced) == (24, 6)
    world.store.delete(world.chain(generation=generation).commit(122))
    (finding,) = world.audit().findings
    assert (finding.fault, finding.first, finding.until, finding.generation) == ("hole", 122, 183, generation)


def test_an_object_of_a_promoted_backfill_that_is_gone_is_missing(world: ChainHarness) -> None:
    generation = backfilled(world, 61)
    key = world.commits(generation=generation)[0].files[0].key
    world.store.delete(key)
    (finding,) = world.audit(DEEP).findings
    assert (finding.fault, finding.key, finding.generation) == ("object missing", key, generation)


def test_a_topic_made_anew_is_audited_with_its_former_life(world: ChainHarness) -> None:
    world.memory.admin().delete("e")
    former = next(iter(world.store.list("parted/e/"))).key
    world.run_for(6)
    world.make("e", 2)
    world.run_for(6)
    world.fill(2)
    report = world.audit(DEEP)
    assert report.clean
    assert [sorted(heads.values()) for heads in report.groups[0].heads.values()] in (
        [[122, 122], [244, 244]],
        [[244, 244], [122, 122]],
    )
    world.store.delete(former)
    assert faults(world.audit()) == ["object missing"]


class Late(MemoryStore):
    """Its listings of chains do not have what was `hidden`, as if it had been written while they were made."""

    hidden: frozenset[str] = frozenset()

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        return (each for each in super().list(prefix, start_after=start_after) if each.key not in self.hidden)


def test_what_is_committed_while_it_is_listed_is_no_fault(world: ChainHarness) -> None:
    store = Late(world.clock)
    store._objects = world.store._objects
    chain = world.chain()
    for hidden in ([183], [122], [61, 122], [0]):
        store.hidden = frozenset(name for first in hidden for name in (chain.commit(first), chain.intent(first)))
        assert faults(audit_chain(store, GROUPS, "e", world.clock.now_us())) == [], hidden
    store.hidden = frozenset(chain.commit(first) for first in (122, 183))
    assert faults(audit_chain(store, GROUPS, "e", world.clock.now_us())) == []


def test_labels_are_read_in_parts_and_only_where_they_are_asked_for(
    world: ChainHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_group, "_AT_ONCE", 2)
    keys = [file.key for commit in world.commits() for file in commit.files]
    for key in keys:
        world.store.put(key, world.body(key))
    assert faults(world.audit()) == faults(world.audit(DEEP)) == []
    report = world.audit(ChainAuditOptions(depth="labels"))
    assert [finding.key for finding in report.findings] == keys
    assert all("metadata have SHA-256 none" in finding.meaning for finding in report.findings)


def test_a_store_that_does_not_answer_is_no_verdict(world: ChainHarness) -> None:
    class Away(MemoryStore):
        def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
            raise Transient("no answer", system="s3")

    with pytest.raises(Transient):
        audit_chain(Away(), GROUPS, "e", 0)


def test_a_topic_that_nobody_has_is_refused_with_the_groups_that_there_are(world: ChainHarness) -> None:
    with pytest.raises(SettingsError, match=r"by_date.*raw"):
        world.audit(topic="nobody")


def test_groups_that_cut_elsewhere_are_compared_all_the_same(tmp_path: Path) -> None:
    world = ChainHarness(tmp_path)
    raw, parted = world.drivers
    for number, records in enumerate((60, 35, 80, 20, 45, 70)):
        world.write("e", records)
        world.drivers = [raw, parted] if number == 5 else [parted] if number % 2 else [raw]
        world.run_for(5, "flush")
    world.drivers = [raw, parted]
    assert world.audit().clean
    assert world.audit(DEEP).clean
    commit = world.commits()[1]
    changed = replace(commit, n_records=commit.n_records - 2, filtered=commit.filtered - 2)
    world.store.put(world.chain().commit(commit.first), changed.to_bytes())
    (finding,) = world.audit(DEEP).findings
    assert (finding.fault, finding.first, finding.until) == ("counts differ", commit.first, commit.next)
    assert "2 records fewer" in finding.meaning


def test_a_report_reads_well_and_has_all_its_keys(world: ChainHarness) -> None:
    report = world.audit()
    assert report.lines()[0].startswith("chains of e: clean (names, 1970-01-01T")
    assert audit_line([report]) == "chain audit: clean (1 topic in 2 groups, 16 commits, 32 objects)"
    world.store.delete(world.commits()[0].files[0].key)
    world.store.delete(world.chain("raw").commit(61))
    dirty = world.audit()
    text = "\n".join(dirty.lines())
    assert "object missing: by_date (generation 1, partition 0, offset 0): parted/e/" in text
    assert "hole: raw (generation 1, partition 0, offsets 61 to 121): raw/_chain/" in text
    assert "  next: lyrebird lake where e 0 61" in text
    assert "  next: lyrebird lake backfill e --group by_date --offsets 0:0-1 --dry-run" in text
    assert audit_line([dirty]).endswith("next: lyrebird audit chain e")
    told = together([dirty])
    assert (told["clean"], len(told["topics"]["e"]["findings"])) == (False, 2)
    assert told["topics"]["e"]["next_command"] == dirty.next_command
    assert told["topics"]["e"]["groups"][0]["heads"]


def test_many_findings_of_a_kind_are_cut_short_in_words_and_whole_in_json(world: ChainHarness) -> None:
    for number in range(30):
        world.store.put(f"parted/e/dt=2026-11-03/{number}", b"x")
    report = world.audit()
    assert sum(line.startswith("object extra: by_date") for line in report.lines(shown=5)) == 5
    assert "object extra: … and 25 more (--json shows all)" in report.lines(shown=5)
    assert len(report.to_json()["findings"]) == 30


Records = st.lists(st.booleans(), min_size=1, max_size=60)


@st.composite
def cut_twice(draw: st.DrawFn) -> tuple[list[bool], list[Segment], list[Segment]]:
    """A log with offsets that hold records or none, cut in two ways, one of which may be shorter."""
    log = draw(Records)

    def cuts() -> list[Segment]:
        sizes = draw(st.lists(st.integers(1, 12), min_size=1))
        ends = [0, *(min(end, len(log)) for end in accumulate(sizes))]
        return [Segment(a, b, sum(log[a:b])) for a, b in pairwise(ends) if a < b]

    return log, cuts(), cuts()


@given(cut_twice())
def test_right_counts_never_differ(made: tuple[list[bool], list[Segment], list[Segment]]) -> None:
    _, one, other = made
    assert list(differences(one, other)) == []
    assert list(differences(other, one)) == []


@given(cut_twice(), st.data())
def test_nobody_knows_what_a_gap_had_and_the_rest_is_still_right(
    made: tuple[list[bool], list[Segment], list[Segment]], data: st.DataObject
) -> None:
    _, one, other = made
    at = data.draw(st.integers(0, len(one) - 1))
    one[at] = one[at]._replace(records=None)
    assert list(differences(one, other)) == []


@given(cut_twice(), st.data())
def test_in_a_dense_log_a_wrong_count_is_found_where_it_is(
    made: tuple[list[bool], list[Segment], list[Segment]], data: st.DataObject
) -> None:
    one, other = ([each._replace(records=each.next - each.first) for each in part] for part in made[1:])
    at = data.draw(st.integers(0, len(one) - 1))
    wrong = one[at]
    if wrong.next > other[-1].next:
        return
    less = data.draw(st.integers(1, wrong.next - wrong.first))
    one[at] = wrong._replace(records=(wrong.next - wrong.first) - less)
    found = list(differences(one, other))
    assert found
    assert -less <= sum(each.more for each in found) < 0
    assert all(wrong.first <= each.first < each.until <= wrong.next for each in found)


def test_whole_cuts_that_both_have_are_compared_exactly() -> None:
    one = [Segment(0, 10, 5), Segment(10, 20, 4), Segment(20, 30, 6)]
    other = [Segment(0, 10, 5), Segment(10, 20, 5), Segment(20, 30, 6)]
    assert list(differences(one, other)) == [CountDifference(10, 20, -1)]
    assert list(differences(other, one)) == [CountDifference(10, 20, 1)]
    assert list(differences(one, [])) == []
