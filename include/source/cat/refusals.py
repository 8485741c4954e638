"""Tells once for each cause what a reader of binlog files could not read, and counts the rest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from include.errors import Terminal

__all__ = ["Refusals"]

_CAUSE: Final = ("table", "column", "database")
# Advice to who runs a capture is none to who reads files.
_ELSEWHERE: Final = re.compile(r"capture|--snapshot|`tables`|binlog_format|Nothing was skipped")


class Refusals:
    """`tell` gets the first of each cause: message, table and column; what names no table is told each time."""

    def __init__(self, tell: Callable[[Terminal], None]) -> None:
        self._tell = tell
        self._counted: Counter[tuple[Any, ...]] = Counter()

    def __bool__(self) -> bool:
        """Whether anything was refused."""
        return bool(self._counted)

    def note(self, error: Terminal, fix: str = "", **place: Any) -> None:
        """Take in a refusal; `place` is what the error itself could not say of where it was."""
        cause = tuple(str(error.details.get(name, "")) for name in _CAUSE)
        if not any(cause):
            cause = (*cause, str(error), str(place))
        key = (error.message, *cause)
        self._counted[key] += 1
        if self._counted[key] == 1:
            advice = fix or ("" if _ELSEWHERE.search(error.fix) else error.fix)
            self._tell(Terminal(error.message, fix=advice, **{**place, **error.details}))

    @property
    def more(self) -> int:
        """Number of refusals that came after the first of their cause."""
        return self._counted.total() - len(self._counted)
