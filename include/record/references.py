"""Avro schemas that name types defined elsewhere, made whole: a reader needs nothing else then.

A type stands where it is used first, as readers go through a schema in that order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["whole_avro"]

Schemas = Mapping[str, Any]
"""Referenced schemas by the name that they are referred to by, those that they refer to among them."""

_NAMED: Final = ("record", "error", "enum", "fixed")


def whole_avro(schema: Any, others: Schemas) -> Any:
    """`schema` with every type of `others` that it uses, by full names; a name that nobody knows is left as it is."""
    return _Avro(others).whole(schema, "")


class _Avro:
    def __init__(self, others: Schemas) -> None:
        self._others = others
        self._defined: dict[str, Any] = {}

    def whole(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, str):
            return self._name(schema, namespace)
        if isinstance(schema, list):
            return [self.whole(branch, namespace) for branch in schema]
        if not isinstance(schema, Mapping):
            return schema
        out = dict(schema)
        if schema.get("type") in _NAMED:
            full = _full(str(schema.get("name", "")), str(schema.get("namespace") or namespace))
            # The full name says what `namespace` says.
            definition = {name: each for name, each in schema.items() if name not in ("name", "namespace")}
            if self._defined.get(full) == definition:
                # It came with another type, or by its name, before.
                return full
            self._defined[full] = definition
            namespace = full.rpartition(".")[0]
        elif "type" in schema:
            out["type"] = self.whole(schema["type"], namespace)
        for part in ("items", "values"):
            if part in schema:
                out[part] = self.whole(schema[part], namespace)
        if isinstance(schema.get("fields"), list):
            out["fields"] = [
                {**field, "type": self.whole(field["type"], namespace)} if "type" in field else field
                for field in schema["fields"]
            ]
        return out

    def _name(self, name: str, namespace: str) -> Any:
        for full in (_full(name, namespace), name):
            if full in self._defined:
                return name
            if full in self._others:
                other = self._others[full]
                # Without a namespace of its own it would take that of the place where it stands now.
                if isinstance(other, Mapping) and "." not in str(other.get("name", "")):
                    other = {**other, "namespace": other.get("namespace") or ""}
                return self.whole(other, "")
        return name


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
