"""Forms of values by their JSON Schema (drafts 4 to 2020-12, as registries keep them).

Of the language it takes what says what a value is: `type`, `properties`, `additionalProperties`, `items`, `enum`,
`const`, `format`, `oneOf`, `anyOf`, `$ref` within the document. What only narrows values is passed over, as are
branches that do nothing else (`oneOf: [{required: [a]}, {required: [b]}]`). Objects are open unless they say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from include.errors import Terminal
from include.index.mapping.value_types import Form, Leaf, ListOf, MapOf, RecordType, Unknown, optional

__all__ = ["json_schema_form"]

_FORMATS: Final[dict[str, Any]] = {"date": "date", "date-time": "timestamp", "uuid": "uuid"}
_SAYING: Final = frozenset(
    {
        "$ref",
        "type",
        "properties",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "format",
        "oneOf",
        "anyOf",
        "allOf",
    }
)
_SCALARS: Final[dict[str, Any]] = {"null": "null", "boolean": "boolean", "integer": "long", "number": "double"}


def json_schema_form(schema: Mapping[str, Any]) -> Form:
    """The form of values of a schema; raises `Terminal` for a `$ref` that leads nowhere."""
    return _form(schema, schema, ())


def _form(schema: Any, root: Mapping[str, Any], above: tuple[str, ...]) -> Form:  # noqa: C901 - a branch per keyword
    if not isinstance(schema, Mapping):
        return Unknown("anything is allowed")
    if "$ref" in schema:
        reference = str(schema["$ref"])
        if reference in above:
            return Unknown(f"{reference} holds itself")
        return _form(_resolve(reference, root), root, (*above, reference))
    for word in ("oneOf", "anyOf"):
        if word in schema:
            return _branches(schema, word, root, above)
    if len(schema.get("allOf", ())) == 1:
        return _form({**schema, **schema["allOf"][0], "allOf": ()}, root, above)
    if schema.get("allOf"):
        return Unknown("allOf of several schemas")
    kind = schema.get("type")
    if isinstance(kind, list):
        return optional(_form({**schema, "type": each}, root, above) for each in kind)
    if "enum" in schema or "const" in schema:
        return _of_values(schema.get("enum", [schema.get("const")]))
    if kind in _SCALARS:
        return Leaf(_SCALARS[kind], kind)
    if kind == "string":
        format_ = str(schema.get("format", ""))
        return Leaf(_FORMATS.get(format_, "text"), format_ if format_ in _FORMATS else "string")
    if kind == "array":
        return ListOf(_form(schema["items"], root, above)) if "items" in schema else Unknown("a list of anything")
    if kind == "object" or "properties" in schema:
        return _object(schema, root, above)
    return Unknown("anything is allowed")


def _branches(schema: Mapping[str, Any], word: str, root: Mapping[str, Any], above: tuple[str, ...]) -> Form:
    """What stands beside the branches holds for each of them."""
    rest = {name: value for name, value in schema.items() if name != word}
    if all(isinstance(branch, Mapping) and not _SAYING & branch.keys() for branch in schema[word]):
        return _form(rest, root, above)
    if not _SAYING & rest.keys():
        return optional(_form(branch, root, above) for branch in schema[word])
    return optional(_both(rest, branch, root, above) for branch in schema[word])


def _both(one: Mapping[str, Any], other: Any, root: Mapping[str, Any], above: tuple[str, ...]) -> Form:
    """The form of a value for which two schemas hold."""
    while isinstance(other, Mapping) and "$ref" in other:
        reference = str(other["$ref"])
        if reference in above:
            return Unknown(f"{reference} holds itself")
        above, other = (*above, reference), _resolve(reference, root)
    if not isinstance(other, Mapping):
        return _form(one, root, above)
    properties = {**one.get("properties", {}), **other.get("properties", {})}
    return _form({**one, **other, **({"properties": properties} if properties else {})}, root, above)


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], above: tuple[str, ...]) -> Form:
    more = schema.get("additionalProperties")
    if schema.get("properties"):
        fields = {name: _form(each, root, above) for name, each in schema["properties"].items()}
        return RecordType(fields, more is not False or bool(schema.get("patternProperties")))
    if isinstance(more, Mapping):
        return MapOf(_form(more, root, above))
    return RecordType({}) if more is False else Unknown("an object of anything")


def _of_values(values: list[Any]) -> Form:
    leaves: list[Form] = []
    for value in values:
        if value is None:
            leaves.append(Leaf("null", "null"))
        elif isinstance(value, bool):
            leaves.append(Leaf("boolean", "boolean"))
        elif isinstance(value, int | float):
            leaves.append(Leaf("long", "integer") if isinstance(value, int) else Leaf("double", "number"))
        elif isinstance(value, str):
            leaves.append(Leaf("enum", "enum"))
        else:
            return Unknown("an enum of lists or objects")
    return optional(leaves)


def _resolve(reference: str, root: Mapping[str, Any]) -> Any:
    part: Any = root
    if reference == "#":
        return root
    for step in reference.removeprefix("#/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        part = part.get(name) if isinstance(part, Mapping) and reference.startswith("#/") else None
    if part is None:
        raise Terminal(
            "schema refers to a part that it does not have",
            reference=reference,
            fix="Put the referenced schema into the same document, below `$defs`.",
        )
    return part
