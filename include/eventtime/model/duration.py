"""Durations as people write them, `30m` or `1h30m`, and as processes compute with them: microseconds."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import BeforeValidator

__all__ = ["Duration", "duration_us"]

_UNITS: Final = {"d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}
_PART: Final = re.compile(r"(\d+)(d|h|ms|m|s|us)")


def duration_us(text: str) -> int:
    """`90s`, `1m30s` → 90,000,000; raises `ValueError` for what is no duration."""
    if not re.fullmatch(rf"(?:{_PART.pattern})+", text):
        raise ValueError(f"{text!r} is no duration: a number and one of {', '.join(_UNITS)}, such as 30m or 1h30m")
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def _read(value: Any) -> int:
    # A number alone would be one of whatever unit its reader has in mind.
    return duration_us(str(value))


Duration = Annotated[int, BeforeValidator(_read)]
"""A field of a process's settings: given as `30m`, held as microseconds."""
