"""A restored topic can be read by the registry that is there: what it lacks is registered, and ids are replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from include.errors import Terminal
from include.lake.reading.kept_schemas import SchemaKeeper
from include.lake.restore.plan import RestoreAsked
from include.log.ports import LogWriter
from include.log.registry.memory import MemoryRegistry
from include.record.codec import Decoder, Encoder, frame
from tests.unit.lake.restore.restore_harness import Died, RestoreHarness
from tests.unit.lake.restore.test_restore import Dying

EVENT: dict[str, Any] = {"type": "record", "name": "event", "fields": [{"name": "n", "type": "long"}]}
WIDER: dict[str, Any] = {**EVENT, "fields": [*EVENT["fields"], {"name": "of", "type": "string"}]}
ID: dict[str, Any] = {"type": "record", "name": "id", "fields": [{"name": "id", "type": "string"}]}
OTHER: dict[str, Any] = {"type": "record", "name": "other", "fields": [{"name": "x", "type": "bytes"}]}
PAPER: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}

Pair = tuple[bytes | None, bytes | None]


class Framed(RestoreHarness):
    """`events` has keys and values of a registry, and bytes that only look so; the backup keeps its schemas."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        old = MemoryRegistry()
        self.ids = {
            "key": old.register("events-key", ID),
            "event": old.register("events-value", EVENT, "NONE"),
            "wider": old.register("events-value", WIDER, "NONE"),
            "paper": old.register("events-value", PAPER, "NONE", "JSON"),
        }
        self.old = old
        self.keys = Encoder(self.ids["key"], ID)
        heads = {frame(schema_id, b"") for schema_id in self.ids.values()}
        SchemaKeeper(self.store, "raw", old, self.clock).keep(heads)

    def fill(self, *others: Pair) -> list[Pair]:
        event, wider = Encoder(self.ids["event"], EVENT), Encoder(self.ids["wider"], WIDER)
        pairs: list[Pair] = [
            (self.keys({"id": "a"}), event({"n": 1})),
            (self.keys({"id": "b"}), wider({"n": 2, "of": "x"})),
            (b"plain", frame(self.ids["paper"], b'{"n":3}')),
            (self.keys({"id": "b"}), None),
            (None, b"\x00\x7f\xff\xff\xff nobody's"),
            (b"\x00\x00", b"\x00"),
            *others,
        ]
        writer = self.memory.writer("w")
        writer.begin()
        for key, value in pairs:
            writer.append("events", key, value, partition=0, headers=(("h", b"1"),), timestamp_ms=5)
        writer.commit()
        self.flush()
        return pairs

    def found(self, topic: str = "copy") -> list[Pair]:
        return [(record.key, record.value) for record in self.records(topic, 0)]


@pytest.fixture
def world(tmp_path: Path) -> Framed:
    return Framed(tmp_path)


def decoded(registry: MemoryRegistry, pairs: Sequence[Pair]) -> list[Any]:
    decoder = Decoder(registry.schema)
    return [decoder(value) for _, value in pairs[:2] if value] + [decoder(key) for key, _ in pairs[:2] if key]


def test_schemas_that_a_registry_lacks_are_registered_and_ids_replaced(world: Framed) -> None:
    pairs = world.fill()
    registry = MemoryRegistry()
    for name in "abcdefg":
        registry.register(f"{name}-value", {**OTHER, "name": name})
    restored = world.restore(registry=registry)
    found = world.found()
    assert decoded(registry, found) == decoded(world.old, pairs)
    assert found[2][0] == b"plain"
    assert found[2][1] is not None
    assert found[2][1][5:] == b'{"n":3}'
    assert registry.language(int.from_bytes(found[2][1][1:5], "big")) == "JSON"
    assert found[3:] == [(found[1][0], None), *pairs[4:]]
    assert {(each.part, each.old) for each in restored.schema_ids} == {
        ("key", world.ids["key"]),
        *(("value", world.ids[name]) for name in ("event", "wider", "paper")),
    }
    assert all(each.new > 7 for each in restored.schema_ids)
    assert restored.totals.rewritten == 4
    assert any("schema ids" in line for line in restored.lines())
    assert [(r.timestamp_ms, tuple(r.headers)) for r in world.records("copy", 0)] == [(5, (("h", b"1"),))] * 6


