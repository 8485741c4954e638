"""Conditions on the values of a message, by which a parser filters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import Field, model_validator

from include.lake.parsing.fields import PathField
from include.settings.deployment import Strict

__all__ = ["FieldCondition", "Scalar", "holds"]

Scalar = str | int | bool | None


class FieldCondition(Strict):
    """Holds for a value that is one of `one_of`, or, with `present`, for any that is there (or none that is).

    Values are compared with their type: 1 is neither `true` nor "1". Formats of text alone give texts.
    """

    field: PathField
    one_of: tuple[Scalar, ...] | None = Field(default=None, min_length=1)
    """Values for which it holds."""
    present: bool | None = None
    """Whether it holds for a value that is there, or for one that is not."""

    @model_validator(mode="after")
    def _whole(self) -> FieldCondition:
        if (self.one_of is None) == (self.present is None):
            raise ValueError("a condition has either one_of or present")
        return self


def holds(condition: FieldCondition) -> Callable[[Any], bool]:
    """The test of the value at the condition's field, None where there is none."""
    if condition.one_of is None:
        wanted = condition.present
        return lambda value: (value is not None) is wanted
    allowed = frozenset((type(each), each) for each in condition.one_of)

    def one_of(value: Any) -> bool:
        if type(value) is bytes:
            # Regular expressions, columns, Thrift: their texts come as bytes.
            value = value.decode("utf-8", "replace")
        if value is not None and type(value) not in (str, int, bool):
            return False
        return (type(value), value) in allowed

    return one_of
