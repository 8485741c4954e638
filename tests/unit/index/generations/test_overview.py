"""The generations of an alias at one look."""

from __future__ import annotations

from include.clock import ManualClock
from include.index.generations.active import change_fed
from include.index.generations.create import first_index
from include.index.generations.overview import Generation, generations_of
from include.index.generations.rebuild_note import RebuildNote, write_rebuild
from include.index.mapping.declared import creation
from include.index.name import IndexName
from include.index.progress.document import IndexProgress, ProgressKeeper
from include.index.server.memory_admin import MemoryAdmin
from tests.support.documents.topic import MAPPING, one_topic

DEFINITION = one_topic("t")
BODY = creation("orders", DEFINITION, MAPPING)


def look(server: MemoryAdmin) -> list[Generation]:
    return generations_of(server, server, "orders", DEFINITION, lambda _: {0: 10, 1: 5})


def test_an_alias_without_indexes_has_no_generations() -> None:
    assert look(MemoryAdmin()) == []


def test_each_generation_tells_its_state_and_how_much_it_has_not_settled() -> None:
    server = MemoryAdmin()
    first_index(server, server, IndexName("orders", 1), BODY)
    for number in (2, 3, 5):
        server.create(f"orders-v{number}", {**BODY, "aliases": {}})
    change_fed(server, "orders", add=[2, 4])
    write_rebuild(server, RebuildNote("orders", 5, "h", "filling", 1), None)
    info = server.describe("orders-v2")
    assert info is not None
    keeper = ProgressKeeper(server, info, "t", "x", ManualClock())
    keeper.claim()
    keeper.save(IndexProgress("t", acked={0: 7}))
    found = look(server)
    assert [(each.name.generation, each.state, each.waiting) for each in found] == [
        (1, "serving", None),
        (2, "fed", 8),
        (3, "idle", None),
        (4, "missing", None),
        (5, "filling", None),
    ]
    told = [each.to_json() for each in found]
    assert [(row["serving"], row["fed"]) for row in told] == [
        (True, True),
        (False, True),
        (False, False),
        (False, True),
        (False, False),
    ]
    assert told[0]["created"] == "1970-01-01T00:00:00.000000Z"
    assert told[3]["created"] is None
    assert told[3]["documents"] is None


def test_a_rebuild_whose_generation_is_fed_fills_it_no_more() -> None:
    server = MemoryAdmin()
    first_index(server, server, IndexName("orders", 1), BODY)
    server.create("orders-v2", {**BODY, "aliases": {}})
    write_rebuild(server, RebuildNote("orders", 2, "h", "filling", 1), None)
    assert [each.state for each in look(server)] == ["serving", "filling"]
    change_fed(server, "orders", add=[2])
    assert [each.state for each in look(server)] == ["serving", "fed"]