def test_where_the_registry_has_the_schemas_no_byte_changes(world: Framed) -> None:
    pairs = world.fill()
    restored = world.restore(registry=world.old)
    assert world.found() == pairs
    assert (restored.schema_ids, restored.totals.rewritten) == ([], 0)
    assert world.old.newest("copy-value") is None


def test_an_id_that_is_another_schemas_now_is_replaced(world: Framed) -> None:
    pairs = world.fill()
    registry = MemoryRegistry()
    for number in range(9):
        registry.register(f"{number}-value", {**OTHER, "name": f"x{number}"})
    world.restore(registry=registry)
    assert decoded(registry, world.found()) == decoded(world.old, pairs)


def test_a_registry_that_gives_the_same_ids_leaves_all_bytes(world: Framed) -> None:
    pairs = world.fill()
    registry = MemoryRegistry()
    world.restore(registry=registry)
    # Keys are registered before values, and values in the order in which they come, as they were at first.
    assert world.found() == pairs
    assert registry.schema(1) == ID


def test_bytes_that_are_none_of_the_schema_are_refused_and_kept_with_keep_ids(world: Framed) -> None:
    look = b"\x00" + world.ids["event"].to_bytes(4, "big") + b"no long at all"
    pairs = world.fill((None, look))
    registry = MemoryRegistry()
    for number in range(9):
        registry.register(f"{number}-value", {**OTHER, "name": f"x{number}"})
    with pytest.raises(Terminal, match="none of it") as refused:
        world.restore(registry=registry)
    assert (refused.value.details["part"], refused.value.details["offset"]) == ("value", 6)
    assert "--keep-ids" in (refused.value.fix or "")
    world.restore("as_is", keep_ids=True)
    assert world.found("as_is") == pairs


def test_a_restore_that_was_cut_off_goes_on_with_the_same_ids(world: Framed) -> None:
    pairs = world.fill()
    registry = MemoryRegistry()
    registry.register("x-value", OTHER)
    left = [0]
    dying = world.kafka(lambda writer: _as_writer(Dying(writer, left)))
    for step in range(1, 5):
        left[0] = step
        with pytest.raises(Died):
            world.restore(registry=registry, kafka=dying, most=2)
    restored = world.restore(registry=registry, most=2)
    found = world.found()
    assert decoded(registry, found) == decoded(world.old, pairs)
    assert len(found) == len(pairs)
    assert restored.totals.rewritten == 4


def test_a_plan_that_does_not_say_it_kept_its_ids() -> None:
    asked = RestoreAsked("events", "copy")
    older: Mapping[str, Any] = {name: value for name, value in asked.to_json().items() if name != "keep_ids"}
    assert RestoreAsked.from_json(older).keep_ids
    assert RestoreAsked.from_json(RestoreAsked("events", "copy", keep_ids=False).to_json()).keep_ids is False


def test_records_of_numbers_do_not_ask_the_store_for_each(world: Framed, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = world.fill(*((None, (number << 24).to_bytes(8, "big")) for number in range(1_000, 1_300)))
    asked: list[str] = []
    get = world.store.get

    def counted(key: str) -> Any:
        asked.append(key)
        return get(key)

    monkeypatch.setattr(world.store, "get", counted)
    world.restore(registry=world.old, most=1_000)
    assert world.found() == pairs
    assert sum("_schemas" in key for key in asked) == 4


def _as_writer(writer: Any) -> LogWriter:
    found: LogWriter = writer
    return found
