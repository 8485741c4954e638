"""Records of a change topic as rows of columns, each with the first of the asked moments that has it. Knows no Spark.

Below `sure` all records are in every moment, so that their place is not looked at: compaction may have left a tombstone
alone there, which has none. Behind it a delete's envelope has the place, and its tombstone is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from include.audit.merkle.moments import Moments
from include.errors import InvalidRecord
from include.lake.formats.avro_schemas import plain_schema
from include.lake.tables.bucket_file import RowColumns
from include.lake.tables.columns import KEY, VERSION, Columns
from include.lake.tables.rows import RefusedRow, RowChange, RowReader
from include.log.ports import Record
from include.record.codec import DatumReader, Decoder
from include.record.fields import Fields

__all__ = ["LIVE", "OFFSET", "PLACE", "ChangeRows", "own_fields", "with_own"]

PLACE: Final = "_lyrebird_place"
"""The first moment that has the change; -1: each has it."""
LIVE: Final = "_lyrebird_live"
OFFSET: Final = "_lyrebird_offset"
_HEAD: Final = 5
_ROWS: Final = 5_000
_PLACED: Final = ("gtid", "file", "pos")


def own_fields() -> list[Any]:
    """Arrow's, of what `ChangeRows` adds to a table's rows."""
    import pyarrow.lib as pa

    return [pa.field(PLACE, pa.int32()), pa.field(LIVE, pa.bool_()), pa.field(OFFSET, pa.int64())]


def with_own(schema: Any) -> Any:
    """The Arrow schema of a table's rows with these."""
    import pyarrow.lib as pa

    return pa.schema([*schema, *own_fields()])


@dataclass(frozen=True)
class _Placed:
    place: int
    change: RowChange
    key: Mapping[str, Any] | None
    """Of a delete alone."""


class ChangeRows:
    """Reads the records of one topic.

    Args:
        topic: its name.
        schema: Arrow's, of the rows (`lake.tables`), with `_key` and `_version`.
        row_schema: Avro's of a row, as it is newest: deletes have the columns of their key by it.
        moments: that changes are placed among.
        sure: partition → offset below which all is in every moment.
        schema_of: schema by id; raises `InvalidRecord`.
    """

    def __init__(
        self,
        topic: str,
        schema: Any,
        row_schema: Mapping[str, Any],
        moments: Moments,
        sure: Mapping[int, int],
        schema_of: Callable[[int], Mapping[str, Any]],
    ) -> None:
        self._reader = RowReader(topic, change=True, schema_of=schema_of)
        self._rows = RowColumns(topic, self._reader.row_schema)
        self._columns = Columns(row_schema)
        self._names = [field["name"] for field in row_schema["fields"]]
        self._schema, self._moments, self._sure, self._schema_of = schema, moments, sure, schema_of
        self._sources: dict[int, tuple[Fields, Fields, DatumReader]] = {}
        self._places: dict[bytes, int] = {}
        self._keys = Decoder(lambda schema_id: plain_schema(schema_of(schema_id)))

    def tables(self, records: Iterable[Record]) -> Iterator[Any]:
        """Arrow tables of `with_own`; a record that cannot be read is a row without a key."""
        placed: list[_Placed] = []
        refused: list[RefusedRow] = []
        for record in records:
            try:
                place = self._place(record)
                if place is not None:
                    change = self._reader.read(record)
                    placed.append(_Placed(place, change, self._key(change.key) if change.row is None else None))
            except InvalidRecord as error:
                refused.append(RefusedRow(record.topic, record.partition, record.offset, str(error)))
            if len(placed) + len(refused) >= _ROWS:
                yield from self._made(placed, refused)
                placed, refused = [], []
        yield from self._made(placed, refused)

    def _made(self, placed: list[_Placed], refused: list[RefusedRow]) -> Iterator[Any]:
        import pyarrow.lib as pa

        inner = pa.schema([field for field in self._schema if field.name not in (KEY, VERSION)])
        lives = [entry for entry in placed if entry.change.row is not None]
        table = self._rows.table([entry.change for entry in lives], self._schema, refused)
        if table.num_rows:
            if table.num_rows < len(lives) or len({entry.change.schema_id for entry in lives}) > 1:
                # By schema, and without those that are refused.
                places = {(entry.change.key, entry.change.version): entry for entry in lives}
                named = zip(table[KEY].to_pylist(), table[VERSION].to_pylist(), strict=True)
                lives = [places[name] for name in named]
            yield self._with_own(table, lives, live=True)
        gone = [entry for entry in placed if entry.change.row is None]
        if gone:
            keys = self._columns.table([{**dict.fromkeys(self._names), **(entry.key or {})} for entry in gone], inner)
            arrays = {name: keys[name] for name in inner.names}
            arrays[KEY] = pa.array([entry.change.key for entry in gone], pa.binary())
            arrays[VERSION] = pa.array([entry.change.version for entry in gone], pa.int64())
            table = pa.table([arrays[name] for name in self._schema.names], schema=self._schema)
            yield self._with_own(table, gone, live=False)
        if refused:
            nulls = [pa.nulls(len(refused), field.type) for field in with_own(self._schema)]
            yield pa.table(nulls, schema=with_own(self._schema))

    def _with_own(self, table: Any, placed: list[_Placed], *, live: bool) -> Any:
        import pyarrow.lib as pa

        own = [
            pa.array([each.place for each in placed], pa.int32()),
            pa.array([live] * len(placed), pa.bool_()),
            pa.array([each.change.offset for each in placed], pa.int64()),
        ]
        return pa.table([*table.columns, *own], schema=with_own(self._schema))

    def _place(self, record: Record) -> int | None:
        """The place of a change; None for a tombstone that says nothing more than the delete before it."""
        if record.offset < self._sure.get(record.partition, 0):
            return -1
        value = record.value
        if value is None:
            return None
        if len(value) < _HEAD:
            raise InvalidRecord("value is not in the Confluent wire format", reason="magic", head=value.hex())
        envelope, source, read = self._source(int.from_bytes(value[1:_HEAD], "big"))
        (block,) = envelope.cut(value, (envelope.names.index("source"),), _HEAD)
        place = b"".join(source.cut(block, tuple(source.names.index(name) for name in _PLACED)))
        found = self._places.get(place)
        if found is None:
            said = read(block)
            found = self._places[place] = self._moments.place_of(said["gtid"], said["file"], said["pos"])
        return found

    def _source(self, schema_id: int) -> tuple[Fields, Fields, DatumReader]:
        known = self._sources.get(schema_id)
        if known is None:
            envelope = Fields(self._schema_of(schema_id))
            if "source" not in envelope.names:
                raise InvalidRecord("value is not a change envelope", reason="envelope")
            source = envelope.inside("source")
            if not set(_PLACED) <= set(source.names):
                raise InvalidRecord("value is not a change envelope", reason="source", allowed=_PLACED)
            known = self._sources[schema_id] = envelope, source, DatumReader(source.schema, schema_id=schema_id)
        return known

    def _key(self, key: bytes) -> dict[str, Any]:
        said = self._keys(key)
        if not isinstance(said, dict):
            raise InvalidRecord("key is not a record of fields", reason="key", got=type(said).__name__)
        return said
