"""Dataclasses of states and outputs as plain values: which types they may have, and that values have them.

| annotation | stored as | in an output's schema |
|---|---|---|
| `bool`, `str` | itself | boolean, string |
| `int` | a number of 64 bits | long |
| `float` | a finite double | double |
| `EventTime` | µs since 1970-01-01 UTC | long, timestamp-micros |
| `Literal["a", "b"]` | the text | string |
| `Optional[X]` | null | a union with null |
| `list[X]`, `dict[str, X]` | itself | array, map |

A value has exactly its type: a tuple where a list is declared would come back as a list, so it is refused.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import re
import types
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

__all__ = ["DataclassFields", "EventTime"]

_TIME: Final = "event time"
EventTime = Annotated[int, _TIME]
"""Microseconds since 1970-01-01 UTC; outside ISO 8601."""

_Check = Callable[[Any], bool]
_WIDTH: Final = 1 << 63
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class DataclassFields:
    """The fields of a dataclass; `nested`: some are lists or dicts.

    Raises:
        TypeError: it is no dataclass, or a field has a type that the table does not have.
    """

    def __init__(self, kind: type) -> None:
        if not dataclasses.is_dataclass(kind) or not isinstance(kind, type):
            raise TypeError(f"{kind.__name__} is no dataclass")
        self.kind = kind
        hints = get_type_hints(kind, include_extras=True)
        self.hints: Mapping[str, Any] = {each.name: hints[each.name] for each in dataclasses.fields(kind)}
        self.names = tuple(self.hints)
        self._checks = tuple(_check(hint, f"{kind.__name__}.{name}") for name, hint in self.hints.items())
        self.nested = any(get_origin(_but_none(hint)[0]) in (list, dict) for hint in self.hints.values())
        read = attrgetter(*self.names) if self.names else None
        self._read: Callable[[Any], tuple[Any, ...]] = (
            (lambda _: ()) if read is None else read if len(self.names) > 1 else lambda value: (read(value),)
        )

    def values(self, value: object) -> tuple[Any, ...]:
        """The values of its fields, in order; raises `TypeError` where one has not its type."""
        field_values = self._read(value)
        for check, each, name in zip(self._checks, field_values, self.names, strict=True):
            if not check(each):
                told = repr(each)[:80]
                raise TypeError(f"{self.kind.__name__}.{name} is {told}, not {_named(self.hints[name])}")
        return field_values

    def plain(self, value: object) -> dict[str, Any]:
        """Field → value; raises as `values`."""
        return dict(zip(self.names, self.values(value), strict=True))

    def copied(self, value: object) -> dict[str, Any]:
        """The same, with lists and dicts of its own."""
        plain = self.plain(value)
        return copy.deepcopy(plain) if self.nested else plain

    def times(self) -> frozenset[str]:
        """The fields that are event times."""
        return frozenset(name for name, hint in self.hints.items() if _is_time(_but_none(hint)[0]))


def _check(hint: Any, where: str) -> _Check:
    inner, optional = _but_none(hint)
    check = _check_of(inner, where)
    return (lambda value: value is None or check(value)) if optional else check


def _check_of(hint: Any, where: str) -> _Check:
    origin = get_origin(hint)
    if _is_time(hint) or hint is int:
        return _is_int
    if hint is bool:
        return lambda value: type(value) is bool
    if hint is str:
        return _is_text
    if hint is float:
        return _is_float
    if origin is Literal and all(type(choice) is str for choice in get_args(hint)):
        allowed = frozenset(get_args(hint))
        return lambda value: type(value) is str and value in allowed
    if origin is list and len(get_args(hint)) == 1:
        item = _check(get_args(hint)[0], where)
        return lambda value: type(value) is list and all(map(item, value))
    if origin is dict and get_args(hint)[0] is str:
        value_check = _check(get_args(hint)[1], where)
        return lambda value: (
            type(value) is dict and all(_is_text(name) and value_check(its) for name, its in value.items())
        )
    raise TypeError(
        f"{where} is {_named(hint)}: bool, int, float, str, EventTime, Literal of texts, list, dict[str, …], or None"
    )


def _is_int(value: Any) -> bool:
    return type(value) is int and -_WIDTH <= value < _WIDTH


def _is_text(value: Any) -> bool:
    """Half of a surrogate pair is in no encoding."""
    return type(value) is str and (value.isascii() or _SURROGATE.search(value) is None)


def _is_float(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def _is_time(hint: Any) -> bool:
    return get_origin(hint) is Annotated and _TIME in get_args(hint)


def _but_none(hint: Any) -> tuple[Any, bool]:
    """(the type, whether None is allowed beside it)."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint, False
    some = [each for each in get_args(hint) if each is not type(None)]
    if len(some) != 1 or len(some) == len(get_args(hint)):
        return hint, False
    return some[0], True


def _named(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
