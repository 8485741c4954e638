"""The schemas of a backup's records lie beside it: written before the cut, read where the registry lacks them."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any

import fastavro
import pytest

from include.clock import ManualClock
from include.errors import InvalidRecord, Terminal, Transient
from include.lake.reading.kept_schemas import KeptRegistry, SchemaKeeper, kept_key
from include.lake.reading.log_ranges import PortRanges
from include.lake.writing.task import Outcome, Task, TaskContext, run_task
from include.log.ports import UnknownSchema
from include.log.registry.memory import MemoryRegistry
from include.record.codec import frame
from include.store.memory import MemoryStore
from tests.support.lake.stored_topic import StoredTopic, backup_group

EVENT: dict[str, Any] = {"type": "record", "name": "event", "fields": [{"name": "n", "type": "long"}]}
KEY: dict[str, Any] = {"type": "string"}


class Away(MemoryRegistry):
    """Does not answer while `away`."""

    away = False

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def schema(self, schema_id: int) -> dict[str, Any]:
        self.asked.append(schema_id)
        if self.away:
            raise Transient("the schema registry does not answer", system="registry")
        return super().schema(schema_id)


class Backed(StoredTopic):
    """Its tasks keep schemas."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.registry, self.unknown_ids = Away(), 0
        self.keeper = SchemaKeeper(self.store, "raw", self.registry, self.clock)

    def run(self, task: Task, name: str = "g", group: Any = None) -> Outcome:
        ranges, logics = PortRanges(self.memory.reader(), self.memory.admin()), self.logics(name, backup_group())
        context = TaskContext(self.store, ranges, logics, self.folder / "work", self.clock, self.keeper)
        outcome = run_task(task, context)
        self.unknown_ids += outcome.unknown_ids
        return outcome

    def event(self, number: int) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(EVENT), {"n": number})
        return frame(self.registry.register("events-value", EVENT), out.getvalue())

    def kept(self) -> list[str]:
        return [info.key for info in self.store.list("raw/_schemas/")]


def test_each_schema_is_kept_once_and_read_without_a_registry(tmp_path: Path) -> None:
    world = Backed(tmp_path)
    world.registry.register("events-key", KEY)
    world.append([world.event(1), world.event(2), b"plain", None])
    world.store_all(backup_group())
    assert world.kept() == [kept_key("raw", 2)]
    for registry in (None, MemoryRegistry()):
        found = KeptRegistry(registry, world.store, ["other", "raw"])
        assert found.schema(2) == world.registry.schema(2)
        assert found.language(2) == "AVRO"
        with pytest.raises(UnknownSchema):
            found.schema(9)


def test_schemas_are_written_before_the_cut_is_promised(tmp_path: Path) -> None:
    class Noting(MemoryStore):
        def put_if_absent(self, key: str, *given: Any, **named: Any) -> Any:
            written.append(key)
            return super().put_if_absent(key, *given, **named)

    written: list[str] = []
    world = Backed(tmp_path)
    world.store = Noting(world.clock)
    world.keeper = SchemaKeeper(world.store, "raw", world.registry, world.clock)
    world.append([world.event(1)])
    world.store_all(backup_group())
    kinds = [key.rpartition(".")[2] for key in written if "_schemas" in key or "/_chain/" in key]
    assert kinds[-3:] == ["json", "intent", "commit"]


def test_a_registry_that_is_away_holds_no_backup_up_and_is_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = Backed(tmp_path)
    event = world.event(1)
    world.registry.away = True
    with caplog.at_level(logging.WARNING):
        world.append([event])
        world.store_all(backup_group())
    assert world.kept() == ["raw/_schemas/1.owed"]
    assert "the schema 1 of raw is not kept yet" in caplog.text
    world.registry.away = False
    world.clock.advance(61)
    world.append([b"plain"])
    world.store_all(backup_group())
    assert world.kept() == [kept_key("raw", 1), "raw/_schemas/1.owed"]


def test_what_could_not_be_kept_is_kept_by_the_next_process() -> None:
    """The records of an id may never come again."""
    store, registry, clock = Counted(), Away(), ManualClock(0)
    known = {frame(registry.register(name, schema), b"") for name, schema in (("s", EVENT), ("t", KEY))}
    registry.away = True
    keeper = SchemaKeeper(store, "raw", registry, clock)
    keeper.keep(known | random_heads(10_000), "e")
    assert [info.key for info in store.list("raw/_schemas/")] == ["raw/_schemas/1.owed", "raw/_schemas/2.owed"]
    registry.away = False
    later = SchemaKeeper(store, "raw", registry, clock)
    later.keep(set(), "e")
    assert [store.head(kept_key("raw", schema_id)) is not None for schema_id in (1, 2)] == [True, True]
    registry.asked.clear()
    SchemaKeeper(store, "raw", registry, clock).keep(known, "e")
    assert not {1, 2}.intersection(registry.asked)


def test_bytes_that_only_look_framed_are_few_requests(tmp_path: Path) -> None:
    world = Backed(tmp_path)
    asked = world.registry.asked
    for _ in range(3):
        world.append([b"\0\0\0\0\7rest", b"\0\7\7\7\7rest", b"\0\0"] * 50)
        world.store_all(backup_group())
    assert asked == [7, 0x07070707]
    assert world.kept() == ["raw/_schemas/7.owed"], "a registry may number that soon"


