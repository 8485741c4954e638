"""The scrub: bodies that are not those that were added up are named, and none is read oftener than needed."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from include.audit.search.last_audit import LastAuditNote
from include.audit.search.scrub import SHARES, Scrubber, ScrubMode, ScrubResult, StoredDocument, is_altered
from include.audit.search.views.memory import MemoryDocuments
from include.index.digest import bucket, state_hash
from include.record.json.body import canonical
from tests.support.search.audit_harness import TOPIC, AuditHarness

ORDERS = 300


@pytest.fixture
def world() -> AuditHarness:
    found = AuditHarness()
    found.topic.write([(n, {"state": "completed"}) for n in range(1, ORDERS + 1)])
    found.topic.delete(50)
    found.catch_up()
    return found


def forge(world: AuditHarness, doc_id: str, *, raised: int = 0) -> None:
    """Another body under the digest that stands there; `raised` writes more than its version counts."""
    found = world.index.get(world.name, doc_id)
    assert found is not None
    action = {"index": {"_id": doc_id, "version": found.version + raised, "version_type": "external_gte"}}
    document = {**found.source, "order": {**found.source["order"], "state": "forged"}} if not raised else found.source
    world.write([orjson.dumps(action) + b"\n" + orjson.dumps(document) + b"\n"])


def scrub(world: AuditHarness, mode: ScrubMode = "changed", *, keep: bool = True) -> ScrubResult:
    note = LastAuditNote(world.index, world.info, TOPIC)
    scrubber = Scrubber(note.last, world.documents(world.name, world.spec))
    found = scrubber.run(mode)
    if keep and not found.altered:
        note.keep(**scrubber.done())
    return found


def test_all_documents_are_read_once_in_as_many_shares_and_then_only_what_changes(world: AuditHarness) -> None:
    looked = [scrub(world) for _ in range(SHARES)]
    assert [found.share for found in looked] == [(n, SHARES) for n in range(SHARES)]
    assert sum(found.looked_at for found in looked) == ORDERS - 1
    assert all(found.looked_at < ORDERS / 4 for found in looked)
    assert scrub(world).looked_at == 0
    world.topic.put(1)
    world.topic.delete(2)
    world.catch_up()
    found = scrub(world)
    assert (found.looked_at, found.share, found.altered) == (2, None, ())
    assert scrub(world).looked_at == 0


def test_altered_bodies_and_raised_versions_among_changed_documents_are_named(world: AuditHarness) -> None:
    assert scrub(world, "all").looked_at == ORDERS
    world.topic.write([(n, {"state": "cancelled"}) for n in range(1, 101)])
    world.catch_up()
    for n in range(200, 210):
        forge(world, str(n))
    forge(world, "220", raised=1)
    found = scrub(world)
    assert found.looked_at == 111
    assert found.altered == (*(str(n) for n in range(200, 210)), "220")
    # Marks stay where they were, so that the next one finds them again.
    assert scrub(world).altered == found.altered


def test_a_document_that_is_written_again_before_the_second_look_is_no_finding(
    world: AuditHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    scrub(world, "all")
    forge(world, "7")
    again = MemoryDocuments.again

    def late(self: MemoryDocuments, doc_ids: set[str]) -> object:
        world.topic.put(7)
        world.catch_up()
        return again(self, doc_ids)

    monkeypatch.setattr(MemoryDocuments, "again", late)
    assert scrub(world).altered == ()


def test_marks_belong_to_one_index_and_a_new_one_is_read_from_its_first_share(world: AuditHarness) -> None:
    scrub(world, "all")
    assert scrub(world).looked_at == 0
    world.info = replace(world.info, uuid="another")
    assert scrub(world).share == (0, SHARES)


def test_what_an_audit_found_elsewhere_does_not_move_the_marks(world: AuditHarness) -> None:
    world.lose("7")
    for _ in range(2):
        found = world.audit().scrub
        assert found is not None
        assert found["share"] == [0, SHARES]


def test_each_way_to_alter_a_document_is_seen() -> None:
    body = {"a": 1, "b": [1.5, None, "ü"]}
    state = state_hash("x", 3, canonical(body))
    whole = StoredDocument("x", body, 3, 3, False, state, (bucket(state, 0), bucket(state, 1)))
    assert not is_altered(whole)
    assert not is_altered(replace(whole, body={"b": [1.5, None, "ü"], "a": 1}))
    assert is_altered(replace(whole, body={**body, "a": 2}))
    assert is_altered(replace(whole, body={**body, "a": 1 << 70}))
    assert is_altered(replace(whole, body=None))
    assert is_altered(replace(whole, stored_version=4))
    assert is_altered(replace(whole, state=None))
    assert is_altered(replace(whole, state=state ^ 1))
    assert is_altered(replace(whole, buckets=(bucket(state, 0), 0)))
    tombstone = StoredDocument("x", None, 3, 3, True, None)
    assert not is_altered(tombstone)
    assert is_altered(replace(tombstone, stored_version=4))
    assert is_altered(replace(tombstone, body={}))


def test_the_audit_names_them_beside_what_the_digest_finds(world: AuditHarness) -> None:
    world.audit(scrub="all")
    forge(world, "9")
    world.lose("10")
    report = world.audit()
    assert report.by_kind == {"missing": ("10",), "extra": (), "stale": (), "altered": ("9",)}
    assert report.scrub is not None
    assert (report.scrub["altered"], report.scrub["looked_at"]) == (["9"], 1)
    assert any(line.startswith("  scrub: 1 documents read whole") for line in report.lines())
    assert world.audit(scrub="none").altered == ()
