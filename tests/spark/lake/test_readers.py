"""What `lyrebird lake files --as spark` prints, run: Spark reads the records of the dates, each once, and no others."""

from __future__ import annotations

import datetime as dt
import io
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pytest
from pyspark.sql import SparkSession

from include.errors import InvalidRecord
from include.lake.backfill.promotion import promote
from include.lake.definition import LakeGroup
from include.lake.formats.sequence.message_pack_key import MessagePackKey
from include.lake.inspect.listing import Dates
from include.lake.inspect.readers import ReadSet, read_set, spark_line
from include.lake.message import Message
from include.lake.parsing.definition import ParserContext
from include.lake.writing.log_cuts import CutLogics
from include.lake.writing.topic_pipelines import logics_of
from include.record.codec import frame
from include.store.memory import MemoryStore
from tests.support.lake.backfill_harness import RIGHT, WRONG, BackfillHarness, asked, filled
from tests.support.lake.stored_topic import StoredTopic, event, parsing_group

TODAY, YESTERDAY = dt.date(2026, 11, 21), dt.date(2026, 11, 20)
EVER = Dates(dt.date(2000, 1, 1), dt.date(2100, 1, 1))
SCHEMAS: Mapping[int, dict[str, Any]] = {
    1: {"type": "record", "name": "e", "fields": [{"name": "at", "type": "long"}, {"name": "n", "type": "long"}]},
    2: {
        "type": "record",
        "name": "e",
        "fields": [
            {"name": "at", "type": "long"},
            {"name": "n", "type": "long"},
            {"name": "who", "type": ["null", "string"]},
        ],
    },
}


class Registry:
    def schema(self, schema_id: int) -> dict[str, Any]:
        if schema_id not in SCHEMAS:
            raise InvalidRecord("no schema of this id is registered", reason="schema id", schema_id=schema_id)
        return SCHEMAS[schema_id]


class Framed(StoredTopic):
    """One whose messages are Avro."""

    def logics(self, name: str, group: LakeGroup, topic: str = "events") -> CutLogics:
        return logics_of(name, group, topic, ParserContext(self.folder, Registry()))  # type: ignore[arg-type]


def framed(schema_id: int, **values: Any) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(SCHEMAS[schema_id]), values)
    return frame(schema_id, body.getvalue())


def at(days_ago: int = 0) -> int:
    return int(orjson.loads(event(0, days_ago=days_ago))["at"])


def laid_out(store: MemoryStore, folder: Path) -> str:
    """All that the bucket has, as files: what nobody should read as well."""
    for info in store.list(""):
        stored = store.get(info.key)
        path = folder / "bucket" / info.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(stored.body if stored else b"")
    return str(folder / "bucket")


def read(spark: SparkSession, found: ReadSet) -> Any:
    """What the printed line makes, with files in the place of the bucket."""
    return eval(spark_line(found, "file"), {"spark": spark})


def of_dates(world: StoredTopic, group: LakeGroup, dates: Dates = EVER) -> ReadSet:
    bucket = laid_out(world.store, world.folder)
    return read_set(world.store, bucket, group.prefix, "events", dates, group.rules[0].format)


def test_json_lines_have_their_members_and_their_date_as_columns(spark: SparkSession, tmp_path: Path) -> None:
    world, group = StoredTopic(tmp_path), parsing_group({"json_lines": {"content": "payload"}})
    world.append([event(0, who="é\n"), event(1, days_ago=1), event(2), b"no json", event(3, type="ping"), None])
    world.store_all(group)
    rows = read(spark, of_dates(world, group)).collect()
    assert {(row.n, str(row.dt), row.who) for row in rows} == {
        (0, str(TODAY), "é\n"),
        (1, str(YESTERDAY), None),
        (2, str(TODAY), None),
    }
    assert [row.n for row in read(spark, of_dates(world, group, Dates(YESTERDAY, YESTERDAY))).collect()] == [1]


def test_text_comes_line_by_line(spark: SparkSession, tmp_path: Path) -> None:
    world, group = StoredTopic(tmp_path), parsing_group({"text": {"compression": {"codec": "gzip"}}})
    values = [event(0), event(1, days_ago=1), event(2)]
    world.append([*values])
    world.store_all(group)
    rows = read(spark, of_dates(world, group)).collect()
    assert {(row.value.encode(), str(row.dt)) for row in rows} == {
        (values[0], str(TODAY)),
        (values[1], str(YESTERDAY)),
        (values[2], str(TODAY)),
    }


