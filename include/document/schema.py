"""Avro schemas of a document's key and body, from the definition and the types of the source's columns.

Each field but the key's is nullable with default null, also where the column is not: so a field may come and go and
readers of older records keep working (compatibility BACKWARD). A list is never null, its default is the empty one.
Of a masked column the type is that of what its mask makes. Decimals stay exact decimals. `datetime` columns are taken
for UTC: timestamp-micros.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from include.document.definition import DocumentDefinition, DocumentFields, Lookup
from include.document.masks import ColumnsOf
from include.errors import SettingsError, Terminal
from include.record.schema import Column, avro_name

__all__ = ["body_avro", "check_columns", "key_avro"]

_KEY_TYPES: Final = ("int", "long", "string")


def key_avro(topic: str, definition: DocumentDefinition, columns_of: ColumnsOf) -> dict[str, Any]:
    """Schema of the record's key: the entity's key fields, in key order."""
    columns = columns_of(definition.fact.table)
    fields = []
    for name in definition.fact.key:
        kind = _column(columns, definition.fact.table, name).avro()
        if kind not in _KEY_TYPES:
            raise SettingsError(
                "a document's key is made of integers and texts",
                topic=topic,
                column=name,
                type=kind,
                allowed=_KEY_TYPES,
            )
        fields.append({"name": avro_name(name), "type": kind})
    return {"type": "record", "name": "Key", "namespace": _namespace(topic), "fields": fields}


def body_avro(topic: str, definition: DocumentDefinition, columns_of: ColumnsOf) -> dict[str, Any]:
    """Schema of the record's value."""
    columns_of = definition.masks.columns(columns_of)
    columns = columns_of(definition.fact.table)
    fields = _fields(definition.fields, columns, definition.fact.table, definition.entity)
    fields += [_lookup(name, lookup, columns_of, definition.entity) for name, lookup in definition.lookups.items()]
    fields += [_nullable(name, computed.avro()) for name, computed in definition.computed.items()]
    for field in fields:
        if field["name"] in definition.fact.key:
            field["type"] = field["type"][1]
            del field["default"]
    return {
        "type": "record",
        "name": definition.entity.capitalize(),
        "namespace": _namespace(topic),
        "fields": fields,
    }


def check_columns(definition: DocumentDefinition, columns_of: ColumnsOf) -> None:
    """Raise `Terminal` naming the first declared column that the database does not have. New columns are ignored."""
    fact = definition.fact
    for name in definition.columns():
        _column(columns_of(fact.table), fact.table, name)
    if columns_of(fact.table)[fact.state].avro() != "string":
        raise SettingsError(
            "states are texts, and this column holds none: no row would ever be final",
            table=fact.table,
            column=fact.state,
            type=columns_of(fact.table)[fact.state].type,
            fix="Name a column of texts (CHAR, VARCHAR, ENUM).",
        )
    _check_lookups(definition.lookups, fact.table, columns_of)
    definition.masks.check(columns_of)
    for path in definition.paths():
        for name in path.match:
            kind = _column(columns_of(path.table), path.table, name).avro()
            if kind not in _KEY_TYPES:
                raise SettingsError(
                    "a signal table is matched by integers and texts", table=path.table, column=name, type=kind
                )


def _check_lookups(lookups: Mapping[str, Lookup], root: str, columns_of: ColumnsOf) -> None:
    for lookup in lookups.values():
        above = root
        for number, hop in enumerate(lookup.hops):
            last = number == len(lookup.hops) - 1
            names = lookup.columns() if last else (*hop.where, *lookup.hops[number + 1].where.values())
            for name in names:
                _column(columns_of(hop.table), hop.table, name)
            for name, of in hop.where.items():
                mine = _column(columns_of(hop.table), hop.table, name)
                theirs = _column(columns_of(above), above, of)
                if _compared_as(mine) != _compared_as(theirs):
                    raise SettingsError(
                        "columns of these types are never equal, so the look-up would find nothing",
                        table=hop.table,
                        column=name,
                        type=mine.type,
                        above=f"{above}.{of}",
                        above_type=theirs.type,
                        fix="Join columns of one kind: numbers, texts, bytes or the same kind of time.",
                    )
            above = hop.table
        _check_lookups(lookup.lookups, above, columns_of)


def _compared_as(column: Column) -> str:
    """Columns with the same answer hold values that Python may find equal."""
    kind = column.avro()
    if kind in ("int", "long", "float", "double"):
        return "number"
    if isinstance(kind, str):
        return kind
    logical = str(kind.get("logicalType", kind.get("lyrebird.type", kind["type"])))
    return {"decimal": "number", "uuid": "string"}.get(logical, logical.removeprefix("local-"))


def _fields(fields: DocumentFields, columns: Mapping[str, Column], table: str, path: str) -> list[dict[str, Any]]:
    out = []
    for name, shape in fields.items():
        if isinstance(shape, str):
            out.append(_nullable(name, _type(_column(columns, table, shape))))
        else:
            inner = _fields(dict(shape), columns, table, f"{path}_{name}")
            out.append(_nullable(name, {"type": "record", "name": _record(f"{path}_{name}"), "fields": inner}))
    return out


def _lookup(name: str, lookup: Lookup, columns_of: ColumnsOf, path: str) -> dict[str, Any]:
    columns = columns_of(lookup.table)
    if lookup.value is not None:
        kind = _type(_column(columns, lookup.table, lookup.value))
    else:
        inner = _fields(lookup.fields, columns, lookup.table, f"{path}_{name}")
        inner += [_lookup(below, each, columns_of, f"{path}_{name}") for below, each in lookup.lookups.items()]
        kind = {"type": "record", "name": _record(f"{path}_{name}"), "fields": inner}
    if lookup.many:
        return {"name": avro_name(name), "type": {"type": "array", "items": kind}, "default": []}
    return _nullable(name, kind)


def _nullable(name: str, kind: dict[str, Any] | str) -> dict[str, Any]:
    return {"name": avro_name(name), "type": ["null", kind], "default": None}


def _type(column: Column) -> dict[str, Any] | str:
    if column.type == "datetime":
        return {"type": "long", "logicalType": "timestamp-micros"}
    return column.avro()


def _column(columns: Mapping[str, Column], table: str, name: str) -> Column:
    if name not in columns:
        raise Terminal(
            "a declared column is not in the table",
            table=table,
            column=name,
            fix="Mend the entry in `documents`, or bring the column back.",
        )
    return columns[name]


def _record(path: str) -> str:
    """Name of a nested record: unique in the schema, as it is made of the whole path."""
    return "".join(part.capitalize() for part in avro_name(path).split("_"))


def _namespace(topic: str) -> str:
    return "document." + ".".join(avro_name(part) for part in topic.replace("-", "_").split("."))
