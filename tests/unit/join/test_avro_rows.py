"""Joins of rows in Avro: cut, copied and put together as bytes, they are what SQL says."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import Any

import fastavro
import pytest

from include.join.algorithm.batch import BucketChanges, apply
from include.join.algorithm.row import Touch
from include.join.algorithm.shape import JoinShape
from include.join.algorithm.whereabouts import RowSighting
from include.join.config.definition import JoinFile
from include.join.config.fields import FieldPlan, field_plan
from include.join.config.schema import InputSchema, OutputSchemas, output_schemas
from include.join.native import WHY_NOT
from include.join.rows.avro_rows import AvroJoin
from include.join.rows.reading import InputReader
from include.settings.deployment import Deployment
from tests.support.joins.histories import History, Record, Run, Values, expected, table_of

pytestmark = pytest.mark.unit


def encoded(schema: Any, schema_id: int, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\x00" + schema_id.to_bytes(4, "big") + out.getvalue()


def decoded(schema: Any, data: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(data[5:]), fastavro.parse_schema(schema), None)


def row_schema(i: int, name: str = "Value") -> dict[str, Any]:
    # Join keys of any width and either order of branches, and fields around what is shown.
    join_key = (["null", "long"], ["int", "null"], ["null", "int"], ["null", "long"])[i]
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": "note", "type": {"type": "map", "values": "string"}},
            {"name": f"id{i}", "type": "int"},
            {"name": "j", "type": join_key},
            {"name": f"v{i}", "type": ["null", "int"] if i % 2 else "int"},
            {"name": f"g{i}", "type": ["int", "null"]},
            {"name": "rest", "type": "string"},
        ],
    }


def envelope_schema(i: int) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row_schema(i)]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "source", "type": "string"},
            {"name": "op", "type": "string"},
        ],
    }


def key_schema(i: int) -> dict[str, Any]:
    return {"type": "record", "name": "Key", "fields": [{"name": f"id{i}", "type": "int"}]}


@dataclass
class Setup:
    """A history's join over Avro."""

    history: History
    shape: JoinShape
    output: OutputSchemas
    readers: list[InputReader]
    schemas: dict[int, Any]
    join: JoinFile
    plan: FieldPlan
    newest: list[InputSchema]


def set_up(history: History, join_key: str = "j", width: int | None = None, most: int = 100_000) -> Setup:
    """The join of a history's tables by `j`, by `g`, or by their keys (`id`); of the first `width` of them.

    `most`: outputs that one record may change.
    """
    changed = [not located for located in history.located]
    schemas: dict[int, Any] = {}
    inputs, newest = [], []
    used = history.inputs[:width]
    for i in history.inputs:
        schemas[10 + i], schemas[20 + i] = key_schema(i), envelope_schema(i) if changed[i] else row_schema(i)
        if i not in used:
            continue
        newest.append(InputSchema.of(schemas[10 + i], schemas[20 + i], topic=f"t{i}"))
        given: dict[str, Any] = {
            "topic": f"t{i}",
            "join_keys": ["j" if join_key == "j" else f"{join_key}{i}"],
            "include_fields": [f"v{i}"],
        }
        given["type"] = "left" if history.optional[i] else "inner"
        given["where"] = {f"v{i}": [0, 1]} if history.where[i] else {}
        inputs.append(given)
    named = [*(f"id{i}" if history.distinct[i] else f"g{i}" for i in used), *(f"v{i}" for i in used if history.wide[i])]
    pkey = ["j", *named] if history.grouped else None
    join = JoinFile.model_validate(
        {
            "join": inputs,
            "output": {"namespace": "n", "source": "s", "pkey": pkey},
            "max_product_per_change": most,
        }
    )
    plan = field_plan(Deployment.__new__(Deployment), join, [each.fields for each in newest])
    assert plan.distinct == history.distinct[:width]
    output = output_schemas(join, plan, newest)
    projection = AvroJoin.of(join, plan, newest, output, schemas.__getitem__)
    shape = projection.shape(join, plan, (1, 2))
    readers = [InputReader(i, projection.rows[i], changed[i], not changed[i], shape.alone and i == 0, {}) for i in used]
    return Setup(history, shape, output, readers, schemas, join, plan, newest)


