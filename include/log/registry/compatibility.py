"""Checks whether a new Avro schema reads what an old one wrote: schema resolution of the Avro specification.

https://avro.apache.org/docs/1.12.0/specification/#schema-resolution
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["unreadable"]

_PROMOTIONS: Final = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
NamedTypes = dict[str, Mapping[str, Any]]


def unreadable(reader: Any, writer: Any) -> str:
    """The reason why data of `writer` cannot be read as `reader`; empty when all of it can."""
    return _Check().compare(reader, writer, "")


class _Check:
    def __init__(self) -> None:
        self._reader: NamedTypes = {}
        self._writer: NamedTypes = {}
        self._seen: set[tuple[str, str]] = set()

    def compare(self, reader: Any, writer: Any, at: str) -> str:
        reader, writer = _resolve(reader, self._reader), _resolve(writer, self._writer)
        if isinstance(writer, list):
            problems = [self.compare(reader, branch, at) for branch in writer]
            return next((p for p in problems if p), "")
        if isinstance(reader, list):
            return "" if any(not self.compare(branch, writer, at) for branch in reader) else _no(reader, writer, at)
        r, w = _kind(reader), _kind(writer)
        if r != w:
            return "" if r in _PROMOTIONS.get(w, ()) else _no(reader, writer, at)
        if r == "record":
            return self._records(reader, writer, at)
        if r == "array":
            return self.compare(reader["items"], writer["items"], f"{at}[]")
        if r == "map":
            return self.compare(reader["values"], writer["values"], f"{at}{{}}")
        if r == "enum":
            lost = set(writer["symbols"]) - set(reader["symbols"])
            return f"{at or '/'}: symbols {sorted(lost)} are gone" if lost and "default" not in reader else ""
        same = all(reader.get(name) == writer.get(name) for name in ("size",)) if r == "fixed" else True
        same = same and _decimal(reader) == _decimal(writer)
        return "" if same else _no(reader, writer, at)

    def _records(self, reader: Mapping[str, Any], writer: Mapping[str, Any], at: str) -> str:
        pair = (reader["name"], writer["name"])
        if pair in self._seen:
            return ""
        self._seen.add(pair)
        if reader["name"].rpartition(".")[2] != writer["name"].rpartition(".")[2]:
            return _no(reader, writer, at)
        written = {f["name"]: f for f in writer["fields"]}
        for name in written:
            # Names defined in a field that the reader lacks may be used further on.
            _resolve(written[name]["type"], self._writer)
        for wanted in reader["fields"]:
            field_path = f"{at}/{wanted['name']}"
            names = (wanted["name"], *wanted.get("aliases", ()))
            field = next((written[name] for name in names if name in written), None)
            if field is None:
                if "default" not in wanted:
                    return f"{field_path}: new field without a default"
                continue
            problem = self.compare(wanted["type"], field["type"], field_path)
            if problem:
                return problem
        return ""


def _resolve(schema: Any, names: NamedTypes) -> Any:
    if isinstance(schema, list):
        return [_resolve(branch, names) for branch in schema]
    if isinstance(schema, str):
        return names.get(schema, names.get(schema.rpartition(".")[2], {"type": schema}))
    if schema.get("type") in ("record", "enum", "fixed", "error"):
        names[schema["name"].rpartition(".")[2]] = schema
        return schema
    if isinstance(schema.get("type"), (dict, list)):
        return _resolve(schema["type"], names)
    return schema


def _kind(schema: Any) -> str:
    return str(schema["type"])


def _decimal(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    return (schema.get("precision"), schema.get("scale", 0)) if schema.get("logicalType") == "decimal" else ()


def _no(reader: Any, writer: Any, at: str) -> str:
    return f"{at or '/'}: {_show(reader)} does not read {_show(writer)}"


def _show(schema: Any) -> str:
    if isinstance(schema, list):
        return "[" + ", ".join(map(_show, schema)) + "]"
    return str(schema.get("name") or schema["type"])
