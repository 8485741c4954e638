"""Parquet files of Confluent-framed Avro values: a column for each field (`arrow_columns` lists the types).

A file has one schema, that of its folder or of the configuration, as in `avro_schemas`. Row groups end where the
values since the last one reach `row_group_bytes`, which is also about what an open file holds in memory. With
`coordinates` the columns `_offset`, `_timestamp_ms` (null where the record has none) and `_key` come first.
Pages are made by pyarrow, so equal bytes need the version that the commit names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any, BinaryIO, Final, Literal

from pydantic import Field, model_validator

from include.errors import InvalidRecord, Terminal
from include.lake.formats.arrow_columns import ArrowColumn, columns_of
from include.lake.formats.avro_schemas import SchemaLookup, WireSchemas
from include.lake.formats.parquet_rows import read_rows
from include.lake.formats.port import ClosedFile, FileIdentity
from include.lake.message import Message
from include.record.codec import frame
from include.settings.deployment import Strict

__all__ = ["Parquet", "ParquetOptions"]

_COORDINATES: Final = ("_offset", "_timestamp_ms", "_key")
_FRAME: Final = 5
# Of values that wait as bytes: as rows of Python they would need many times as much.
_PIECE: Final = 1 << 20
_LEVELS: Final = {"gzip": 6, "zstd": 3}


class ParquetOptions(Strict):
    """The format as a deployment declares it."""

    schema_id: int | None = Field(default=None, ge=0, description="of all files; without it a folder each")
    coordinates: bool = False
    """Whether each row has columns with its offset, timestamp and key."""
    compression: Literal["none", "snappy", "gzip", "zstd"] = "zstd"
    """Of column chunks."""
    level: int | None = Field(default=None, ge=1, le=9, description="of gzip (6 when left out) and zstd (3)")
    row_group_bytes: int = Field(default=16 << 20, ge=1, le=1 << 30)
    """Bytes that end a row group."""

    @model_validator(mode="after")
    def _level_has_use(self) -> ParquetOptions:
        if self.level is not None and self.compression not in _LEVELS:
            raise ValueError(f"{self.compression} has no levels")
        return self


class Parquet:
    """The format; a `Format`. `lookup` is asked once for each schema."""

    def __init__(self, options: ParquetOptions, lookup: SchemaLookup) -> None:
        self.options = options
        self._schemas = WireSchemas(lookup, options.schema_id)
        self._columns: dict[int, tuple[list[ArrowColumn], list[ArrowColumn]]] = {}

    @property
    def extension(self) -> str:
        """`.parquet`."""
        return ".parquet"

    @property
    def versions(self) -> dict[str, str]:
        """That of pyarrow, which brings its codecs along; fastavro only reads."""
        return {"pyarrow": version("pyarrow")}

    def names(self, message: Message) -> tuple[str, ...]:
        """The folder of the message's schema, to be put below its other names; none with `schema_id`."""
        return self._schemas.names(message)

    def refuses(self, message: Message) -> str:
        """What a container file refuses; values that do not fit their columns; schemas that have none."""
        decoded = self._schemas.refused(message)
        if isinstance(decoded, str):
            return decoded
        datum = decoded[1]
        try:
            for column in self._of(decoded[0])[1]:
                column.values([datum if column.whole else datum[column.name]])
        except InvalidRecord as error:
            return str(error)
        return ""

    def open(self, stream: BinaryIO, identity: FileIdentity) -> _Writer:
        """Begin a file; `Terminal` when nothing tells its schema, or it has no columns."""
        schema_id = self._schemas.of_file(identity)
        try:
            columns = self.columns(schema_id)
        except InvalidRecord as error:
            raise Terminal(str(error), topic=identity.topic, schema_id=schema_id) from error
        return _Writer(stream, schema_id, columns, self._schemas, self.options)

    def read(self, stream: BinaryIO) -> Iterator[Message]:
        """Each row: coordinates as far as they are columns, its value as JSON with times as the numbers they were."""
        yield from read_rows(stream, _COORDINATES)

    def columns(self, schema_id: int) -> list[ArrowColumn]:
        """Those of a schema; `InvalidRecord` when it has none, or one of a name that coordinates need."""
        return self._of(schema_id)[0]

    def _of(self, schema_id: int) -> tuple[list[ArrowColumn], list[ArrowColumn]]:
        """All columns, and strict ones of those in which a value may not fit."""
        if schema_id not in self._columns:
            schema = self._schemas.source(schema_id)
            columns = columns_of(schema)
            taken = {column.name for column in columns} & set(_COORDINATES)
            if self.options.coordinates and taken:
                raise InvalidRecord("a field has the name of a coordinate", reason="no columns", names=sorted(taken))
            self._columns[schema_id] = columns, [each for each in columns_of(schema, strict=True) if each.convert]
        return self._columns[schema_id]


