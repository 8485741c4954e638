"""Audits beside an application that catches up: in parts, from a cut that is taken behind the fold."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.audit.definition import SearchAuditSpec
from include.audit.search import audit as search
from include.audit.search.audit import AuditMode
from include.audit.search.bounds import AuditBounds, PartitionShare, parts_of
from include.audit.search.cut import AuditCut
from include.audit.search.expected import ExpectedSide
from include.audit.search.report import SearchReport
from include.audit.search.views import state_view
from include.audit.search.views.state_view import FarAhead, StateView
from include.record.key import partition_of
from tests.support.search.audit_harness import AuditHarness

KEYS = range(1, 201)
PARTITIONS = 4


def ahead(most_above: int, monkeypatch: pytest.MonkeyPatch) -> AuditHarness:
    """Of 200 documents every second was written from above what is noted as settled; `most_above` fit in a part."""
    monkeypatch.setattr(state_view, "MOST_ABOVE", most_above)
    monkeypatch.setattr(search, "MOST_ABOVE", most_above)
    world = AuditHarness(partitions=PARTITIONS)
    world.topic.write([(n, {"state": "completed"}) for n in KEYS])
    world.catch_up()
    for n in KEYS[::2]:
        world.topic.put(n, state="cancelled")
    world.catch_up(note=False)
    return world


def partition(world: AuditHarness, key: int) -> int:
    return partition_of(world.topic.key(key), PARTITIONS)


@pytest.fixture(params=["bisect", "digest"])
def mode(request: pytest.FixtureRequest) -> AuditMode:
    found: AuditMode = request.param
    return found


def findings(report: SearchReport) -> dict[str, tuple[str, ...]]:
    return {kind: tuple(sorted(keys)) for kind, keys in report.by_kind.items()}


def test_an_index_that_is_far_ahead_is_judged_part_by_part(mode: AuditMode, monkeypatch: pytest.MonkeyPatch) -> None:
    world = ahead(40, monkeypatch)
    report = world.audit(mode)
    assert (report.clean, report.unsettled, report.in_flight) == (True, {}, 100)
    for key in ("2", "44", "90", "1"):
        world.lose(key)
    report = world.audit(mode)
    assert set(report.missing) == {"2", "44", "90", "1"}


def test_a_partition_with_too_much_from_above_is_not_compared_and_named(
    mode: AuditMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = ahead(40, monkeypatch)
    at = partition(world, 2)
    for n in range(1_000, 1_400):
        if partition(world, n) == at:
            world.topic.put(n)
    world.catch_up(note=False)
    world.lose("2")
    elsewhere = next(n for n in KEYS[1::2] if partition(world, n) != at)
    world.lose(str(elsewhere))
    report = world.audit(mode)
    assert (report.missing, set(report.unsettled)) == ((str(elsewhere),), {at})
    assert any(f"not compared: partition {at}, with" in line for line in report.lines())
    world.topic.put(elsewhere)
    world.catch_up(note=False)
    report = world.audit(mode)
    assert (report.keys, report.clean, report.findings) == ([], False, 1)
    assert report.lines()[0] == f"audit docs ({mode}): incomplete: 1 partition not compared; no key so far"
    assert report.next_command == "lyrebird audit search docs, when the application has caught up"
    assert report.to_json()["unsettled"] == {str(at): report.unsettled[at]}
    world.catch_up()
    assert world.audit(mode).missing == ("2",)


def test_an_index_of_which_no_part_can_be_compared_is_refused(mode: AuditMode, monkeypatch: pytest.MonkeyPatch) -> None:
    world = ahead(3, monkeypatch)
    with pytest.raises(FarAhead, match="far ahead of its progress document"):
        world.audit(mode)


@settings(max_examples=40, deadline=None)
@given(
    lost=st.sets(st.sampled_from(KEYS), max_size=6),
    doubled=st.sets(st.sampled_from(KEYS), max_size=3),
    most=st.integers(30, 120),
)
def test_parts_find_what_the_whole_finds(lost: set[int], doubled: set[int], most: int) -> None:
    found = []
    for limit in (most, 1_000_000):
        with pytest.MonkeyPatch.context() as patch:
            world = ahead(limit, patch)
            for n in lost:
                world.lose(str(n))
            for n in doubled:
                world.put(f"{n}-extra", 1)
            world.index.refresh(world.name)
            # Counts cannot tell as many keys too many from as many too few in one range.
            counted = {} if doubled else findings(world.audit("bisect"))
            found.append((findings(world.audit("digest")), counted))
    assert found[0] == found[1]


@given(st.dictionaries(st.integers(0, 30), st.integers(0, 50)), st.integers(1, 60), st.integers(0, 40))
def test_each_partition_is_in_one_part_or_in_none(above: dict[int, int], most: int, other: int) -> None:
    parts, left = parts_of(above, most)
    for partition in {*above, other}:
        assert sum(part.has(partition) for part in parts) == (partition not in left)
    assert left == {partition for partition, count in above.items() if count > most}
    for part in parts:
        assert sum(count for partition, count in above.items() if part.has(partition)) <= most
    assert AuditBounds({}).part is None
    assert not PartitionShare(frozenset({1}), inside=False).has(1)


class Slow(AuditHarness):
    """A topic that takes long to read, while the index goes on."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        super().__init__(partitions=1)
        self.calls: list[str] = []
        self.meanwhile = meanwhile

    def expected(self, spec: SearchAuditSpec, at: AuditCut) -> ExpectedSide:
        found = super().expected(spec, at)
        self.calls.append(f"folded below {at.window[0]}")
        self.meanwhile()
        return found

    def states(self, name: str, spec: SearchAuditSpec, bounds: AuditBounds) -> StateView:
        self.calls.append("opened")
        return super().states(name, spec, bounds)


def test_the_moment_is_opened_behind_the_fold_and_the_cut_is_taken_again_where_that_took_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "_FEW", 5)
    world = Slow()
    world.topic.write([(n, {"state": "completed"}) for n in range(1, 11)])
    world.catch_up()
    more = iter([(100, 100), (300, 20), (400, 3)])

    def meanwhile() -> None:
        first, count = next(more, (0, 0))
        if count:
            world.clock.sleep(10)
            world.topic.write([(first + n, {"state": "completed"}) for n in range(count)])
            world.catch_up()

    world.meanwhile = meanwhile
    report = world.audit()
    ends = [int(call.rpartition(" ")[2]) for call in world.calls if call.startswith("folded")]
    assert world.calls == [*(f"folded below {end}" for end in ends), "opened"]
    # Each further fold is of what came meanwhile; three records more are none.
    assert [later - earlier > 5 for earlier, later in itertools.pairwise(ends)] == [True, True]
    assert (report.clean, report.expected) == (True, 130)
    assert report.in_flight == 3


def test_a_short_fold_costs_no_second_cut() -> None:
    world = Slow()
    world.topic.write([(1, {"state": "completed"})])
    world.catch_up()
    assert world.audit().clean
    assert len(world.calls) == 2


def test_an_index_that_never_stands_still_is_judged_after_some_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_FEW", 0)
    world = Slow()
    world.topic.write([(n, {"state": "completed"}) for n in range(1, 11)])
    world.catch_up()

    def meanwhile() -> None:
        world.clock.sleep(10)
        world.topic.put(1)
        world.catch_up()

    world.meanwhile = meanwhile
    assert world.audit().clean
    assert len(world.calls) == search._MOST_FOLDS + 2
