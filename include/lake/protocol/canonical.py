"""JSON with one form only: keys sorted, no spaces, whole numbers; what is read has to be what would be written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import orjson

from include.errors import Terminal

__all__ = ["VERSION", "choice", "dump", "load", "offset", "offset_or_none", "text", "unreadable", "whole"]

T = TypeVar("T")

VERSION: Final = 1
"""Of all the protocol's objects, as their field `v`."""


def dump(value: Mapping[str, Any]) -> bytes:
    """The one form of `value`, with its version."""
    return orjson.dumps({**value, "v": VERSION}, option=orjson.OPT_SORT_KEYS)


def load(body: bytes, key: str, names: frozenset[str], more: frozenset[str] = frozenset()) -> dict[str, Any]:
    """What `dump` was given; `Terminal` naming the object for other fields, another form or another version.

    `more` are fields that may be left out.
    """
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise unreadable(key, str(error)) from error
    if not isinstance(fields, dict):
        raise unreadable(key, "it is no JSON object")
    version = fields.pop("v", None)
    if version != VERSION:
        raise unreadable(key, f"version {version!r}, this release reads {VERSION}")
    if fields.keys() - more != names:
        raise unreadable(key, f"fields {sorted((fields.keys() - more) ^ names)} too few or too many")
    if dump(fields) != body:
        raise unreadable(key, "it is not in canonical form")
    return fields


def choice(value: Any, allowed: Iterable[T]) -> T:
    """The one of `allowed` that `value` is; ValueError otherwise."""
    for each in allowed:
        if each == value:
            return each
    raise ValueError(f"{value!r} is none of {list(allowed)}")


def whole(value: Any) -> int:
    """A whole number; ValueError otherwise, for a truth value too."""
    if type(value) is not int:
        raise ValueError(f"{value!r} is no whole number")
    return value


def offset(value: Any) -> int:
    """A whole number from 0 on; ValueError otherwise."""
    if whole(value) < 0:
        raise ValueError(f"{value!r} is below 0")
    return int(value)


def offset_or_none(value: Any) -> int | None:
    """A whole number from 0 on, or None; ValueError otherwise."""
    return None if value is None else offset(value)


def text(value: Any) -> str:
    """A text; ValueError otherwise."""
    if type(value) is not str:
        raise ValueError(f"{value!r} is no text")
    return value


def unreadable(key: str, reason: str) -> Terminal:
    """The error for an object of the protocol that cannot be understood."""
    return Terminal(
        "an object of the chain cannot be read",
        key=key,
        reason=reason,
        fix="Run `lyrebird audit chain`; a newer version needs the newer release.",
    )
