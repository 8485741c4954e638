"""A table's columns: those of its topic's rows (`lake.formats.arrow_columns`), and three of Lyrebird's own.

| column | holds |
|---|---|
| `_key` | the record's key, as the topic has it: what rows are told apart by |
| `_version` | the row's version (design.md §4): of two states of a key the greater one is newer |
| `_bucket` | the part of the table that the row is in, by its key's hash; the table is partitioned by it |

How columns change with the topic's schema: a new one is added, and null in the rows of before; one that goes stays,
null in the rows that come; one that becomes wider (int to long, float to double, more digits before the point) is
widened in all rows at once. Anything else would show wrong values, and needs a new generation of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from include.errors import InvalidRecord, Terminal
from include.lake.formats.arrow_columns import columns_of
from include.lake.formats.arrow_rows import ArrowRows

__all__ = ["BUCKET", "KEY", "OWN", "VERSION", "Columns", "merged_schema"]

KEY: Final = "_key"
VERSION: Final = "_version"
BUCKET: Final = "_bucket"
OWN: Final = (KEY, VERSION, BUCKET)


@dataclass(frozen=True)
class Columns:
    """How rows of one Avro schema become columns."""

    schema: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Raises `InvalidRecord` for a schema whose fields cannot be columns."""
        if self.schema.get("type") != "record":
            raise InvalidRecord("value is not a record of fields", reason="schema", got=str(self.schema)[:200])
        seen: dict[str, str] = {}
        for field in self.schema["fields"]:
            name = str(field["name"])
            # Delta's names do not differ in case alone.
            other = seen.setdefault(name.lower(), name)
            if other != name:
                raise InvalidRecord("two fields differ in case alone", reason="columns", fields=[other, name])
            if name.lower() in OWN:
                raise InvalidRecord("field has the name of a column of the table's own", reason="columns", field=name)
        self._columns  # noqa: B018 - refuses what has no columns

    @cached_property
    def _columns(self) -> list[Any]:
        return columns_of(self.schema, strict=True, target="delta")

    @cached_property
    def arrow(self) -> Any:
        """The topic's columns, as an Arrow schema."""
        import pyarrow.lib as pa

        return pa.schema([each.field for each in self._columns])

    def table(self, rows: Sequence[Mapping[str, Any]], schema: Any) -> Any:
        """These rows, as fastavro reads them without logical types, as an Arrow table of the columns of `schema`.

        Raises `InvalidRecord` for a value that does not fit its column.
        """
        import pyarrow.lib as pa

        arrays = {}
        for column in (each for each in self._columns if each.name in schema.names):
            try:
                arrays[column.name] = pa.array(column.values([row[column.name] for row in rows]), column.type)
            except (pa.ArrowException, OverflowError, UnicodeError) as error:
                raise InvalidRecord(
                    "value does not fit its column", reason="value", column=column.name, cause=str(error)[:200]
                ) from error
        return _laid(arrays, len(rows), schema)

    def table_of(self, rows: list[bytes], schema: Any) -> Any:
        """The same of rows' bytes; None where they are to be decoded, by which one learns which of them is wrong."""
        arrays = self._arrow_rows.arrays(rows)
        if arrays is None:
            return None
        named = {column.name: array for column, array in zip(self._columns, arrays, strict=True)}
        return _laid(named, len(rows), schema)

    @cached_property
    def _arrow_rows(self) -> ArrowRows:
        return ArrowRows(self.schema, self._columns)


def _laid(arrays: Mapping[str, Any], count: int, schema: Any) -> Any:
    import pyarrow.lib as pa

    made = [arrays.get(field.name) for field in schema]
    return pa.table(
        [
            pa.nulls(count, field.type) if each is None else each if each.type == field.type else each.cast(field.type)
            for each, field in zip(made, schema, strict=True)
        ],
        schema=schema,
    )


def merged_schema(now: Any, wanted: Any, topic: str) -> tuple[Any, tuple[str, ...]]:
    """A table's Arrow schema after columns `wanted` came to those of `now`; and the columns that become wider by it.

    Raises:
        Terminal: a column's type becomes another one, which no row of before can have.
    """
    import pyarrow.lib as pa

    fields = {field.name: field for field in now}
    names = {name.lower(): name for name in fields}
    wider: list[str] = []
    for field in wanted:
        name = names.get(field.name.lower())
        if name is None:
            fields[field.name] = field
            continue
        before = fields[name]
        type_ = _common(before.type, field.type) if name == field.name else None
        if type_ is None:
            raise Terminal(
                "a column's type became another, which the table's rows cannot have",
                topic=topic,
                column=field.name,
                has=f"{name} {before.type}",
                wanted=str(field.type),
                fix="Begin a new generation of the table: `lyrebird table rebuild`.",
            )
        if type_ != before.type:
            wider.append(name)
            fields[name] = pa.field(name, type_, True)
    return pa.schema(list(fields.values())), tuple(wider)


def _common(one: Any, other: Any) -> Any:
    """The type that has all values of both, exactly; None where there is none."""
    import pyarrow.lib as pa
    import pyarrow.types as types

    if one == other:
        return one
    if types.is_integer(one) and types.is_integer(other):
        return one if one.bit_width > other.bit_width else other
    if types.is_floating(one) and types.is_floating(other):
        return one if one.bit_width > other.bit_width else other
    if types.is_decimal(one) and types.is_decimal(other):
        scale = max(one.scale, other.scale)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        return pa.decimal128(whole + scale, scale) if whole + scale <= 38 else None
    if types.is_list(one) and types.is_list(other):
        item = _common(one.value_type, other.value_type)
        return None if item is None else pa.list_(pa.field("item", item, True))
    if types.is_struct(one) and types.is_struct(other):
        return _common_struct(one, other)
    return None


def _common_struct(one: Any, other: Any) -> Any:
    import pyarrow.lib as pa

    fields = {field.name: field.type for field in one}
    for field in other:
        type_ = _common(fields.get(field.name, field.type), field.type)
        if type_ is None:
            return None
        fields[field.name] = type_
    return pa.struct([pa.field(name, type_, True) for name, type_ in fields.items()])
