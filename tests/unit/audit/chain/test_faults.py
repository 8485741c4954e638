"""Each fault is planted by itself, and is found as what it is, and nothing else with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from include.audit.chain.audit import ChainAuditOptions
from include.lake.protocol import chain as chain_module
from include.lake.protocol.chain import Chain
from include.lake.protocol.cut import Commit, Intent
from include.lake.protocol.pointer import PointerEntry, ReadersPointer, read_pointer
from tests.support.lake.chain_harness import ChainHarness, faults

DEEP = ChainAuditOptions(depth="bytes")


@pytest.fixture
def world(tmp_path: Path) -> ChainHarness:
    made = ChainHarness(tmp_path)
    made.fill()
    return made


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_module, "SUMMARY_COMMITS", 3)


def rewrite(world: ChainHarness, commit: Commit, chain_of: str = "by_date") -> None:
    chain = world.chain(chain_of)
    world.store.put(chain.commit(commit.first), commit.to_bytes())


@pytest.mark.parametrize("options", [ChainAuditOptions(), ChainAuditOptions(depth="labels"), DEEP])
def test_what_is_whole_is_clean_at_every_depth(world: ChainHarness, options: ChainAuditOptions) -> None:
    report = world.audit(options)
    assert report.clean
    assert report.next_command == ""
    assert [(group.group, group.commits, group.objects) for group in report.groups] == [
        ("raw", 8, 8),
        ("by_date", 8, 24),
    ]
    (heads,) = report.groups[0].heads.values()
    assert heads == {0: 244, 1: 244}


@pytest.mark.parametrize(
    ("group", "run"),
    [
        ("raw", "lyrebird lake where e 1 122"),
        ("by_date", "lyrebird lake backfill e --group by_date --offsets 1:122-123 --dry-run"),
    ],
)
def test_an_object_that_was_removed_is_missing(world: ChainHarness, group: str, run: str) -> None:
    commit = world.commits(group, 1)[2]
    key = commit.files[0].key
    world.store.delete(key)
    for options in (ChainAuditOptions(), DEEP):
        (finding,) = world.audit(options).findings
        assert (finding.fault, finding.key, finding.partition) == ("object missing", key, 1)
        assert (finding.first, finding.next_command) == (commit.first, run)


def test_an_object_of_another_size_was_changed(world: ChainHarness) -> None:
    key = world.commits()[1].files[0].key
    world.store.put(key, world.body(key) + b"x")
    for options in (ChainAuditOptions(), DEEP):
        (finding,) = world.audit(options).findings
        assert (finding.fault, finding.key) == ("object changed", key)


def test_a_flipped_byte_shows_when_objects_are_read_and_to_the_labels_when_it_was_put_anew(world: ChainHarness) -> None:
    key = world.commits("raw")[1].files[0].key
    body = bytearray(world.body(key))
    body[len(body) // 2] ^= 1
    label = world.store.head(key)
    assert label is not None
    world.store.put(key, bytes(body), metadata=label.metadata)
    assert world.audit().clean
    assert world.audit(ChainAuditOptions(depth="labels")).clean
    (finding,) = world.audit(DEEP).findings
    assert (finding.fault, finding.key, finding.generation) == ("object changed", key, 1)
    world.store.put(key, bytes(body))
    assert world.audit().clean
    assert faults(world.audit(ChainAuditOptions(depth="labels"))) == ["object changed"]


def test_an_object_that_no_commit_lists_is_extra(world: ChainHarness) -> None:
    chain, commit = world.chain(), world.commits()[1]
    foreign = str(chain.data(("dt=2026-11-03",), commit.first, ""))
    early = str(chain.data(("dt=2026-11-03",), commit.first + 1, ""))
    unknown = foreign.replace("/1_0_", "/9_0_")
    stray = "parted/e/dt=2026-11-03/notes.txt"
    for key in (foreign, early, unknown, stray, "parted/e/dt=2026-11-03/_SUCCESS", "parted/e/dt=2026-11-03/_LATE"):
        world.store.put(key, b"x")
    report = world.audit()
    assert {(each.fault, each.key) for each in report.findings} == {
        ("object extra", key) for key in (foreign, early, unknown, stray)
    }
    assert report.findings[0].next_command.startswith("lyrebird lake cat parted/e/dt=2026-11-03/")


def test_objects_of_a_cut_under_way_are_none_of_the_extra_ones_until_it_has_stood_too_long(world: ChainHarness) -> None:
    world.store.delete(world.chain().commit(183))
    report = world.audit()
    assert report.clean
    assert (report.groups[1].under_way, report.groups[1].heads.popitem()[1][0]) == (1, 183)
    world.clock.advance(3700)
    (finding,) = world.audit().findings
    assert (finding.fault, finding.first) == ("intent stale", 183)
    assert "61 minutes" in finding.meaning


@pytest.mark.parametrize("with_intent", [False, True])
def test_a_commit_that_was_removed_leaves_a_hole(world: ChainHarness, with_intent: bool) -> None:
    chain = world.chain("raw")
    world.store.delete(chain.commit(61))
    if with_intent:
        world.store.delete(chain.intent(61))
    (finding,) = world.audit(DEEP).findings
    assert (finding.fault, finding.first, finding.until, finding.key) == ("hole", 61, 122, chain.commit(61))
    assert ("neither" in finding.meaning) == with_intent


def test_a_chain_whose_beginning_was_removed_has_a_hole(world: ChainHarness) -> None:
    for commit in world.commits()[:2]:
        world.store.delete(world.chain().commit(commit.first))
    (finding,) = world.audit().findings
    assert (finding.fault, finding.first, finding.until) == ("hole", 0, 122)


def test_objects_of_a_last_cut_without_commit_and_intent_are_extra(world: ChainHarness) -> None:
    commit = world.commits("raw")[-1]
    world.store.delete(world.chain("raw").commit(commit.first))
    world.store.delete(world.chain("raw").intent(commit.first))
    (finding,) = world.audit().findings
    assert (finding.fault, finding.key) == ("object extra", commit.files[0].key)


def test_a_commit_that_cannot_be_read_hides_its_cut_and_nothing_else(world: ChainHarness) -> None:
    chain, commit = world.chain(), world.commits()[1]
    told = orjson.loads(commit.to_bytes())
    told["n_records"] += 1
    for body in (orjson.dumps(told, option=orjson.OPT_SORT_KEYS), b"{}", b""):
        world.store.put(chain.commit(commit.first), body)
        (finding,) = world.audit(DEEP).findings
        assert (finding.fault, finding.key) == ("chain unreadable", chain.commit(61))
        assert (finding.first, finding.until) == (61, 122)


def test_a_commit_with_wrong_counts_differs_from_the_backup(world: ChainHarness) -> None:
    commit = world.commits()[1]
    rewrite(world, replace(commit, n_records=commit.n_records - 1, filtered=commit.filtered - 1))
    (finding,) = world.audit().findings
    assert (finding.fault, finding.first, finding.until) == ("counts differ", 61, 122)
    assert "at least 1 record fewer than raw" in finding.meaning
    assert finding.next_command == "lyrebird audit chain e --deep"
    report = world.audit(ChainAuditOptions(compacted=lambda _topic: True))
    assert report.clean
    assert "compacted" in report.notes[0]


def test_an_object_with_other_records_than_committed_is_wrong(world: ChainHarness) -> None:
    commit = world.commits()[1]
    first = commit.files[1]
    files = (commit.files[0], first._replace(records=first.records - 1), *commit.files[2:])
    rewrite(world, replace(commit, files=files, filtered=commit.filtered + 1))
    assert world.audit().clean
    found = world.audit(DEEP)
    (finding,) = found.findings
    assert (finding.fault, finding.key) == ("object wrong", first.key)
    assert f"has {first.records} records, its commit says {first.records - 1}" in finding.meaning


def test_offsets_outside_of_what_the_commit_says_are_wrong(world: ChainHarness) -> None:
    commit = world.commits()[1]
    first = commit.files[1]
    assert first.first is not None
    files = (commit.files[0], first._replace(first=first.first - 1), *commit.files[2:])
    rewrite(world, replace(commit, files=files))
    assert faults(world.audit(DEEP)) == ["object wrong"]


def test_a_commit_that_reaches_into_the_next_cut_makes_readers_find_offsets_twice(world: ChainHarness) -> None:
    commit = world.commits()[1]
    rewrite(world, replace(commit, next=commit.next + 5))
    (finding,) = world.audit().findings
    assert (finding.fault, finding.first, finding.until) == ("read twice", 122, 127)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda intent: None, "is gone"),
        (lambda intent: replace(intent, end=intent.end - 1), "promises another cut"),
        (lambda intent: replace(intent, writer="somebody else"), "promises another cut"),
    ],
)
def test_an_intent_that_is_not_that_of_its_commit_is_broken(
    world: ChainHarness, change: Callable[[Intent], Intent | None], fault: str
) -> None:
    chain = world.chain()
    made = change(Intent.parse(world.body(chain.intent(61)), chain, 61))
    world.store.delete(chain.intent(61))
    if made is not None:
        files = tuple(file for file in made.files if file.last is None or file.last < made.end)
        world.store.put(chain.intent(61), replace(made, files=files).to_bytes())
    (finding,) = world.audit(DEEP).findings
    assert (finding.fault, finding.key) == ("intent broken", chain.intent(61))
    assert fault in finding.meaning


def test_an_intent_where_no_cut_can_begin_is_broken(world: ChainHarness) -> None:
    chain = world.chain()
    body = world.body(chain.intent(61))
    for first in (70, 400):
        world.store.put(chain.intent(first), body)
    found = world.audit().findings
    assert [(each.fault, each.first) for each in found] == [("intent broken", 70), ("intent broken", 400)]


def test_a_foreign_name_in_the_chain_stops_those_who_follow_it(world: ChainHarness) -> None:
    chain = world.chain()
    world.store.put(f"{chain}/notes.txt", b"x")
    (finding,) = world.audit().findings
    assert (finding.fault, finding.key) == ("chain unreadable", f"{chain}/notes.txt")


def test_a_pointer_that_is_gone_or_cannot_be_read_is_one_finding(world: ChainHarness) -> None:
    topic = world.chain().of
    world.store.delete(topic.pointer)
    assert faults(world.audit()) == ["pointer wrong"]
    world.store.put(topic.pointer, b"{}")
    report = world.audit()
    assert faults(report) == ["pointer wrong"]
    assert report.next_command == "lyrebird lake status"


@pytest.mark.parametrize(
    ("cuts", "fault", "place"),
    [
        ({0: ((61, 122),)}, "hole", (61, 122)),
        ({0: ((183, 244),)}, "hole", (183, 244)),
        ({0: ((244, 300),)}, "hole", (244, 300)),
        ({0: ((70, 90),)}, "hole", None),
    ],
)
def test_pointer_ranges_that_lead_nowhere_leave_a_hole(
    world: ChainHarness, cuts: dict[int, tuple[tuple[int, int], ...]], fault: str, place: tuple[int, int] | None
) -> None:
    topic = world.chain().of
    now = read_pointer(world.store, topic).reserve("backfill x", "backfill")
    world.store.put(topic.pointer, replace(now, entries=(*now.entries, PointerEntry(2, cuts))).to_bytes())
    found = world.audit().findings
    if place is None:
        # No cut begins there: nothing is read elsewhere.
        assert found == ()
    else:
        (finding,) = found
        assert (finding.fault, (finding.first, finding.until), finding.generation) == (fault, place, 2)


def test_pointer_ranges_that_divide_cuts_are_read_twice(world: ChainHarness) -> None:
    """A generation whose cut reaches over the edge of its range, into one that is read in another."""
    old = world.chain()
    chain = world.chain(generation=2)
    made = world.commits()[1]
    now = read_pointer(world.store, old.of).reserve("backfill x", "backfill")
    commit = replace(made, first=70, files=(), n_records=0, filtered=0, quarantined=0, next=150)
    world.store.put(chain.commit(70), commit.to_bytes())
    world.store.put(chain.intent(70), b"{}")
    entry = PointerEntry(2, {0: ((70, 100),)})
    world.store.put(old.of.pointer, replace(now, entries=(*now.entries, entry)).to_bytes())
    found = world.audit().findings
    assert [(each.fault, each.first, each.until) for each in found] == [
        ("read twice", 70, 122),
        ("read twice", 122, 150),
    ]


def test_generations_that_nobody_reserved_are_named(world: ChainHarness) -> None:
    topic = world.chain().of
    now = read_pointer(world.store, topic)
    world.store.put(topic.pointer, ReadersPointer(now.entries, ()).to_bytes())
    assert faults(world.audit()) == ["pointer wrong", "pointer wrong"]
    twice = ReadersPointer(now.entries, (*now.reserved, replace(now.reserved[0], by="another")))
    world.store.put(topic.pointer, twice.to_bytes())
    (finding,) = world.audit().findings
    assert "twice" in finding.meaning


@pytest.mark.usefixtures("small")
def test_missing_summaries_are_made(world: ChainHarness) -> None:
    chain = world.chain("raw")
    assert sum(group.summaries for group in world.audit().groups) == 4
    kept = world.body(chain.summary(0))
    assert kept.split(b"\n") == [commit.to_bytes() for commit in world.commits("raw")[:3]]
    world.store.delete(chain.summary(0))
    report = world.audit()
    assert (report.clean, report.groups[0].summaries) == (True, 1)
    assert world.body(chain.summary(0)) == kept
    assert Chain(world.store, chain).summarise() == 0


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "spoil",
    [
        lambda lines: [lines[0], lines[1].replace(b'"filtered":6', b'"filtered":5'), lines[2]],
        lambda lines: lines[:2],
        lambda lines: [lines[0], lines[2], lines[1]],
        lambda lines: [lines[0], lines[1], b"{}"],
    ],
)
def test_a_summary_that_does_not_hold_its_commits_is_wrong_and_mended(
    world: ChainHarness, spoil: Callable[[list[bytes]], list[bytes]]
) -> None:
    world.audit()
    key = world.chain().summary(0)
    right = world.body(key)
    world.store.put(key, b"\n".join(spoil(right.split(b"\n"))))
    (finding,) = world.audit(DEEP).findings
    assert (finding.fault, finding.key) == ("summary wrong", key)
    assert finding.next_command == "lyrebird audit chain e --group by_date --repair"
    mended = world.audit(ChainAuditOptions(mend=world.store))
    assert (mended.clean, mended.groups[1].mended, world.body(key)) == (True, 1, right)


@pytest.mark.usefixtures("small")
def test_a_summary_at_another_place_is_wrong_and_removed(world: ChainHarness) -> None:
    world.audit()
    chain = world.chain()
    world.store.put(chain.summary(61), b"\n".join(commit.to_bytes() for commit in world.commits()[1:4]))
    (finding,) = world.audit().findings
    assert (finding.fault, finding.key) == ("summary wrong", chain.summary(61))
    assert world.audit(ChainAuditOptions(mend=world.store)).clean
    assert world.store.get(chain.summary(61)) is None


@pytest.mark.usefixtures("small")
def test_a_commit_that_only_a_summary_has_is_missing_and_put_back(world: ChainHarness) -> None:
    world.audit()
    key = world.chain().commit(61)
    right = world.body(key)
    world.store.delete(key)
    (finding,) = world.audit(DEEP).findings
    assert (finding.fault, finding.key, finding.first, finding.until) == ("commit missing", key, 61, 122)
    assert world.audit(ChainAuditOptions(mend=world.store)).clean
    assert world.body(key) == right
    assert world.audit().clean


@pytest.mark.usefixtures("small")
def test_a_commit_that_was_changed_differs_from_its_summary(world: ChainHarness) -> None:
    world.audit()
    commit = world.commits()[1]
    rewrite(world, replace(commit, leader_epoch=7))
    (finding,) = world.audit().findings
    assert (finding.fault, finding.key) == ("summary wrong", world.chain().summary(0))
    assert "another commit of the cut at 61" in finding.meaning
    assert finding.next_command == "lyrebird audit chain e --group by_date --deep"
    assert faults(world.audit(ChainAuditOptions(mend=world.store))) == ["summary wrong"]
