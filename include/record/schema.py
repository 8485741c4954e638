"""Table descriptions and the Avro schemas that follow from them.

The same description makes the schema of snapshot rows and of streamed rows, so both carry the same bytes.

| MySQL | Avro |
|---|---|
| tinyint, smallint, mediumint, int, year, unsigned up to mediumint | int |
| int unsigned, bigint | long |
| bigint unsigned | bytes, decimal(20, 0) |
| decimal(p, s) | bytes, decimal(p, s) |
| float; double | float; double |
| char, varchar, text, enum, set | string |
| binary, varbinary, blob | bytes |
| date | int, date |
| datetime | long, local-timestamp-micros |
| timestamp | long, timestamp-micros |
| time | long, microseconds (`lyrebird.time-micros`: may be negative or over a day) |
| json | string, connect name `io.debezium.data.Json` |

Each field of a row is nullable with default null, as DDL may take it away (design.md §4, compatibility NONE).
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Final

from include.errors import Terminal

__all__ = ["Column", "TableSchema", "avro_name"]

_INT: Final = {"tinyint", "smallint", "mediumint", "year"}
_STRING: Final = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
_BYTES: Final = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column as `information_schema` tells it; `type` is DATA_TYPE in lower case (`int`, `varchar`, …)."""

    name: str
    type: str
    unsigned: bool = False
    precision: int | None = None
    scale: int | None = None
    charset: str | None = None
    labels: tuple[str, ...] = ()

    def avro(self) -> dict[str, Any] | str:
        """The type of a value that is not null; raises `Terminal` for a type that is not read yet."""
        if self.type in _INT or (self.type == "int" and not self.unsigned):
            return "int"
        if self.type == "int" or (self.type == "bigint" and not self.unsigned):
            return "long"
        if self.type == "bigint":
            return {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0}
        if self.type == "decimal":
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": self.precision or 10,
                "scale": self.scale or 0,
            }
        simple: dict[str, dict[str, Any] | str] = {
            "float": "float",
            "double": "double",
            "date": {"type": "int", "logicalType": "date"},
            "datetime": {"type": "long", "logicalType": "local-timestamp-micros"},
            "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
            "time": {"type": "long", "lyrebird.type": "time-micros"},
            "json": {"type": "string", "connect.name": "io.debezium.data.Json"},
        }
        if self.type in simple:
            return simple[self.type]
        if self.type in _STRING:
            return "string"
        if self.type in _BYTES:
            return "bytes"
        raise Terminal(
            "column type is not supported",
            column=self.name,
            type=self.type,
            fix="Leave the table out of the source's `tables`, or drop the column from it.",
        )


@dataclass(frozen=True)
class TableSchema:
    """A table: its columns in ordinal order and the columns that make its key.

    `key` is the primary key, else a unique key of not-null columns, else all columns.
    """

    database: str
    table: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    def __post_init__(self) -> None:
        names = {column.name for column in self.columns}
        missing = [name for name in self.key if name not in names]
        if missing or not self.key:
            raise Terminal("key columns are not columns of the table", table=self.full_name, missing=missing)

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.table}"

    @property
    def fingerprint(self) -> str:
        """Changes exactly when columns or key change; 16 hex digits."""
        text = json.dumps(
            [[c.name, c.type, c.unsigned, c.precision, c.scale, c.charset, c.labels] for c in self.columns]
            + [list(self.key)]
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def column(self, name: str) -> Column:
        """The column of that name; raises `KeyError`."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def namespace(self, source: str) -> str:
        """Avro namespace of everything about this table."""
        return ".".join(("cdc", avro_name(source), avro_name(self.database), avro_name(self.table)))

    def key_avro(self, source: str) -> dict[str, Any]:
        """Schema of the record's key: the key's fields, not nullable, in key order."""
        fields = [{"name": avro_name(name), "type": self.column(name).avro()} for name in self.key]
        return {
            "type": "record",
            "name": "Key",
            "namespace": self.namespace(source),
            "fields": fields,
        }

    def envelope_avro(self, source: str) -> dict[str, Any]:
        """Schema of the record's value: Debezium's envelope around two images of the row."""
        row = {
            "type": "record",
            "name": "Value",
            "fields": [{"name": avro_name(c.name), "type": ["null", c.avro()], "default": None} for c in self.columns],
        }
        return {
            "type": "record",
            "name": "Envelope",
            "namespace": self.namespace(source),
            "fields": [
                {"name": "before", "type": ["null", row], "default": None},
                {"name": "after", "type": ["null", "Value"], "default": None},
                {"name": "source", "type": _SOURCE},
                {"name": "op", "type": "string"},
                {"name": "ts_ms", "type": ["null", "long"], "default": None},
                {"name": "ts_us", "type": ["null", "long"], "default": None},
                {"name": "ts_ns", "type": ["null", "long"], "default": None},
                {"name": "transaction", "type": ["null", _TRANSACTION], "default": None},
            ],
        }


_SOURCE: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.mysql",
    "fields": [
        {"name": "version", "type": "string"},
        {"name": "connector", "type": "string"},
        {"name": "name", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "ts_us", "type": ["null", "long"], "default": None},
        {"name": "ts_ns", "type": ["null", "long"], "default": None},
        {"name": "snapshot", "type": ["null", "string"], "default": None},
        {"name": "db", "type": "string"},
        {"name": "table", "type": ["null", "string"], "default": None},
        {"name": "server_id", "type": "long"},
        {"name": "gtid", "type": ["null", "string"], "default": None},
        {"name": "file", "type": "string"},
        {"name": "pos", "type": "long"},
        {"name": "row", "type": "int"},
        {"name": "thread", "type": ["null", "long"], "default": None},
        {"name": "query", "type": ["null", "string"], "default": None},
    ],
}
_TRANSACTION: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Block",
    "namespace": "event",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "total_order", "type": "long"},
        {"name": "data_collection_order", "type": "long"},
    ],
}


def avro_name(name: str) -> str:
    """A legal Avro name: every byte outside `[A-Za-z0-9_]` becomes `_` and its two hex digits, a digit in front too.

    A name that is legal already stays as it is; two different names may only meet where one of them was written
    to look like an escaped one, which the registry then refuses as a duplicate field.
    """
    text = "".join(chr(b) if re.match(rb"[A-Za-z0-9_]", bytes((b,))) else f"_{b:02x}" for b in name.encode())
    return f"_{text}" if text[:1].isdigit() else text
