"""Finds the known names that an unknown one may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

__all__ = ["nearest"]

_SHOWN: Final = 5
_ALIKE: Final = 0.5


def nearest(got: str, known: Iterable[str]) -> list[str]:
    """The known names that `got` may have meant, nearest first: few; some of all where none is alike."""
    names = sorted(set(known))
    folded: dict[str, str] = {}
    for name in names:
        # The last part of a topic's or table's name is what people type.
        folded.setdefault(name.rpartition(".")[2].lower(), name)
    alike = difflib.get_close_matches(got, names, _SHOWN, _ALIKE)
    last = difflib.get_close_matches(got.rpartition(".")[2].lower(), list(folded), _SHOWN, _ALIKE)
    return list(dict.fromkeys([*alike, *(folded[each] for each in last)]))[:_SHOWN] or names[:_SHOWN]
