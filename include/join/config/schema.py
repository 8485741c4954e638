"""Avro schemas: what inputs' schemas say of their rows, and the output's key and value that follow from them.

Each field of an output but its key's is nullable with default null, so that an input may gain and lose columns and
readers of older records keep working (compatibility BACKWARD). Types are taken over as they are; named types get names
of their own, as two inputs may mean different things by one name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastavro.schema import expand_schema

from include.errors import InvalidRecord, Terminal
from include.join.config.definition import JoinFile
from include.join.config.fields import FieldPlan, InputFields
from include.record.codec import DatumReader
from include.record.schema import avro_name
from include.settings.deployment import Deployment

__all__ = ["InputSchema", "OutputSchemas", "bare", "check_join_keys", "output_schemas"]

_NAMED: Final = ("record", "error", "enum", "fixed")
_INTEGERS: Final = ("int", "long")
_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


@dataclass(frozen=True)
class InputSchema:
    """The newest schemas of an input, all named types written out.

    `change`: values are change envelopes, whose image is the row.
    """

    key: Mapping[str, Any]
    row: Mapping[str, Any]
    change: bool

    @classmethod
    def of(cls, key: Mapping[str, Any], value: Mapping[str, Any], *, topic: str) -> InputSchema:
        """Read them; raises `Terminal` for what is no record with fields, or beyond the bounds of `record.extent`."""
        for what, schema in (("key", key), ("value", value)):
            if schema.get("type") != "record":
                raise Terminal(
                    f"a join reads records of fields, and this {what} is none", topic=topic, type=schema.get("type")
                )
            try:
                # Names are written out below, which a bounded schema alone survives.
                DatumReader(dict(schema))
            except InvalidRecord as error:
                raise Terminal(
                    f"a join cannot read this {what}: {error.message}", topic=topic, **error.details
                ) from error
        key_schema: Any = expand_schema(dict(key))
        value_schema: Any = expand_schema(dict(value))
        image = _image(value_schema)
        return cls(key_schema, value_schema if image is None else image, image is not None)

    @property
    def fields(self) -> InputFields:
        """The fields' names."""
        return InputFields(*(tuple(field["name"] for field in schema["fields"]) for schema in (self.key, self.row)))

    def holds(self, fields: Iterable[str]) -> bool:
        """Whether the key has these fields, never as null: then a row never changes them."""
        of_key = {field["name"]: field["type"] for field in self.key["fields"]}
        return all(not isinstance(of_key.get(field, []), list) for field in fields)

    def type_of(self, field: str) -> Any:
        """The field's type; the key's where the row has no such field. Raises `KeyError` where neither has."""
        fields = {each["name"]: each["type"] for schema in (self.key, self.row) for each in schema["fields"]}
        return fields[field]


@dataclass(frozen=True)
class OutputSchemas:
    """As they are registered."""

    key: dict[str, Any]
    value: dict[str, Any]


def output_schemas(join: JoinFile, plan: FieldPlan, inputs: Sequence[InputSchema]) -> OutputSchemas:
    """The output's schemas.

    A field of the key is nullable where its input is optional or the row's own may be null; those of the key are not
    nullable in the value either, unless they are in the key.
    """
    namespace = ".".join(avro_name(part) for part in (join.output.namespace, join.output.source))
    named = [f"{namespace}.input{number}" for number in range(len(inputs))]
    defined: set[str] = set()
    key_fields = []
    never_null = set()
    for planned in plan.key:
        kind = _renamed(inputs[planned.input].type_of(planned.field), named[planned.input], set())
        nullable = join.join[planned.input].type == "left" or _may_be_null(
            join, plan, inputs, planned.input, planned.field
        )
        if not nullable:
            never_null.add((planned.input, planned.field))
        key_fields.append({"name": planned.name, "type": _nullable(bare(kind)) if nullable else bare(kind)})
    value_fields: list[dict[str, Any]] = []
    for number, shown in enumerate(plan.values):
        for field, name in shown:
            kind = bare(_renamed(inputs[number].type_of(field), named[number], defined))
            if (number, field) in never_null:
                value_fields.append({"name": name, "type": kind})
            else:
                value_fields.append({"name": name, "type": _nullable(kind), "default": None})
    value: dict[str, Any] = {"type": "record", "name": "Value", "namespace": namespace, "fields": value_fields}
    if join.output.doc:
        value["doc"] = join.output.doc
    return OutputSchemas({"type": "record", "name": "Key", "namespace": namespace, "fields": key_fields}, value)