class Counted(MemoryStore):
    """Counts its requests for schemas."""

    requests = 0

    def head(self, key: str) -> Any:
        self.requests += "_schemas" in key
        return super().head(key)

    def list(self, prefix: str, *, start_after: str = "") -> Any:
        self.requests += "_schemas" in prefix
        return super().list(prefix, start_after=start_after)


def random_heads(count: int, least: int = 1_000_000) -> set[bytes]:
    return {b"\0" + (least + number).to_bytes(4, "big") for number in range(count)}


def test_many_ids_that_nobody_registered_are_few_requests_in_a_minute_and_ever_fewer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, registry, clock = Counted(), Away(), ManualClock(0)
    keeper, heads = SchemaKeeper(store, "raw", registry, clock), random_heads(50_000)
    with caplog.at_level(logging.WARNING):
        assert [keeper.keep(heads, "e") for _ in range(3)] == [50, 0, 0]
        for minute in range(1, 21):
            clock.advance(60)
            keeper.keep(heads, "e")
            assert len(registry.asked) <= 50 + 100 * minute
    assert store.requests == 1
    assert caplog.text.count("e has many schema ids") == 1
    # What was asked for in vain is asked for again, less and less often.
    assert registry.asked.count(1_000_000) < 6


def test_a_schema_is_kept_though_a_topic_has_many_ids_that_nobody_registered() -> None:
    store, registry, clock = MemoryStore(), Away(), ManualClock(0)
    keeper = SchemaKeeper(store, "raw", registry, clock)
    known = frame(registry.register("s", EVENT), b"")
    keeper.keep(random_heads(10_000) | {known}, "e")
    assert store.head(kept_key("raw", 1)) is not None
    # Another one, of which the cut was when the topic might not ask any more, and no cut has it again.
    keeper.keep(random_heads(10_000) | {frame(registry.register("other", KEY), b"")}, "e")
    assert store.head(kept_key("raw", 2)) is None
    clock.advance(61)
    keeper.keep(set(), "other")
    assert store.head(kept_key("raw", 2)) is not None


def test_one_topic_of_such_bytes_leaves_the_schemas_of_others_alone() -> None:
    store, registry, clock = MemoryStore(), Away(), ManualClock(0)
    keeper = SchemaKeeper(store, "raw", registry, clock)
    keeper.keep(random_heads(10_000), "e")
    keeper.keep({frame(registry.register("s", EVENT), b"")}, "other")
    assert store.head(kept_key("raw", 1)) is not None


def test_a_registry_that_does_not_answer_is_asked_once_a_minute() -> None:
    store, registry, clock = MemoryStore(), Away(), ManualClock(0)
    keeper = SchemaKeeper(store, "raw", registry, clock)
    registry.away = True
    for _ in range(3):
        keeper.keep(random_heads(100), "e")
        keeper.keep(random_heads(100, 1), "other")
    assert len(registry.asked) == 1
    clock.advance(61)
    keeper.keep(random_heads(100), "e")
    assert len(registry.asked) == 2


def test_a_slow_registry_holds_a_cut_up_for_some_seconds() -> None:
    store, registry, clock = MemoryStore(), Away(), ManualClock(0)

    class Slow(Away):
        def schema(self, schema_id: int) -> dict[str, Any]:
            clock.advance(3)
            return super().schema(schema_id)

    registry = Slow()
    SchemaKeeper(store, "raw", registry, clock).keep(random_heads(1_000), "e")
    assert clock.monotonic_s() <= 13


def test_ids_asked_for_in_vain_are_counted(tmp_path: Path) -> None:
    world = Backed(tmp_path)
    world.append([b"\0\0\0\0" + bytes([number]) + b"rest" for number in range(60)])
    world.store_all(backup_group())
    assert len(world.registry.asked) == 50
    assert world.unknown_ids == 50


def test_a_registry_that_answers_is_asked_first_and_one_that_is_away_is_not_needed() -> None:
    store, registry = MemoryStore(), Away()
    SchemaKeeper(store, "raw", registry, ManualClock(0)).keep({b"\0\0\0\0"})
    registry.register("s", EVENT)
    registry.away = True
    beside = KeptRegistry(registry, store, ["raw"])
    with pytest.raises(Transient):
        beside.schema(1)
    registry.away = False
    SchemaKeeper(store, "raw", registry, ManualClock(0)).keep({frame(1, b"")})
    registry.away = True
    assert beside.schema(1) == EVENT
    assert beside.register("s", EVENT) == 1
    assert beside.newest("s") == 1
    with pytest.raises(Terminal, match="no schema registry"):
        KeptRegistry(None, store, []).newest("s")
    with pytest.raises(Terminal, match="no schema registry"):
        KeptRegistry(None, store, []).subjects(1)
    registry.away = False
    assert beside.subjects(1) == ("s",)


@pytest.mark.parametrize("body", [b"{}", b"no json", b'{"language": "KLINGON", "schema": {}}', b"[]"])
def test_a_kept_schema_that_was_changed_is_named(body: bytes) -> None:
    store = MemoryStore()
    store.put(kept_key("raw", 1), body)
    with pytest.raises(Terminal, match=r"kept schema cannot be read.*raw/_schemas/1.json") as wrong:
        KeptRegistry(None, store, ["raw"]).schema(1)
    assert not isinstance(wrong.value, InvalidRecord)
