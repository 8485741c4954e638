"""One suite for the double and the real server: what the indexer relies on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from include.errors import Terminal, Transient
from include.index.bulk.request import BulkLine, document_line, line_bytes, probe_of
from include.index.identity import DocumentIdentity
from include.index.mapping.declared import creation
from include.index.metadata import LIVING
from include.index.progress.document import NOTES, ensure_notes
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.memory import MemoryIndex
from include.index.server.port import BulkAnswer, IndexedDocument, IndexInfo, SearchIndex
from include.index.upkeep.purge import delete_line
from include.settings.connections import Elasticsearch
from tests.support.documents.topic import MAPPING, one_topic

DEFINITION = one_topic("t")


class Harness:
    """One server, and an index on it that is this test's own."""

    def __init__(self, index: SearchIndex, alias: str) -> None:
        self.index, self.alias, self.name = index, alias, f"{alias}-v1"
        self.info: IndexInfo = index.create(self.name, creation(alias, DEFINITION, MAPPING))

    def write(self, *documents: tuple[str, int, dict[str, Any] | None], name: str | None = None) -> BulkAnswer:
        lines = []
        for n, (doc_id, version, body) in enumerate(documents):
            metadata = json.dumps({"doc_id": doc_id, "version": version, "deleted": body is None}).encode()
            text = None if body is None else json.dumps(body).encode()
            lines.append(document_line(n, DocumentIdentity(doc_id, version), "order", text, metadata).data)
        return self.index.bulk(name or self.name, b"".join(lines))

    def statuses(self, *documents: tuple[str, int, dict[str, Any] | None]) -> list[tuple[int, str]]:
        answer = self.write(*documents)
        assert answer.items is not None
        return [(item.status, item.type) for item in answer.items]


@pytest.fixture(params=["memory", "elasticsearch"])
def world(request: pytest.FixtureRequest, unique: str) -> Iterator[Harness]:
    if request.param == "memory":
        yield Harness(MemoryIndex(), unique)
        return
    index = ElasticsearchIndex(Elasticsearch(url=request.getfixturevalue("elasticsearch_url")))
    try:
        yield Harness(index, unique)
    finally:
        index.client.indices.delete(
            index=[f"{unique}-v1", f"{unique}-notes", f"{unique}-many"], ignore_unavailable=True
        )
        index.close()


def test_creating_an_index_again_leaves_it_as_it_is(world: Harness) -> None:
    world.write(("1", 1, {"state": "completed"}))
    again = world.index.create(world.name, creation(world.alias, DEFINITION, MAPPING))
    assert again.uuid == world.info.uuid
    assert world.index.get(world.name, "1") is not None


def test_an_index_is_described_by_its_name_and_by_its_alias(world: Harness) -> None:
    for name in (world.name, world.alias):
        found = world.index.describe(name)
        assert found is not None
        assert (found.name, found.uuid) == (world.name, world.info.uuid)
        assert found.aliases[world.alias]["filter"] == LIVING
        assert found.mapping["properties"]["metadata"] == MAPPING["properties"]["metadata"]
    assert world.index.describe(f"{world.alias}-none") is None


def test_an_older_or_equal_version_is_stale_and_a_newer_one_wins(world: Harness) -> None:
    assert world.statuses(("1", 5, {"state": "a"})) == [(201, "")]
    stale = (409, "version_conflict_engine_exception")
    assert world.statuses(("1", 5, {"state": "b"}), ("1", 4, {"state": "c"})) == [stale, stale]
    assert world.statuses(("1", 6, {"state": "d"})) == [(200, "")]
    found = world.index.get(world.name, "1")
    assert found is not None
    assert (found.version, found.source["order"], found.deleted) == (6, {"state": "d"}, False)


def test_a_probe_tells_that_a_shard_works_and_changes_nothing(world: Harness) -> None:
    def line(doc_id: str, version: int, routing: str | None = None) -> BulkLine:
        metadata = json.dumps({"doc_id": doc_id, "version": version, "deleted": False}).encode()
        return BulkLine(None, line_bytes(doc_id, version, b'"order"', b'{"state":"a"}', metadata, routing=routing))

    def sent(*lines: BulkLine) -> list[int]:
        answer = world.index.bulk(world.name, b"".join(each.data for each in lines))
        assert answer.items is not None
        return [item.status for item in answer.items]

    there, missing, routed = line("1", 1), line("2", 7), line("3", 2, "r")
    assert sent(there, routed) == [201, 201]
    assert sent(*map(probe_of, (there, missing, routed))) == [409, 404, 409]
    found = world.index.get(world.name, "1")
    assert found is not None
    assert (found.version, world.index.get(world.name, "2")) == (1, None)
    # Nothing is left that an older state would be refused for.
    assert sent(line("2", 1)) == [201]


