"""What an audit finds beside the documents: records unaccounted for, another mapping, topics that nobody declares."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import orjson
import pytest

from include.audit.history import StoredRun
from include.audit.history_rows import rows_of
from include.audit.search.audit import AuditMode
from include.audit.search.conservation import unaccounted
from include.audit.search.report import together
from include.clock import ManualClock
from include.index.progress.document import ProgressKeeper
from tests.support.search.audit_harness import TOPIC, AuditHarness


@pytest.fixture
def world() -> AuditHarness:
    found = AuditHarness(partitions=1)
    found.topic.write([(n, {"state": "completed"}) for n in range(1, 11)])
    found.catch_up()
    return found


@pytest.fixture(params=["bisect", "digest"])
def mode(request: pytest.FixtureRequest) -> AuditMode:
    found: AuditMode = request.param
    return found


def count(world: AuditHarness, **counts: int) -> None:
    keeper = ProgressKeeper(world.index, world.info, TOPIC, "me", ManualClock())
    keeper.save(replace(keeper.claim(), counts={0: counts}))


def test_records_that_became_something_are_accounted_for(world: AuditHarness, mode: AuditMode) -> None:
    count(world, read=21, indexed=6, deleted=5, stale=4, folded=3, filtered=2, dead=1)
    assert world.audit(mode).clean


def test_a_record_that_became_nothing_is_a_finding_that_names_its_partition(
    world: AuditHarness, mode: AuditMode
) -> None:
    count(world, read=11, indexed=9, dead=1)
    report = world.audit(mode)
    assert (report.findings, report.clean, report.keys) == (1, False, [])
    assert "beside: partition 0: 11 records read, 10 accounted for (9 indexed, 1 dead)" in report.lines()
    assert report.lines()[0] == f"audit docs ({mode}): documents clean, 1 finding beside"
    assert report.lines()[-1] == "next: lyrebird index rebuild orders"


def test_records_that_became_two_things_are_found_too() -> None:
    assert unaccounted({1: {"read": 2, "indexed": 2, "stale": 1}, 0: {"read": 0}}) == [
        "partition 1: 2 records read, 3 accounted for (2 indexed, 1 stale)"
    ]
    assert unaccounted({0: {"read": 1}}) == ["partition 0: 1 records read, 0 accounted for (none)"]


def test_a_mapping_that_is_not_the_declared_one_is_a_finding(world: AuditHarness, mode: AuditMode) -> None:
    declared: dict[str, Any] = deepcopy(world.mapping)
    declared["properties"]["order"]["properties"]["state"] = {"type": "text"}
    world.mapping = declared
    report = world.audit(mode)
    assert "beside: mapping: order.state: declared text, keyword in the index" in report.lines()
    assert report.lines()[-1] == "next: lyrebird index check orders"
    # A key that is wrong comes first, as it can be mended at once.
    world.lose("7")
    assert world.audit(mode).next_command == "lyrebird audit search docs --repair"


def test_living_documents_of_a_topic_that_the_index_does_not_declare_are_a_finding(
    world: AuditHarness, mode: AuditMode
) -> None:
    for n in range(3):
        world.put(f"u{n}", 1, topic="former")
    report = world.audit(mode)
    assert report.beside.undeclared == {"former": 3}
    assert "beside: 3 documents of the topic former, which the index does not declare" in report.lines()
    assert report.next_command == "lyrebird index rebuild orders"


def test_an_index_of_several_topics_is_looked_at_once(world: AuditHarness) -> None:
    own = world.spec.index.topics[TOPIC]
    both = world.spec.index.model_copy(update={"topics": {"a": own, TOPIC: own}})
    world.put("u", 1, topic="former")
    assert replace(world.spec, index=both).topic == TOPIC
    world.spec = replace(world.spec, index=both)
    assert world.audit("digest").beside.undeclared == {}


def test_what_is_beside_stands_in_the_history_with_its_words(world: AuditHarness) -> None:
    count(world, read=11, indexed=9)
    kept = orjson.loads(orjson.dumps(together([world.audit()])))
    (row,) = rows_of("search", StoredRun("run", 0, kept))
    assert not row.clean
    assert row.said == "documents clean, 1 finding beside"
    assert row.details == ("partition 0: 11 records read, 9 accounted for (9 indexed)",)
    assert row.next_command == "lyrebird index rebuild orders"


def test_a_living_document_without_a_digest_is_in_no_sum_and_found_all_the_same(world: AuditHarness) -> None:
    world.put("x", 3, d0=None, d1=None, s0=None, s1=None)
    world.put("7", 7, d0=None, d1=None, s0=None, s1=None)
    report = world.audit(scrub="none")
    assert (report.extra, report.altered, report.missing) == (("x",), ("7",), ())
