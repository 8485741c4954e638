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
        self.registry = Away()
        self.keeper = SchemaKeeper(self.store, "raw", self.registry, self.clock)

    def run(self, task: Task, name: str = "g", group: Any = None) -> Outcome:
        ranges, logics = PortRanges(self.memory.reader(), self.memory.admin()), self.logics(name, backup_group())
        return run_task(task, TaskContext(self.store, ranges, logics, self.folder / "work", self.clock, self.keeper))

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
    assert world.kept() == []
    assert "the schema 1 of raw is not kept yet" in caplog.text
    world.registry.away = False
    world.clock.advance(61)
    world.append([b"plain"])
    world.store_all(backup_group())
    assert world.kept() == [kept_key("raw", 1)]


def test_bytes_that_only_look_framed_are_few_requests(tmp_path: Path) -> None:
    world = Backed(tmp_path)
    asked = world.registry.asked
    for _ in range(3):
        world.append([b"\0\0\0\0\7rest", b"\0\0"] * 50)
        world.store_all(backup_group())
    assert asked == [7]
    assert world.kept() == []


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
