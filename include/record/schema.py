"""Table descriptions and the Avro schemas that follow from them.

The same description makes the schema of snapshot rows and of streamed rows, so both carry the same bytes.

| MySQL | Avro |
|---|---|
| tinyint, smallint, mediumint, int, year, unsigned up to mediumint | int |
| int unsigned, bigint | long |
| bigint unsigned | bytes, decimal(20, 0) |
| decimal(p, s) | bytes, decimal(p, s); signed and of before MySQL 5.0: decimal(p + 1, s) |
| float; double | float; double |
| char, varchar, text, enum, set | string |
| binary, varbinary, blob | bytes |
| bit(1) to bit(63); bit(64) | long; bytes, decimal(20, 0) |
| date | int, date |
| datetime | long, local-timestamp-micros |
| timestamp | long, timestamp-micros |
| time | long, microseconds (`lyrebird.type` `time-micros`: may be negative or over a day) |
| json | string, connect name `io.debezium.data.Json` |
| uuid; inet4, inet6 | string, uuid; string |
| geometry and its kinds | bytes: SRID in 4 bytes little-endian, then WKB (`lyrebird.type` `geometry`) |
| vector | array of float |

A zero or impossible date, datetime or timestamp (`2026-02-31`, year 0) has no number: its field is null, and the row's
last field `_invalid` maps the column's name to the text that the server shows. Only tables with such columns have it.

Each field of a row is nullable with default null, as DDL may take it away (design.md §4, compatibility NONE).
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Final

from include.errors import Terminal

__all__ = ["DATES", "GEOMETRIES", "Column", "TableSchema", "avro_name"]

_INT: Final = {"tinyint", "smallint", "mediumint", "year"}
_STRING: Final = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
_BYTES: Final = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
GEOMETRIES: Final = frozenset(
    {
        "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
        "geometrycollection", "geomcollection",
    }
)  # fmt: skip
DATES: Final = frozenset({"date", "datetime", "timestamp"})
_DECIMAL_64: Final[dict[str, Any]] = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0}


@dataclass(frozen=True, slots=True)
class Column:
    """One column as `information_schema` tells it; `type` is DATA_TYPE in lower case (`int`, `varchar`, …).

    `digits` are those of the seconds' fraction (DATETIME_PRECISION); `length` is the number in BIT(n), BINARY(n), in
    characters CHAR(n) and VARCHAR(n), and the dimension of VECTOR(n), 0 where it does not matter. `old`: a DECIMAL of
    before MySQL 5.0, a text whose place of the sign may hold one digit more; MySQL 5.6 does not tell which are.
    """

    name: str
    type: str
    unsigned: bool = False
    precision: int | None = None
    scale: int | None = None
    charset: str | None = None
    labels: tuple[str, ...] = ()
    digits: int = 0
    length: int = 0
    old: bool = False

    def avro(self) -> dict[str, Any] | str:
        """The type of a value that is not null; raises `Terminal` for a type that is not read yet."""
        if self.type in _INT or (self.type == "int" and not self.unsigned):
            return "int"
        if self.type == "int" or (self.type == "bigint" and not self.unsigned):
            return "long"
        if self.type == "bigint":
            return dict(_DECIMAL_64)
        if self.type == "bit":
            return "long" if self.length < 64 else dict(_DECIMAL_64)
        if self.type == "decimal":
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": (self.precision or 10) + (self.old and not self.unsigned),
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
            "uuid": {"type": "string", "logicalType": "uuid"},
            "inet4": "string",
            "inet6": "string",
            "vector": {"type": "array", "items": "float"},
        }
        if self.type in simple:
            return simple[self.type]
        if self.type in _STRING:
            return "string"
        if self.type in _BYTES:
            return "bytes"
        if self.type in GEOMETRIES:
            return {"type": "bytes", "lyrebird.type": "geometry"}
        raise Terminal(
            "column type is not supported",
            column=self.name,
            type=self.type,
            fix="Drop the table in the source's `filter`, or ignore the column there.",
        )


@dataclass(frozen=True)
class TableSchema:
    """A table: its columns in ordinal order and the columns that make its key.

    `key` is the primary key, else a unique key of not-null columns, else all columns; only these last may be
    `nullable`, and are so in the key's schema too.
    """

    database: str
    table: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    nullable: frozenset[str] = frozenset()

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
            [
                [c.name, c.type, c.unsigned, c.precision, c.scale, c.charset, c.labels, c.digits, c.length]
                + ["old"] * c.old
                for c in self.columns
            ]
            + [list(self.key), sorted(self.nullable)]
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def invalid_field(self) -> str:
        """Name of the row's field of texts that are no dates; empty when no column can hold one."""
        if not any(column.type in DATES for column in self.columns):
            return ""
        name, taken = "_invalid", {avro_name(column.name) for column in self.columns}
        while name in taken:
            name += "_"
        return name

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
        """Schema of the record's key: the key's fields in key order."""
        fields: list[dict[str, Any]] = []
        for name in self.key:
            kind = self.column(name).avro()
            fields.append({"name": avro_name(name), "type": ["null", kind] if name in self.nullable else kind})
        return {
            "type": "record",
            "name": "Key",
            "namespace": self.namespace(source),
            "fields": fields,
        }

    def envelope_avro(self, source: str) -> dict[str, Any]:
        """Schema of the record's value: Debezium's envelope around two images of the row."""
        row: dict[str, Any] = {
            "type": "record",
            "name": "Value",
            "fields": [{"name": avro_name(c.name), "type": ["null", c.avro()], "default": None} for c in self.columns],
        }
        if self.invalid_field:
            texts = {"type": "map", "values": "string"}
            row["fields"].append({"name": self.invalid_field, "type": ["null", texts], "default": None})
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
