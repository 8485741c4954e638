"""Two generations compared while both are written: each planted difference is named, what is on its way is not."""

from __future__ import annotations

import itertools
import random

import orjson
from hypothesis import given
from hypothesis import strategies as st

from include.audit.search.bounds import AuditBounds
from include.audit.search.generations import ALL, Equality, equality
from include.audit.search.views.memory import MemoryStates
from include.index.bulk.request import document_line
from include.index.identity import DocumentIdentity
from include.index.metadata import Metadata, TopicOrigin
from include.index.server.memory import MemoryIndex
from include.record.json.body import canonical

OLD, NEW = "orders-v1", "orders-v2"
METADATA = Metadata(TopicOrigin("c", "t", "docs", 1))


class Harness:
    """Two indexes in memory; a document's version is its offset."""

    def __init__(self) -> None:
        self.index = MemoryIndex()
        for name in (OLD, NEW):
            self.index.create(name, {})
        self.acked = {NEW: {0: 1_000_000}, OLD: {0: 1_000_000}}
        self.between = lambda: None

    def write(self, key: str, version: int, *names: str, state: str = "a", deleted: bool = False) -> None:
        body = canonical({"state": state})
        metadata = (
            METADATA.deleted(0, version, key, version) if deleted else METADATA.living(0, version, key, version, body)
        )
        line = document_line(0, DocumentIdentity(key, version), "order", None if deleted else body, metadata)
        for name in names or (OLD, NEW):
            answer = self.index.bulk(name, line.data)
            assert answer.items is not None
            assert answer.items[0].status in (200, 201)

    def compare(self, levels: tuple[int, ...] = (14, 16)) -> Equality:
        for name in (OLD, NEW):
            self.index.refresh(name)
        views = [MemoryStates(self.index, name, "docs", AuditBounds({0: ALL})) for name in (NEW, OLD)]
        self.between()
        return equality(
            "docs",
            (NEW, views[0]),
            (OLD, views[1]),
            lambda: (self.acked[NEW], self.acked[OLD]),
            levels=levels,
        )


def test_equal_generations_are_equal_and_cost_a_request_each() -> None:
    world = Harness()
    for n in range(100):
        world.write(str(n), n)
    world.write("gone", 200, OLD, deleted=True)
    found = world.compare()
    assert (found.findings, found.moving, found.documents, found.requests) == (0, 0, (100, 100), 2)
    assert found.lines()[0] == "orders-v2 against orders-v1, docs: equal; 100 and 100 documents"


def test_missing_extra_and_differing_documents_are_named() -> None:
    world = Harness()
    for n in range(50):
        world.write(str(n), n)
    world.write("missing", 60, OLD)
    world.write("extra", 61, NEW)
    world.write("older", 62, OLD)
    world.write("older", 63, NEW)
    world.write("altered", 64, OLD, state="a")
    world.write("altered", 64, NEW, state="b")
    found = world.compare()
    assert (found.missing, found.extra, found.differing) == (("missing",), ("extra",), ("altered", "older"))
    assert (found.findings, found.unresolved) == (4, 0)
    told = orjson.loads(orjson.dumps(found.to_json()))
    assert told["documents"] == {"old": 53, "new": 53}
    assert "missing: missing" in found.lines()


def test_what_one_generation_has_and_the_other_has_not_settled_yet_is_no_finding() -> None:
    world = Harness()
    world.write("1", 1)
    world.write("ahead in old", 11, OLD)
    world.write("ahead in new", 12, NEW)
    world.write("1", 13, OLD, deleted=True)
    world.acked = {NEW: {0: 11}, OLD: {0: 12}}
    found = world.compare()
    assert (found.findings, found.moving) == (0, 3)
    assert "not judged" in found.lines()[1]
    # Once both have settled them, the same differences are findings.
    world.acked = {NEW: {0: 20}, OLD: {0: 20}}
    assert world.compare().findings == 3


def test_what_is_written_to_both_after_the_moment_is_no_finding() -> None:
    world = Harness()
    world.write("1", 1)
    world.write("2", 2, OLD)
    world.between = lambda: world.write("2", 3)
    found = world.compare()
    assert (found.findings, found.moving) == (0, 1)


def test_more_differences_than_buckets_hold_are_told_as_such() -> None:
    world = Harness()
    for n in range(400):
        world.write(str(n), n, OLD)
    found = world.compare(levels=(4,))
    assert found.unresolved > 0
    assert "buckets differ further" in found.lines()[0]
    assert world.compare(levels=(4, 14)).missing == tuple(sorted(str(n) for n in range(400)))


@given(seed=st.integers(0, 10_000), planted=st.integers(0, 30))
def test_exactly_the_planted_differences_are_found(seed: int, planted: int) -> None:
    rng = random.Random(seed)
    world = Harness()
    for n in range(60):
        world.write(str(n), n)
    want: dict[str, set[str]] = {"missing": set(), "extra": set(), "differing": set()}
    for n in range(planted):
        kind = rng.choice(sorted(want))
        version = 100 + 2 * n
        if kind == "differing":
            key = str(rng.randrange(60))
            if key in want[kind]:
                continue
            world.write(key, version, rng.choice((OLD, NEW)))
        else:
            key = f"{kind} {n}"
            world.write(key, version, OLD if kind == "missing" else NEW)
        want[kind].add(key)
    found = world.compare()
    assert {k: set(getattr(found, k)) for k in want} == want
    assert found.unresolved == 0
    assert sum(map(len, want.values())) == found.findings
    assert all(one < other for keys in (found.missing, found.extra) for one, other in itertools.pairwise(keys))