def test_tombstones_come_by_their_place_in_the_log_and_go_only_as_they_were_seen(world: Harness) -> None:
    def write(doc_id: str, version: int, offset: int, *, deleted: bool, routing: str | None = None) -> None:
        origin = {"topic": "t", "partition": 1, "offset": offset, "doc_id": doc_id}
        metadata = json.dumps({**origin, "version": version, "deleted": deleted}).encode()
        body = None if deleted else b'{"state":"a"}'
        line = line_bytes(doc_id, version, b'"order"', body, metadata, routing=routing)
        answer = world.index.bulk(world.name, line)
        assert answer.items is not None
        assert answer.items[0].status in (200, 201)

    for n, doc_id in enumerate("dcba"):
        write(doc_id, 5 + n, 10 * n, deleted=True, routing="r" if doc_id == "b" else None)
    write("living", 1, 3, deleted=False)
    write("d", 50, 99, deleted=True)
    world.index.refresh(world.name)

    def found(below: int, after: tuple[int, str] = (0, ""), most: int = 9, partition: int = 1) -> list[IndexedDocument]:
        return world.index.tombstones(world.name, "t", partition, below, after, most)

    assert [each.doc_id for each in found(100)] == ["c", "b", "a", "d"]
    assert [each.doc_id for each in found(30)] == ["c", "b"]
    assert [each.doc_id for each in found(100, (10, "c"), 2)] == ["b", "a"]
    assert found(100, partition=0) == []
    page = found(100)
    # One lives again, one was deleted anew, after they were seen.
    write("c", 100, 200, deleted=False)
    write("a", 101, 201, deleted=True)
    answer = world.index.bulk(world.name, b"".join(map(delete_line, page)))
    assert answer.items is not None
    assert [item.status for item in answer.items] == [409, 200, 409, 200]
    again = world.index.bulk(world.name, delete_line(page[3]))
    assert again.items is not None
    assert again.items[0].status == 404
    world.index.refresh(world.name)
    assert [(each.doc_id, each.version) for each in found(300)] == [("a", 101)]
    there = world.index.get(world.name, "c")
    assert there is not None
    assert (there.version, there.deleted) == (100, False)
    # What comes next is taken, however near its version.
    write("d", 51, 300, deleted=False)


def test_the_same_key_twice_in_a_request_goes_by_its_lines(world: Harness) -> None:
    assert [status for status, _ in world.statuses(("1", 1, {}), ("1", 2, {}), ("1", 2, {}))] == [201, 200, 409]


def test_a_soft_delete_keeps_its_version_and_is_seen_through_the_alias_by_a_realtime_read(world: Harness) -> None:
    world.write(("1", 5, {"state": "a"}), ("1", 6, None))
    assert world.statuses(("1", 5, {"state": "a"}))[0][0] == 409
    for name in (world.name, world.alias):
        found = world.index.get(name, "1")
        assert found is not None
        assert found.deleted


def test_a_document_that_the_mapping_refuses_fails_alone(world: Harness) -> None:
    assert world.statuses(
        ("1", 1, {"note": 1}), ("2", 1, {"note": "x"}), ("3", 1, {"unknown": 1}), ("4", 1, {"state": {"a": 1}})
    ) == [
        (201, ""),
        (400, "document_parsing_exception"),
        (400, "strict_dynamic_mapping_exception"),
        (400, "document_parsing_exception"),
    ]


@pytest.mark.parametrize(("doc_id", "version"), [("x" * 513, 1), ("1", -1)])
def test_one_illegal_action_line_refuses_the_whole_request_and_nothing_is_written(
    world: Harness, doc_id: str, version: int
) -> None:
    assert world.write(("good", 1, {}), (doc_id, version, {})).status == 400
    assert world.index.get(world.name, "good") is None


def test_ids_are_exact_texts(world: Harness) -> None:
    ids = ["ü\U0001f600", '["a",1]', 'quote"d', "a b/c?", "x" * 512]
    assert all(status == 201 for status, _ in world.statuses(*((doc_id, 1, {}) for doc_id in ids)))
    assert set(world.index.get_many(world.name, ids)) == set(ids)
    found = world.index.get(world.name, ids[3])
    assert found is not None
    assert found.source["metadata"]["doc_id"] == ids[3]


def test_an_index_that_is_not_there_is_never_made_by_writing(world: Harness) -> None:
    missing = f"{world.alias}-v9"
    answer = world.write(("1", 1, {}), name=missing)
    assert answer.items is not None
    assert [(item.status, item.type) for item in answer.items] == [(404, "index_not_found_exception")]
    assert world.index.describe(missing) is None
    with pytest.raises(Terminal):
        world.index.get(missing, "1")
    with pytest.raises(Terminal):
        world.index.refresh(missing)


def test_many_documents_are_read_at_once_with_their_metadata(world: Harness) -> None:
    world.write(*((str(n), 1, {"state": "a"}) for n in range(1200)), ("gone", 1, None))
    found = world.index.get_many(world.name, [*(str(n) for n in range(1200)), "gone", "never"])
    assert len(found) == 1201
    assert found["gone"].deleted
    assert "order" not in found["0"].source


