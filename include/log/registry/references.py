"""JSON Schemas that refer to those of other subjects, made whole: these stand below `$defs`.

Avro's are made whole by `record.references`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urljoin

__all__ = ["whole_json_schema"]

Schemas = Mapping[str, Any]
"""Referenced schemas by the name that they are referred to by, those that they refer to among them."""

_DEFS: Final = "$defs"


def whole_json_schema(schema: Mapping[str, Any], others: Schemas) -> dict[str, Any]:
    """`schema` with all of `others` below `$defs`, and references to them that lead there."""
    whole: dict[str, Any] = _pointed(schema, str(schema.get("$id", "")), "", others)
    added = {
        name: _pointed(other, str(other.get("$id", "")) if isinstance(other, Mapping) else "", _place(name), others)
        for name, other in others.items()
    }
    return whole | {_DEFS: {**whole.get(_DEFS, {}), **added}}


def _pointed(schema: Any, base: str, at: str, others: Schemas) -> Any:
    """A schema that stands at the pointer `at`, with its references as the whole document needs them."""
    if isinstance(schema, list):
        return [_pointed(item, base, at, others) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    out = {key: _pointed(value, base, at, others) for key, value in schema.items()}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        document, _, pointer = reference.partition("#")
        name = next((each for each in (document, urljoin(base, document)) if each in others), None)
        if not document:
            out["$ref"] = f"#{at}{pointer}"
        elif name is not None:
            out["$ref"] = f"#{_place(name)}{pointer}"
    return out


def _place(name: str) -> str:
    return f"/{_DEFS}/" + name.replace("~", "~0").replace("/", "~1")
