"""The search audit on a real index: what was spoilt behind everyone's back is named, with few requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from include.audit.search.audit import AuditMode
from tests.support.search.audit_proof import NodeAuditHarness, prove

ORDERS = 2_000


@pytest.fixture
def world(elasticsearch_url: str, unique: str) -> Iterator[NodeAuditHarness]:
    found = NodeAuditHarness(elasticsearch_url, unique)
    try:
        found.topic.write([(n, {"state": "completed"}) for n in range(1, ORDERS + 1)])
        for n in range(1, 20):
            found.topic.put(n, state="cancelled")
        found.catch_up()
        yield found
    finally:
        found.close()


@pytest.mark.parametrize("mode", ["bisect", "digest"])
def test_missing_documents_are_named_with_few_requests(world: NodeAuditHarness, mode: AuditMode) -> None:
    assert world.audit(mode).clean
    gone = ["3", "70", "71", "72", "250", "499", "500"]
    for key in gone:
        world.lose(key)
    report = world.audit(mode)
    assert sorted(report.missing) == sorted(gone)
    assert report.extra == report.stale == report.altered == ()
    assert (report.expected, report.indexed) == (ORDERS, ORDERS - len(gone))
    assert report.requests <= (5 if mode == "digest" else 8)
    assert report.listed < 50
    assert report.received_bytes > 0


def test_every_kind_of_fault_is_named_at_once_while_writes_go_on(world: NodeAuditHarness) -> None:
    for n in range(100, 110):
        world.lose(str(n))
        world.put(f"{n}x", n)
    world.swallowed = {str(n) for n in range(200, 210)}
    world.topic.write([(n, {"state": "cancelled"}) for n in range(200, 210)])
    world.catch_up()
    for n in range(300, 310):
        world.put(str(n), n, body={"order_id": n, "state": "forged"})

    def live() -> None:
        world.topic.write([(n, {"state": "cancelled"}) for n in range(400, 900)])
        world.topic.delete(1)
        world.catch_up(note=False)

    live()
    world.between = live
    report = world.audit()
    assert report.by_kind == {
        "missing": tuple(str(n) for n in range(100, 110)),
        "extra": tuple(f"{n}x" for n in range(100, 110)),
        "stale": tuple(str(n) for n in range(200, 210)),
        "altered": tuple(str(n) for n in range(300, 310)),
    }
    assert report.in_flight == 501
    # Refresh, moment, sums, holders of what is there too much, documents by id, and the moment's end.
    assert report.requests == 6


def test_an_update_by_hand_is_named_by_the_scrub_among_what_has_changed(world: NodeAuditHarness) -> None:
    assert world.audit(scrub="all").clean
    for n in range(100, 105):
        world.real.client.update(index=world.name, id=str(n), doc={"order": {"state": "forged"}})
    world.topic.write([(n, {"state": "cancelled"}) for n in range(200, 300)])
    world.catch_up()
    report = world.audit()
    assert report.by_kind == {"missing": (), "extra": (), "stale": (), "altered": tuple(map(str, range(100, 105)))}
    assert report.scrub is not None
    assert report.scrub["looked_at"] == 105
    assert report.requests <= 4


def test_everything_is_mended_and_the_next_run_is_clean_while_writes_go_on(world: NodeAuditHarness) -> None:
    assert world.audit(scrub="all").clean
    for n in range(100, 105):
        world.lose(str(n))
        world.put(f"{n}x", n)
        world.real.client.update(index=world.name, id=str(n + 100), doc={"order": {"state": "forged"}})
        world.put(str(n + 200), n + 200, body={"order_id": n, "state": "forged"})
    # In one shard a copy under another routing is the same document.
    source = world.real.client.get(index=world.name, id="700").body["_source"]
    world.real.client.index(index=world.name, id="700", document=source, routing="elsewhere")

    def live() -> None:
        world.topic.write([(n, {"state": "cancelled"}) for n in range(1, 80)])
        world.catch_up(note=False)

    world.between = live
    report = world.repair()
    assert report.repaired is not None
    found = {kind: len(keys) for kind, keys in report.repaired["found"].items()}
    assert found == {"missing": 5, "extra": 5, "stale": 0, "altered": 11}
    assert report.repaired["left"] == {}
    assert report.clean, report
    settings = world.real.client.indices.get_settings(index=world.name, name="index.gc_deletes").body
    assert settings.get(world.name, {}).get("settings", {}) == {}
    world.between = lambda: None
    world.catch_up()
    assert world.audit(scrub="all").clean
    assert world.audit("bisect").clean


def test_planted_faults_are_found_exactly_and_mended_under_load(elasticsearch_url: str, unique: str) -> None:
    found = NodeAuditHarness(elasticsearch_url, unique)
    try:
        told = prove(found, orders=20_000, each=20, rate=500, clean_runs=3, share=0.1)
    finally:
        found.close()
    assert told[0].startswith("20000 documents")