@pytest.mark.parametrize("compression", ["NONE", "BLOCK"])
def test_sequence_files_come_as_keys_and_values(spark: SparkSession, tmp_path: Path, compression: str) -> None:
    form = {"sequence": {"layout": "message_pack", "timestamp": True, "compression": compression}}
    world, group = StoredTopic(tmp_path), parsing_group(form)
    now_ms = world.clock.now_us() // 1000
    world.append([event(0), event(1, days_ago=1), event(2)])
    world.store_all(group)
    pairs = read(spark, of_dates(world, group)).collect()
    message = MessagePackKey(timestamp=True).message
    found = [message(bytes(key), bytes(value)) for key, value in pairs]
    assert sorted(found) == [
        Message(offset, b"k", value, (), now_ms)
        for offset, value in enumerate((event(0), event(1, days_ago=1), event(2)))
    ]


def test_parquet_of_two_schemas_is_one_table_with_all_columns(spark: SparkSession, tmp_path: Path) -> None:
    parser = {"format": "avro", "time": {"field": ["at"], "unit": "ms"}}
    world = Framed(tmp_path)
    group = parsing_group({"parquet": {}}, rules=[rule({"parquet": {}}, parser)])
    world.append([framed(1, at=at(), n=0), framed(2, at=at(1), n=1, who="x"), framed(2, at=at(), n=2, who=None)])
    world.append([b"\0\0\0\0\3 of a schema that nobody registered"])
    world.store_all(group)
    rows = read(spark, of_dates(world, group)).collect()
    assert sorted((row.n, str(row.dt), row.schema, row.who) for row in rows) == [
        (0, str(TODAY), 1, None),
        (1, str(YESTERDAY), 2, "x"),
        (2, str(TODAY), 2, None),
    ]


def rule(form: dict[str, Any], parser: dict[str, Any]) -> dict[str, Any]:
    version = {"version": 1, "added": "2026-01-01T00:00:00Z", "parser": parser}
    return {"topics": "*", "format": form, "versions": [version]}


def test_avro_containers_hold_the_values_of_their_schema(tmp_path: Path) -> None:
    # Spark reads them with its package spark-avro, which the wheel has not: what it would be given is read here.
    parser = {"format": "avro", "time": {"field": ["at"], "unit": "ms"}}
    world = Framed(tmp_path)
    group = parsing_group({"avro": {}}, rules=[rule({"avro": {}}, parser)])
    world.append([framed(1, at=at(), n=0), framed(2, at=at(1), n=1, who="x"), framed(1, at=at(), n=2)])
    world.store_all(group)
    found = of_dates(world, group)
    assert len(spark_line(found).splitlines()) == 2
    rows = []
    for key in found.keys["avro"]:
        with (Path(found.bucket) / key).open("rb") as stream:
            rows += [(key.split("/")[-3:-1], row) for row in fastavro.reader(stream)]
    assert rows == [
        (["dt=2026-11-20", "schema=2"], {"at": at(1), "n": 1, "who": "x"}),
        (["dt=2026-11-21", "schema=1"], {"at": at(), "n": 0}),
        (["dt=2026-11-21", "schema=1"], {"at": at(), "n": 2}),
    ]


def days(spark: SparkSession, world: BackfillHarness, folder: Path) -> tuple[Counter[str], list[int]]:
    """How many records each date has, and their numbers."""
    bucket = laid_out(world.store, folder)
    rows = read(spark, read_set(world.store, bucket, "by_date", "events", EVER)).select("dt", "value").collect()
    numbers = sorted(orjson.loads(row.value)["n"] for row in rows)
    return Counter(str(row.dt) for row in rows), numbers


def test_after_a_promoted_backfill_only_its_objects_are_read(spark: SparkSession, tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    run = world.backfilled(asked())
    before, numbers = days(spark, world, tmp_path / "before")
    assert (before, len(numbers)) == ({f"2024-05-0{day}": 25 for day in (2, 3, 4)}, 75)
    promote(world.store, run)
    after, same = days(spark, world, tmp_path / "after")
    assert (after, same) == ({f"2024-05-0{day}": 25 for day in (1, 2, 3)}, numbers)