class _Writer:
    def __init__(
        self,
        stream: BinaryIO,
        schema_id: int,
        columns: list[ArrowColumn],
        schemas: WireSchemas,
        options: ParquetOptions,
    ) -> None:
        import pyarrow.lib as pa
        from pyarrow.parquet import ParquetWriter

        writer: Any = ParquetWriter

        self._sink = _Sink(stream)
        self._frame, self._schema_id = frame(schema_id, b""), schema_id
        self._columns, self._schemas = columns, schemas
        self._coordinates = options.coordinates
        self._limit, self._piece = options.row_group_bytes, min(options.row_group_bytes, _PIECE)
        self._waiting: list[Message] = []
        self._group: list[Any] = []
        self._waiting_bytes = self._group_bytes = self._records = self._most = 0
        text = json.dumps(schemas.source(schema_id), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        fields = [*(_coordinate_fields() if options.coordinates else ()), *(column.field for column in columns)]
        self._schema = pa.schema(fields, {"lyrebird.avro_schema": text, "lyrebird.schema_id": str(schema_id)})
        self._parquet = writer(
            self._sink,
            self._schema,
            version="2.6",
            data_page_version="1.0",
            compression=options.compression,
            compression_level=options.level or _LEVELS.get(options.compression),
        )

    def __del__(self) -> None:
        # Pyarrow ends a file whose writer is dropped; one of ours is whole only when it was closed.
        self._sink.dropped = True

    @property
    def bytes_so_far(self) -> int:
        self._most = max(self._most, self._sink.written + self._group_bytes + self._waiting_bytes)
        return self._most

    def write(self, messages: Sequence[Message]) -> None:
        for message in messages:
            value = message.value
            if value is None or value[:_FRAME] != self._frame:
                raise Terminal(
                    "a value of another schema came to the writer",
                    offset=message.offset,
                    schema_id=self._schema_id,
                    fix="Ask `refuses` of each message first, and put it below the format's `names`.",
                )
            self._waiting.append(message)
            self._waiting_bytes += len(value)
            if self._waiting_bytes >= self._piece:
                self._gather()

    def close(self) -> ClosedFile:
        self._gather()
        self._flush()
        self._parquet.close()
        return ClosedFile(self._records, self._sink.written, self._sink.sha256.hexdigest())

    def _gather(self) -> None:
        if not self._waiting:
            return
        datum, schema_id = self._schemas.datum, self._schema_id
        data = [datum(schema_id, message.value[_FRAME:]) for message in self._waiting if message.value is not None]
        before = _coordinates(self._waiting) if self._coordinates else []
        self._group.append(_batch(self._columns, data, before, self._schema))
        self._group_bytes += self._waiting_bytes
        self._waiting, self._waiting_bytes = [], 0
        if self._group_bytes >= self._limit:
            self._flush()

    def _flush(self) -> None:
        import pyarrow.lib as pa

        if not self._group:
            return
        table = pa.Table.from_batches(self._group)
        self._parquet.write_table(table, row_group_size=table.num_rows)
        self._records += table.num_rows
        self._group, self._group_bytes = [], 0


class _Sink:
    """A file as pyarrow wants it; closing it leaves the stream open."""

    closed = False
    dropped = False

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.sha256 = hashlib.sha256()
        self.written = 0

    def write(self, data: bytes) -> int:
        if self.dropped:
            return len(data)
        self._stream.write(data)
        self.sha256.update(data)
        self.written += len(data)
        return len(data)

    def tell(self) -> int:
        return self.written

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def _coordinate_fields() -> list[Any]:
    import pyarrow.lib as pa

    offset, timestamp, key = _COORDINATES
    return [pa.field(offset, pa.int64(), False), pa.field(timestamp, pa.int64()), pa.field(key, pa.binary())]


def _coordinates(messages: list[Message]) -> list[list[Any]]:
    return [
        [message.offset for message in messages],
        [None if message.timestamp_ms == -1 else message.timestamp_ms for message in messages],
        [message.key for message in messages],
    ]


def _batch(columns: list[ArrowColumn], data: list[Any], before: Sequence[list[Any]] = (), schema: Any = None) -> Any:
    """Rows of Avro data; `before` are the values of the columns before them. `InvalidRecord` when one does not fit."""
    import pyarrow.lib as pa

    schema = schema or pa.schema([column.field for column in columns])
    lists = [column.values(data if column.whole else [datum[column.name] for datum in data]) for column in columns]
    try:
        arrays = [pa.array(values, field.type) for values, field in zip((*before, *lists), schema, strict=True)]
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise InvalidRecord("a value does not fit its column", reason=str(error)) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
