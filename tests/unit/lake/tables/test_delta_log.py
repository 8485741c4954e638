"""The log of a Delta table in a local folder: where it stands, one writer, labels, columns, a log that was cleaned."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from include.clock import SystemClock
from include.errors import Fenced, Terminal
from include.lake.tables.columns import KEY, VERSION
from include.lake.tables.delta_log import DataFile, DeltaLog, TableState
from include.lake.tables.standing import GenerationState
from include.log.planning.plan import Cut
from include.record.gtid import parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition

SCHEMA = pa.schema([pa.field(KEY, pa.binary()), pa.field(VERSION, pa.int64()), pa.field("id", pa.int32())])
START = GenerationState("cdc.shop.shop.users", "id-1", 4, 2)


def cut(offset: int) -> Cut:
    position = SourcePosition("mariadb", parse_gtid_set("0-1-7", "mariadb"), BinlogPosition("bin.1", 4), 1)
    return Cut("shop", 3, 9, position, (), offset)


def opened(folder: Path) -> DeltaLog:
    return DeltaLog(str(folder), {}, SystemClock())


def made(folder: Path) -> tuple[DeltaLog, TableState]:
    log = opened(folder)
    assert log.state() is None
    return log, log.create(SCHEMA, START, days=1)


def file(folder: Path, name: str, rows: int, schema: pa.Schema = SCHEMA) -> DataFile:
    path = f"_bucket=1/{name}.parquet"
    (folder / "_bucket=1").mkdir(exist_ok=True)
    columns: dict[str, list[Any]] = {KEY: [b"k"] * rows, VERSION: [1] * rows, "id": list(range(rows))}
    pq.write_table(pa.table(columns, schema=schema), folder / path)
    return DataFile(path, 1, (folder / path).stat().st_size, rows, json.dumps({"numRecords": rows}))


def at(*ends: int, floor: int = 0, resolved: int | None = None) -> GenerationState:
    said = {} if resolved is None else {"shop": resolved}
    return GenerationState(START.topic, START.topic_id, 4, 2, dict(enumerate(ends)), floor, said)


def test_a_table_says_where_it_stands_and_what_its_versions_are_complete_to(tmp_path: Path) -> None:
    log, state = made(tmp_path)
    assert (state.version, state.standing, state.files) == (0, START, {})
    first = file(tmp_path, "a", 3)
    state = log.commit(state, at(5, 6, floor=9, resolved=40), added=[first], label={"shop": cut(40)})
    second = file(tmp_path, "b", 2)
    state = log.commit(state, at(7, 6, floor=9, resolved=40), added=[second], removed=[first])
    other = opened(tmp_path)
    assert other.state(["shop"]) == state
    assert state.standing == at(7, 6, floor=9, resolved=40)
    assert state.files == {1: (second,)}
    assert [(version, dict(label)) for version, _, label in other.labels(2)] == [(2, {}), (1, {"shop": cut(40)})]
    assert DeltaTable(str(tmp_path), version=1).to_pyarrow_table().num_rows == 3


def test_versions_that_are_written_meanwhile_leave_labels_with_their_own(tmp_path: Path) -> None:
    log, state = made(tmp_path)
    for number in range(1, 30):
        state = log.commit(state, at(number, number, resolved=number), label={"shop": cut(number)})
        if number == 20:
            reader = opened(tmp_path)
            reader.state()
    assert [(version, label["shop"]) for version, _, label in reader.labels(20)] == [
        (number, cut(number)) for number in range(20, 0, -1)
    ]
    assert next(reader.labels())[0] == 20
    assert reader.label(25)[1] == {"shop": cut(25)}
    assert reader.label(99) == (0, {})


def test_a_second_writer_is_fenced_and_what_it_meant_to_write_is_not_there(tmp_path: Path) -> None:
    log, state = made(tmp_path)
    late = opened(tmp_path)
    before = late.state()
    assert before is not None
    state = log.commit(state, at(5, 5))
    with pytest.raises(Fenced, match="another process"):
        late.commit(before, at(9, 9), added=[file(tmp_path, "x", 1)])
    with pytest.raises(Fenced):
        late.create(SCHEMA, START, days=1)
    assert opened(tmp_path).state() == state


def test_where_a_table_stands_outlives_the_cleaning_of_its_log(tmp_path: Path) -> None:
    log, state = made(tmp_path)
    for number in range(30):
        state = log.commit(state, at(number, 1, floor=3, resolved=number), label={"shop": cut(number)})
    table = DeltaTable(str(tmp_path))
    table.create_checkpoint()
    old = 1_600_000_000
    for each in (tmp_path / "_delta_log").glob("*"):
        os.utime(each, (old, old))
    table.cleanup_metadata()
    left = {each.name for each in (tmp_path / "_delta_log").glob("*.json")}
    assert f"{3:020}.json" not in left
    again = opened(tmp_path)
    found = again.state(["shop"])
    assert found == state
    after = again.commit(state, at(31, 1, floor=3, resolved=31))
    assert after.standing.ends == {0: 31, 1: 1}


def test_columns_come_as_a_version_of_their_own_and_wider_ones_with_all_files(tmp_path: Path) -> None:
    log, state = made(tmp_path)
    first = file(tmp_path, "a", 3)
    log.commit(state, at(5, 6), added=[first])
    state = log.add_columns(
        [*SCHEMA, pa.field("note", pa.string()), pa.field("tags", pa.map_(pa.string(), pa.string()))]
    )
    assert state.version == 2
    assert state.standing.ends == {0: 5, 1: 6}
    assert state.schema.names == [*SCHEMA.names, "note", "tags"]
    wide = state.schema.set(state.schema.get_field_index("id"), pa.field("id", pa.int64()))
    narrow = [each for each in wide if each.name in SCHEMA.names]
    state = log.commit(state, at(8, 6), added=[file(tmp_path, "b", 4, pa.schema(narrow))], schema=wide)
    assert state.schema == wide
    assert [each.path for each in state.files[1]] == ["_bucket=1/b.parquet"]
    assert DeltaTable(str(tmp_path)).to_pyarrow_table()["id"].type == pa.int64()
    assert DeltaTable(str(tmp_path), version=1).to_pyarrow_table()["id"].type == pa.int32()


def test_a_table_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path), SCHEMA)
    with pytest.raises(Terminal, match="did not make"):
        opened(tmp_path).state()


def test_checkpoints_are_made_on_the_way(tmp_path: Path) -> None:
    log, state = made(tmp_path)
    for number in range(21):
        state = log.commit(state, at(number, 1))
    assert list((tmp_path / "_delta_log").glob("*.checkpoint.parquet"))
