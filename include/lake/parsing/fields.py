"""Paths into a message, and readers of the values at them.

A path is written with dots (`payload.created_at`) or as a list (`[payload, created.at, 3]`); numbers are indexes of
lists, keys of MessagePack maps, columns, or the ids of Thrift's fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BeforeValidator, Field

from include.errors import InvalidRecord

__all__ = ["FieldPath", "Instant", "PathField", "ReadFields", "WantedValue", "invalid", "plan", "shown"]

FieldPath = tuple[str | int, ...]
ReadFields = Callable[[bytes], Sequence[Any]]
"""The values at the wanted paths, in their order, None where there is none; `InvalidRecord` for malformed bytes."""

_MOST_SHOWN: Final = 80


class WantedValue(NamedTuple):
    """One value that a parser needs of each message."""

    path: FieldPath
    time: bool = False
    """It is the event time, which no default may stand for."""
    instant: bool = False
    """It says its unit itself, where the format's schema can."""


class Instant(NamedTuple):
    """A point in time of formats whose values say their unit themselves, in nanoseconds since 1970 UTC."""

    ns: int


def _path(written: Any) -> Any:
    if isinstance(written, int) and not isinstance(written, bool):
        return (written,)
    if isinstance(written, str):
        return tuple(int(step) if step.isascii() and step.isdigit() else step for step in written.split("."))
    return tuple(written) if isinstance(written, list) else written


def _step(written: Any) -> Any:
    if isinstance(written, bool) or written == "":
        raise ValueError("a step of a path is a name or a number")
    return written


PathField = Annotated[
    tuple[Annotated[str | int, BeforeValidator(_step)], ...],
    BeforeValidator(_path),
    Field(min_length=1, max_length=32, description="a.b.c, or a list of names and numbers"),
]


def plan(wanted: Sequence[WantedValue]) -> dict[str | int, Any]:
    """The wanted paths as one tree: step → tree below, or the places of the values that end there.

    A leaf is a list of indexes into `wanted`. A path that ends where another goes on raises `ValueError`.
    """
    tree: dict[str | int, Any] = {}
    for index, want in enumerate(wanted):
        path = want.path
        level: Any = tree
        last = path[-1]
        for step in path[:-1]:
            level = level.setdefault(step, {}) if isinstance(level, dict) else None
        leaf = level.setdefault(last, []) if isinstance(level, dict) else None
        if not isinstance(leaf, list):
            raise ValueError(f"of {shown(path)} and another path, one ends where the other goes on")  # noqa: TRY004
        leaf.append(index)
    return tree


def shown(path: FieldPath) -> str:
    """The path as text, for errors."""
    return ".".join(map(str, path))


def invalid(message: str, reason: str, **details: Any) -> InvalidRecord:
    """A refusal; values are shown as far as one line holds them."""
    short = {name: _short(value) for name, value in details.items()}
    return InvalidRecord(message, reason=reason, **short)


def _short(value: Any) -> Any:
    if isinstance(value, int) and abs(value) < 1 << 64:
        return value
    if isinstance(value, str | bytes | bytearray | memoryview):
        part = value[:_MOST_SHOWN]
        text = part if isinstance(part, str) else bytes(part).decode("utf-8", "backslashreplace")
    else:
        # The text of a huge number would be refused by Python itself.
        text = type(value).__name__ if isinstance(value, int) else repr(value)[:_MOST_SHOWN]
    return text.encode("utf-8", "backslashreplace").decode()
