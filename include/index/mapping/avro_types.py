"""Forms of Avro values, as fastavro reads and `body` writes them.

Names, namespaces and references go by the Avro specification 1.12; logical types that fastavro leaves alone count as
the type below them, as the specification asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from include.errors import Terminal
from include.index.mapping.value_types import Form, Leaf, ListOf, MapOf, RecordType, Unknown, optional

__all__ = ["avro_form"]

_PLAIN: Final[dict[str, Any]] = {
    "null": "null",
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "string": "text",
}
_LOGICAL: Final[dict[tuple[str, str], Any]] = {
    ("int", "date"): "date",
    ("int", "time-millis"): "time",
    ("long", "time-micros"): "time",
    ("long", "timestamp-millis"): "timestamp_millis",
    ("long", "timestamp-micros"): "timestamp_micros",
    ("long", "local-timestamp-millis"): "timestamp_millis",
    ("long", "local-timestamp-micros"): "timestamp_micros",
    ("string", "uuid"): "uuid",
}


def avro_form(schema: Any) -> Form:
    """The form of values of a schema, given as parsed JSON or as fastavro's parsed schema.

    Raises `Terminal` for a schema that refers to a type which it does not define.
    """
    return _Reader().form(schema, "", ())


class _Reader:
    """Remembers the schema's named types while it goes through it in order, as references may only look back."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[Any, str]] = {}

    def form(self, schema: Any, namespace: str, above: tuple[str, ...]) -> Form:
        if isinstance(schema, list):
            return optional([self.form(branch, namespace, above) for branch in schema])
        if isinstance(schema, str):
            return self._reference(schema, namespace, above)
        kind = schema["type"]
        if isinstance(kind, list | dict):
            return self.form(kind, namespace, above)
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(schema, kind, namespace, above)
        if kind == "array":
            return ListOf(self.form(schema["items"], namespace, above))
        if kind == "map":
            return MapOf(self.form(schema["values"], namespace, above))
        if kind in _PLAIN:
            return _scalar(kind, schema)
        return self._reference(kind, namespace, above)

    def _reference(self, name: str, namespace: str, above: tuple[str, ...]) -> Form:
        if name in _PLAIN:
            return Leaf(_PLAIN[name], name)
        full = next((each for each in _full_names(name, namespace) if each in self._named), None)
        if full is None:
            raise Terminal("schema refers to a type that it does not define", type=name, fix="Mend it in the registry.")
        if full in above:
            return Unknown(f"record {full} holds itself")
        schema, outer = self._named[full]
        return self._definition(schema, schema["type"], outer, above)

    def _definition(self, schema: Mapping[str, Any], kind: str, namespace: str, above: tuple[str, ...]) -> Form:
        name = schema["name"]
        outer, _, short = name.rpartition(".")
        inner = outer or schema.get("namespace", namespace)
        full = f"{inner}.{short}" if inner else short
        self._named[full] = (schema, namespace)
        if kind == "enum":
            return Leaf("enum", f"enum {short}")
        if kind == "fixed":
            return _scalar("fixed", schema)
        fields = {field["name"]: self.form(field["type"], inner, (*above, full)) for field in schema["fields"]}
        return RecordType(fields)


def _full_names(name: str, namespace: str) -> Iterator[str]:
    if "." not in name and namespace:
        yield f"{namespace}.{name}"
    yield name


def _scalar(kind: str, schema: Mapping[str, Any]) -> Leaf:
    logical = schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
        return Leaf("decimal", f"decimal({precision},{scale})", precision, scale)
    if kind == "fixed":
        return Leaf("bytes", f"fixed({schema['size']})")
    found = _LOGICAL.get((kind, str(logical)))
    return Leaf(found, str(logical)) if found else Leaf(_PLAIN[kind], kind)
