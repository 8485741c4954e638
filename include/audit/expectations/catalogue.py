"""Lists the known expectations and their arguments without loading Great Expectations.

`catalogue.json` is what `great.installed()` says of the pinned version, as a test makes sure: name -> argument (with
`!` when it is required) -> JSON types, or `=` and a choice.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["FILE", "Argument", "known"]

FILE: Final = Path(__file__).with_name("catalogue.json")
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}


@dataclass(frozen=True)
class Argument:
    """One argument of an expectation; `kinds` as in the file."""

    kinds: tuple[str, ...]
    required: bool

    def takes(self, value: Any) -> bool:
        """Whether `value`, as YAML gives it, is of one of its kinds."""
        return any(_is(kind, value) for kind in self.kinds)


@functools.cache
def known() -> Mapping[str, Mapping[str, Argument]]:
    """Expectations that run on Spark, by name, with their arguments by name."""
    found: dict[str, dict[str, list[str]]] = json.loads(FILE.read_text(encoding="utf-8"))
    return {
        name: {of.rstrip("!"): Argument(tuple(kinds), of.endswith("!")) for of, kinds in arguments.items()}
        for name, arguments in found.items()
    }


def _is(kind: str, value: Any) -> bool:
    if kind.startswith("="):
        return bool(value == kind[1:])
    # True is an integer to Python, and to nobody else.
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