def of_topic(index: SearchIndex, name: str, *documents: tuple[str, int, bool, str | None]) -> list[tuple[int, str]]:
    """Write (id, version, deleted, routing) as a topic's documents, also over equal versions."""
    lines = b""
    for doc_id, version, deleted, routing in documents:
        said = {"doc_id": doc_id, "topic": "t", "version": version, "deleted": deleted, "partition": 0, "offset": 1}
        metadata = json.dumps(said).encode()
        body = None if deleted else b"{}"
        lines += line_bytes(doc_id, version, b'"order"', body, metadata, routing=routing, same=True)
    answer = index.bulk(name, lines)
    assert answer.items is not None
    return [(item.status, item.type) for item in answer.items]


def test_an_equal_version_is_written_again_where_that_is_asked_for_and_an_older_one_is_not(world: Harness) -> None:
    assert of_topic(world.index, world.name, ("1", 5, False, None)) == [(201, "")]
    stale = (409, "version_conflict_engine_exception")
    assert of_topic(world.index, world.name, ("1", 5, True, None), ("1", 4, False, None)) == [(200, ""), stale]


def test_living_documents_below_a_version_are_found_with_where_they_came_from(world: Harness) -> None:
    of_topic(world.index, world.name, *((f"k{n}", n, n == 2, None) for n in range(1, 8)))
    world.index.refresh(world.name)
    found = world.index.living_below(world.name, "t", 5, 100)
    assert {each.doc_id for each in found} == {"k1", "k3", "k4"}
    assert {each.source["metadata"]["offset"] for each in found} == {1}
    assert all("order" not in each.source for each in found)
    assert len(world.index.living_below(world.name, "t", 5, 2)) == 2
    assert world.index.living_below(world.name, "other", 5, 100) == []


def test_all_copies_of_a_document_are_found_whatever_shard_their_routing_chose(world: Harness) -> None:
    name = f"{world.alias}-many"
    # Enough shards that some of so many routings differ; the double keeps one for each routing.
    world.index.create(name, {"settings": {"number_of_shards": 4, "number_of_replicas": 0}, "mappings": MAPPING})
    of_topic(world.index, name, *(("1", n, n == 9, f"r{n}") for n in range(1, 10)), ("2", 1, False, None))
    world.index.refresh(name)
    found = world.index.copies(name, "t", ["1", "none"])
    assert len(found) > 1
    assert {each.doc_id for each in found} == {"1"}
    assert all(each.routing == f"r{each.version}" for each in found)
    newest = max(found, key=lambda each: each.version)
    assert (newest.version, newest.deleted) == (9, True)
    there = world.index.get(name, "1", "r9")
    assert there is not None
    assert (there.version, there.routing) == (9, "r9")
    assert [each.routing for each in world.index.copies(name, "t", ["2"])] == [None]
    assert world.index.copies(name, "other", ["1"]) == []


def test_a_note_is_written_over_its_last_version_only(world: Harness) -> None:
    notes = f"{world.alias}-notes"
    assert world.index.note(notes, "n") is None
    world.index.create(notes, {"mappings": {"dynamic": False}})
    assert world.index.note(notes, "n") is None
    first = world.index.write_note(notes, "n", {"a": 1}, None)
    assert first is not None
    assert world.index.write_note(notes, "n", {"a": 2}, None) is None
    second = world.index.write_note(notes, "n", {"a": 3}, first)
    assert second is not None
    assert world.index.write_note(notes, "n", {"a": 4}, first) is None
    assert world.index.note(notes, "n") == second


def test_a_note_needs_its_index(world: Harness) -> None:
    with pytest.raises(Terminal):
        world.index.write_note(f"{world.alias}-none", "n", {}, None)


def test_a_server_that_is_away_is_told_by_type_and_a_bulk_by_its_answer() -> None:
    index = ElasticsearchIndex(Elasticsearch(url="http://127.0.0.1:1"))
    with pytest.raises(Transient, match="does not answer"):
        index.describe("x")
    assert index.bulk("x", b"{}\n").status == 0
    index.close()


def test_notes_of_one_index_are_forgotten_and_no_others(world: Harness) -> None:
    ensure_notes(world.index)
    for number, name in enumerate((world.name, world.name, f"{world.alias}-v2")):
        assert world.index.write_note(NOTES, f"{world.alias}.{number}", {"index": name}, None) is not None
    last = world.index.note(NOTES, f"{world.alias}.0")
    assert world.index.forget_notes(NOTES, world.name) == 2
    assert world.index.forget_notes(NOTES, world.name) == 0
    assert world.index.note(NOTES, f"{world.alias}.0") is None
    assert world.index.write_note(NOTES, f"{world.alias}.0", {"index": world.name}, last) is None
    assert world.index.note(NOTES, f"{world.alias}.2") is not None
    assert world.index.forget_notes(f"{world.alias}-absent", world.name) == 0
    world.index.forget_notes(NOTES, f"{world.alias}-v2")
