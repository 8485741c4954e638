"""Fields' bytes from one Avro type into another: copied where the types agree, converted where they do not.

The bytes of a value say nothing of names, so a field of an input's record is a field of an output's as it is, but for
the number of its branch where it may be null. Whole numbers of either width have the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import fastavro

from include.errors import InvalidRecord
from include.record.codec import DatumReader

__all__ = ["AS_IS", "FieldPiece", "piece_of", "same_bytes"]


@dataclass(frozen=True)
class FieldPiece:
    """A field's bytes as a record of the output has them; raises `InvalidRecord` for one that has no place there.

    Args:
        branches: of each branch of the writer's type what stands before its bytes, or what converts them.
        union: the field begins with the number of its branch.
    """

    branches: tuple[bytes | Callable[[bytes], bytes], ...]
    union: bool = False

    def __call__(self, data: bytes) -> bytes:
        """From the writer's bytes."""
        branch = self.branches[data[0] >> 1 if self.union else 0]
        data = data[1:] if self.union else data
        return branch + data if isinstance(branch, bytes) else branch(data)


AS_IS = FieldPiece((b"",))
"""The piece that changes nothing, so that neighbours of its kind are copied at once."""

_NULL = "null"


def piece_of(written: Any, shown: Any) -> FieldPiece:
    """From the type that a writer used to the type of the output; both with all names written out.

    Values whose bytes are the same in both are copied. Others go by Avro's resolution of schemas.
    """
    from_union, to_union = isinstance(written, list), isinstance(shown, list)
    sources = written if from_union else [written]
    targets = shown if to_union else [shown]
    branches: list[bytes | Callable[[bytes], bytes]] = []
    identical = from_union == to_union
    for number, source in enumerate(sources):
        target = next((at for at, each in enumerate(targets) if same_bytes(source, each)), None)
        if target is None:
            branches.append(_converted(source, shown))
            identical = False
        else:
            identical = identical and (not to_union or target == number)
            branches.append(bytes((2 * target,)) if to_union else b"")
    return AS_IS if identical else FieldPiece(tuple(branches), from_union)


def same_bytes(one: Any, other: Any) -> bool:
    """Whether each value has the same bytes in both types."""
    return bool(_form(one) == _form(other))


def _form(kind: Any) -> Any:
    """What decides of the bytes and their meaning: logical types do; names, documentation and defaults do not."""
    if isinstance(kind, list):
        return [_form(branch) for branch in kind]
    if isinstance(kind, str):
        return "long" if kind == "int" else kind
    base = kind["type"]
    if isinstance(base, list | dict):
        return _form(base)
    logical = tuple((name, kind[name]) for name in ("logicalType", "scale", "lyrebird.type") if name in kind)
    if base in ("record", "error"):
        return ("record", tuple((field["name"], _frozen(_form(field["type"]))) for field in kind["fields"]))
    if base == "enum":
        return ("enum", tuple(kind["symbols"]))
    if base == "fixed":
        return ("fixed", kind["size"], logical)
    if base in ("array", "map"):
        return (base, _frozen(_form(kind["items" if base == "array" else "values"])))
    return (_form(base), logical) if logical else _form(base)


def _frozen(form: Any) -> Any:
    return tuple(_frozen(each) for each in form) if isinstance(form, list) else form


def _converted(source: Any, shown: Any) -> Callable[[bytes], bytes]:
    """By Avro's resolution, for types that need more than a copy: rare, so slow will do."""
    if source == _NULL:

        def refused(data: bytes) -> bytes:
            raise InvalidRecord("a field is null that the output's key needs", reason="null")

        return refused
    writes = fastavro.parse_schema(_record(_like(shown, source)))
    read = DatumReader(_record(source), writes)

    def converted(data: bytes) -> bytes:
        try:
            value = read(data)
        except InvalidRecord as error:
            reason = f"a value of {_name(source)} is none of {_name(shown)}"
            raise InvalidRecord("a field cannot be shown in the output's type", reason=reason) from error
        out = io.BytesIO()
        fastavro.schemaless_writer(out, writes, value)
        return out.getvalue()

    return converted


def _record(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "lyrebird_join_field", "fields": [{"name": "value", "type": kind}]}


def _like(shown: Any, source: Any) -> Any:
    """The output's type with the writer's names, as resolution goes by them."""
    if isinstance(shown, list):
        return [_like(branch, source) for branch in shown]
    if isinstance(shown, Mapping) and isinstance(source, Mapping) and "name" in shown and "name" in source:
        return {**shown, "name": source["name"]}
    return shown


def _name(kind: Any) -> str:
    if isinstance(kind, list):
        return " or ".join(_name(branch) for branch in kind)
    return str(kind.get("logicalType") or kind.get("name") or kind["type"]) if isinstance(kind, Mapping) else str(kind)