class AvroRun(Run):
    """The same batches, of records in Avro."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup.history, shape=setup.shape)
        self._setup = setup
        self.held = self.left = 0

    def _applied(self, bucket: int, touches: list[Touch]) -> list[BucketChanges]:
        """What the compiled way makes, which is what the Python way makes."""
        made = super()._applied(bucket, touches)
        self.held += len(made[0].held)
        self.left += sum(key[:1] == b"l" for key in made[0].rows)
        assert made == [apply(touches, self.states[bucket], replace(self.shape, compiled=None))]
        return made

    def _take(self, i: int, record: Record, touches: list[list[Touch]], sightings: list[list[RowSighting]]) -> None:
        rank = self._rank(record)
        if record.version < self.floor[i]:
            return
        key, value = self.encoded(i, record)
        for move in self._setup.readers[i].read(key, value, rank, record.version):
            if isinstance(move, Touch):
                self._spread([move], touches)
            else:
                sightings[hash(move.key) % len(sightings)].append(move)

    def encoded(self, i: int, record: Record) -> tuple[bytes, bytes | None]:
        """Key and value as its topic has them."""
        setup = self._setup
        key = encoded(setup.schemas[10 + i], 10 + i, {f"id{i}": int(record.key)})
        before, after = (self._row(i, record.key, values) for values in (record.before, record.after))
        if setup.readers[i].change:
            op = "d" if after is None else "c" if before is None else "u"
            value = {"before": before, "after": after, "source": "s", "op": op}
            return key, encoded(setup.schemas[20 + i], 20 + i, value)
        return key, None if after is None else encoded(setup.schemas[20 + i], 20 + i, after)

    def _row(self, i: int, key: bytes, values: Values | None) -> dict[str, Any] | None:
        if values is None:
            return None
        join_key, value, group = values
        row = {"note": {"a": "b"}, f"id{i}": int(key), "j": join_key, f"v{i}": value, f"g{i}": group}
        return {**row, "rest": "x" * (value or 0)}


def shown(setup: Setup, key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """An output as SQL's are written."""
    history = setup.history
    names, values = decoded(setup.output.key, key), decoded(setup.output.value, value)
    parts = []
    for i in history.inputs:
        if history.distinct[i]:
            beside = f"/{names[f'v{i}']}" if history.wide[i] else ""
            parts.append("-" if names[f"id{i}"] is None else f"{names[f'id{i}']}{beside}")
        else:
            parts.append("-" if names[f"g{i}"] is None else f"{names['j']}/{names[f'g{i}']}")
    cells = ["-" if values[f"v{i}"] is None else str(values[f"v{i}"]) for i in history.inputs]
    return f"<{','.join(parts)}>".encode(), f"({','.join(cells)})".encode()


def test_the_work_of_a_bucket_is_done_in_c_where_setup_could_compile_it() -> None:
    compiled = set_up(History(1)).shape.compiled
    assert (compiled is None) is bool(WHY_NOT)


@pytest.mark.parametrize("grouped", [False, True])
def test_join_keys_with_many_rows_join_as_sql_says(grouped: bool) -> None:
    wide = (History(seed, changes=200, grouped=grouped, keys=30) for seed in range(60))
    tried = 0
    for history in wide:
        if len(history.optional) > 2:
            continue
        tried += 1
        setup = set_up(history)
        run = AvroRun(setup)
        run.to_the_end()
        made = dict(shown(setup, key, value) for key, value in table_of(run.outputs).items())
        assert made == expected(history), history.seed
    assert tried > 10


@pytest.mark.parametrize("grouped", [False, True])
def test_rows_in_avro_join_as_sql_says(grouped: bool) -> None:
    for seed in range(250):
        history = History(seed, grouped=grouped)
        setup = set_up(history)
        run = AvroRun(setup)
        run.to_the_end()
        history.draw.shuffle(run.outputs)
        made = dict(shown(setup, key, value) for key, value in table_of(run.outputs).items())
        assert made == expected(history), seed


@pytest.mark.parametrize("grouped", [False, True])
def test_what_is_held_and_what_leaves_then_is_the_same_in_c(grouped: bool) -> None:
    held = left = 0
    for seed in range(200):
        run = AvroRun(set_up(History(seed, changes=60, grouped=grouped), most=1 + seed % 3))
        run.to_the_end()
        held, left = held + run.held, left + run.left
    assert held > 100
    assert left > 100
