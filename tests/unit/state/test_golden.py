"""An export that an earlier release made comes back as the rows that it had, and the state goes on from them.

tests/golden/state-1 is what `lyrebird state export` wrote with codec 1, of a join with a first stage; `rows.txt` beside
it says what that had: stage, and key and value in hex. A release of another
codec keeps this one readable, and adds its own.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro
import pytest

from include.join.algorithm.row import Row, row_place
from include.join.homes import home_of
from include.state.memory import MemoryEngine
from include.state.opening import StatePlace, open_bucket
from include.state.rocks import RocksEngine
from include.state.transfer import imported
from include.store.memory import MemoryStore
from tests.support.paths import GOLDEN

pytestmark = pytest.mark.unit
_OWNER = ("owner_id", "business_id", "phone")
EXPORT = GOLDEN / "state-1"
ROWS = {
    (stage, bytes.fromhex(key)): bytes.fromhex(value)
    for stage, key, value in (line.split(" ") for line in (EXPORT / "rows.txt").read_text().splitlines())
}


@pytest.mark.parametrize("engine", [MemoryEngine, RocksEngine])
def test_an_export_of_an_earlier_release_is_imported_and_goes_on(tmp_path: Path, engine: Any) -> None:
    store, place = MemoryStore(), StatePlace(str(tmp_path / "host"), "state/t/")
    pointers, done = imported(place, store, EXPORT, home_of(5), of="sales.owned", engine=engine.open)
    assert done.rows == len(ROWS) == 41
    assert {stage for stage, _ in pointers} == {"rows", "whereabouts"}
    held: dict[tuple[str, bytes], bytes] = {}
    for (stage, number), pointer in pointers.items():
        with open_bucket(place, store, stage, number, pointer, engine=engine.open) as bucket:
            rows = dict(bucket.scan(b""))
            held |= {(stage, key): value for key, value in rows.items()}
            key, value = next(iter(rows.items()))
            later = bucket.commit({key: value + b"!"})
        with open_bucket(place, store, stage, number, later, engine=engine.open) as bucket:
            assert bucket.get([key]) == [value + b"!"]
    assert held == ROWS


def test_rows_of_an_earlier_release_are_read_as_they_were() -> None:
    owner = {"type": "record", "name": "owner", "fields": [{"name": each, "type": "long"} for each in _OWNER]}
    read = {row_place(key): Row.from_bytes(value) for (stage, key), value in ROWS.items() if stage == "rows"}

    def owner_of(body: bytes) -> tuple[Any, ...]:
        fields: Any = fastavro.schemaless_reader(io.BytesIO(body), owner, None)
        return tuple(fields.values())

    owners = {(row.version, *owner_of(row.body)) for (_, slot, _), row in read.items() if slot == 1}
    assert owners == {
        (363, 3, 5, 114),
        (369, 5, 4, 642),
        (365, 0, 11, 449),
        (353, 1, 11, 124),
        (119, 2, 11, 697),
        (329, 7, 11, 35),
        (123, 6, 8, 231),
        (367, 4, 3, 765),
    }
    assert {row.schema_id for row in read.values()} == {6, 10}
