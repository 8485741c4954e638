"""Avro schemas of a file of changes (`replay`): what topics of these keys and rows would be registered with."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from include.errors import SettingsError
from include.join.config.definition import JoinFile
from include.join.config.schema import InputSchema
from include.join.replay import ReplayedChange, fields_of

__all__ = ["replay_schemas"]

_TYPES: Final = {int: "long", float: "double", str: "string", bool: "boolean"}
_NUMBERS: Final = {"long", "double"}
_ALLOWED: Final = "long (64 bits), double, string, boolean, null"
_FIX: Final = "Give what is nested fields of its own beside the others; write a longer number as a text."
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def replay_schemas(file: Path, changes: Mapping[int, ReplayedChange], join: JoinFile) -> list[InputSchema]:
    """The schemas of each input. A field of a row may be null; one of a key, where some key has it so.

    A join key that no change shows other than null has the type that another input has there, any such field else is a
    text.

    Args:
        file: where the changes stand, for errors.
        changes: by line.
        join: the inputs.

    Raises:
        SettingsError: a name or value that no such topic has, values of one field that have several types, keys of one
            input that have several sets of fields; with the line.
    """
    kinds = [_kinds(file, changes, number) for number in range(len(join.join))]
    for names in zip(*(each.join_keys for each in join.join), strict=True):
        shown = [of[name] for of, name in zip(kinds, names, strict=True) if name in of]
        for of, name in zip(kinds, names, strict=True):
            of.setdefault(name, shown[0] if shown else "string")
    return [_schema(changes, number, each.label, kinds[number]) for number, each in enumerate(join.join)]


def _schema(changes: Mapping[int, ReplayedChange], number: int, label: str, kinds: Mapping[str, str]) -> InputSchema:
    fields = fields_of(changes.values(), number)
    keys = [change.key for change in changes.values() if change.input == number]
    never_null = {name for name in fields.key if all(key[name] is not None for key in keys)}

    def record(name: str, names: Iterable[str], never_null: Collection[str] = ()) -> dict[str, Any]:
        types = {field: kinds.get(field, "string") for field in names}
        of_fields = [
            {"name": field, "type": kind}
            if field in never_null
            else {"name": field, "type": ["null", kind], "default": None}
            for field, kind in types.items()
        ]
        return {"type": "record", "name": name, "fields": of_fields}

    return InputSchema.of(record("Key", fields.key, never_null), record("Row", fields.row), topic=label)


def _kinds(file: Path, changes: Mapping[int, ReplayedChange], number: int) -> dict[str, str]:
    """Of each field of an input, in keys and rows alike, the type of its values."""
    kinds: dict[str, tuple[str, int]] = {}
    mine = {line: change for line, change in changes.items() if change.input == number}
    first = next(iter(mine.items()), None)
    for line, change in mine.items():
        if first is not None and change.key.keys() != first[1].key.keys():
            raise _refused(
                file,
                line,
                "keys of one input have the same fields",
                got=sorted(change.key),
                allowed=sorted(first[1].key),
            )
        for name, value in (*change.key.items(), *(change.value or {}).items()):
            if not _NAME.fullmatch(name):
                raise _refused(file, line, "Avro has no field of this name", field=name, allowed=_NAME.pattern)
            if value is None:
                continue
            kind = _kind(value)
            if kind is None:
                raise _refused(file, line, "no type for this value", field=name, got=value, allowed=_ALLOWED, fix=_FIX)
            before, where = kinds.setdefault(name, (kind, line))
            if before != kind:
                raise _refused(
                    file,
                    line,
                    "values of one field have one type",
                    field=name,
                    got=f"{kind} {value!r}",
                    allowed=f"{before}, as in line {where}",
                    fix="A double has a point also where it is whole: 1.0." if {kind, before} == _NUMBERS else "",
                )
    return {name: kind for name, (kind, _) in kinds.items()}


def _kind(value: Any) -> str | None:
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        return None
    return _TYPES.get(type(value))


def _refused(file: Path, line: int, message: str, **details: Any) -> SettingsError:
    return SettingsError(message, file=str(file), line=line, **details)