def check_join_keys(places: Deployment, join: JoinFile, inputs: Sequence[InputSchema]) -> None:
    """Raise `SettingsError` for join keys whose values, as they are encoded, would never be equal."""
    for at, first in enumerate(join.join[0].join_keys):
        wanted = _compared_as(bare(inputs[0].type_of(first)))
        for number, (definition, schema) in enumerate(zip(join.join, inputs, strict=True)):
            where = ("join", number, "join_keys", at)
            field = definition.join_keys[at]
            kind = _compared_as(bare(schema.type_of(field)))
            if kind is None:
                raise places.error(
                    where,
                    "a field of this type joins nothing",
                    field=field,
                    type=bare(schema.type_of(field)),
                    allowed="whole numbers, decimals, dates and times, texts, bytes, booleans",
                )
            if kind != wanted:
                raise places.error(
                    where,
                    "join keys are of different types, so they are never equal",
                    input=definition.label,
                    field=field,
                    type=kind,
                    other=f"{join.join[0].label}.{first}",
                    other_type=wanted,
                    fix="Join columns of one type, or convert one of them where it is written.",
                )


def _may_be_null(join: JoinFile, plan: FieldPlan, inputs: Sequence[InputSchema], number: int, field: str) -> bool:
    definition = join.join[number]
    if field in inputs[number].fields.key:
        of_key = next(each["type"] for each in inputs[number].key["fields"] if each["name"] == field)
        return isinstance(of_key, list)
    if field in definition.join_keys:
        # Only rows that stand alone have a null join key.
        return all(each.type == "left" for each in join.join[1:])
    return isinstance(inputs[number].type_of(field), list)


def _image(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The row's record in a change envelope; None for a record that is no envelope."""
    fields = {field["name"]: field["type"] for field in value["fields"]}
    if not fields.keys() >= {"before", "after", "source", "op"}:
        return None
    after = bare(fields["after"])
    return after if isinstance(after, dict) and after.get("type") == "record" else None


def bare(kind: Any) -> Any:
    """The type without null."""
    if isinstance(kind, list):
        branches = [branch for branch in kind if branch not in ("null", {"type": "null"})]
        return branches[0] if len(branches) == 1 else branches
    return kind


def _nullable(kind: Any) -> list[Any]:
    return ["null", *(kind if isinstance(kind, list) else [kind])]


def _renamed(kind: Any, prefix: str, defined: set[str]) -> Any:
    """The type with its named types called `<prefix>.<name>`: defined where they come first, then referred to."""
    if isinstance(kind, list):
        return [_renamed(branch, prefix, defined) for branch in kind]
    if isinstance(kind, str):
        return kind if kind in _PRIMITIVES else f"{prefix}.{kind.replace('.', '_')}"
    if kind["type"] not in _NAMED:
        inner = {name: _renamed(kind[name], prefix, defined) for name in ("items", "values") if name in kind}
        return {**kind, **inner}
    full = f"{prefix}.{kind['name'].replace('.', '_')}"
    if full in defined:
        return full
    defined.add(full)
    renamed = {**kind, "name": full}
    renamed.pop("namespace", None)
    if "fields" in kind:
        renamed["fields"] = [{**each, "type": _renamed(each["type"], prefix, defined)} for each in kind["fields"]]
    return {name: value for name, value in renamed.items() if not name.startswith("__")}


def _compared_as(kind: Any) -> str | None:
    """Types with the same answer have equal bytes for equal values; None where bytes do not tell."""
    if isinstance(kind, dict):
        logical, base = kind.get("logicalType"), kind["type"]
        if base == "bytes" and logical == "decimal":
            return f"decimal of scale {kind.get('scale', 0)}"
        if base in _INTEGERS and logical is not None:
            return str(logical)
        if base == "enum":
            return f"enum of {', '.join(kind['symbols'])}"
        if base == "fixed":
            return f"fixed of {kind['size']} bytes, {logical or 'plain'}"
        kind = base
    if kind in _INTEGERS:
        return "whole number"
    return kind if kind in ("string", "bytes", "boolean") else None
