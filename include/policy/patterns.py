"""Names of tables in deployment files: `table` or `database.table`; `*` stands for any characters, `?` for one.

A bare `table` is meant in every captured database. `*` never reaches over the dot. A name that has a dot, a star or
a question mark in it is written with `?` in that place.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["TablePattern", "covers"]

_ANY_OTHER: Final = "\0"
"""A character that no pattern has: stands for all that none of them names."""
_MOST_STATES: Final = 1_000


@dataclass(frozen=True)
class TablePattern:
    """One name or pattern, as it stands in the file (`text`); `database` is `*` for a bare one."""

    text: str
    database: str
    table: str

    @classmethod
    def parse(cls, text: str) -> TablePattern:
        """Raises `ValueError` for what is neither `table` nor `database.table`."""
        parts = text.split(".")
        if len(parts) > 2 or not all(parts) or any(part != part.strip() or _ANY_OTHER in part for part in parts):
            raise ValueError("not a table's name")
        return cls(text, parts[0] if len(parts) == 2 else "*", parts[-1])

    @property
    def exact(self) -> bool:
        """No wildcard stands in the text."""
        return not _wild(self.text)

    @property
    def rank(self) -> int:
        """Who is asked first: 0 `database.table`, 1 `table`, 2 all with a wildcard."""
        return 2 if not self.exact else 0 if "." in self.text else 1

    def matches_database(self, database: str) -> bool:
        """Whether tables of the database may be meant."""
        return _matches(self.database, database)

    def matches(self, database: str, table: str) -> bool:
        """Whether the table is meant. Letters' case counts."""
        return _matches(self.database, database) and _matches(self.table, table)


def covers(patterns: Sequence[str], pattern: str) -> bool:
    """Whether each name that `pattern` matches is matched by one of `patterns` (all of them parts without a dot).

    Exact, but for patterns so many-sided that it takes more than 1,000 states to tell: of those it says no.
    """
    # A name that no other pattern has heard of settles nearly all questions.
    for filling in ("", _ANY_OTHER, _ANY_OTHER * 9):
        name = pattern.replace("*", filling).replace("?", _ANY_OTHER)
        if name and not any(_matches(each, name) for each in patterns):
            return False
    return any(_within((each,), pattern) for each in patterns) or _within(patterns, pattern)


def _within(patterns: Sequence[str], pattern: str) -> bool:
    """Walks the automata of all patterns side by side, to all that they can come to."""
    all_ = (pattern, *patterns)
    letters = {c for part in all_ for c in part if c not in "*?"} | {_ANY_OTHER}
    start = tuple(_reached(part, {0}) for part in all_)
    seen: set[tuple[frozenset[int], ...]] = set()
    open_ = [start]
    while open_:
        at = open_.pop()
        for letter in letters:
            after = tuple(_step(part, states, letter) for part, states in zip(all_, at, strict=True))
            if not after[0] or after in seen:
                continue
            ends = [len(part) in states for part, states in zip(all_, after, strict=True)]
            if (ends[0] and not any(ends[1:])) or len(seen) >= _MOST_STATES:
                return False
            seen.add(after)
            open_.append(after)
    return True


def _wild(text: str) -> bool:
    return "*" in text or "?" in text


def _matches(pattern: str, name: str) -> bool:
    return _compiled(pattern).match(name) is not None if _wild(pattern) else pattern == name


@functools.lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    # A bracket is a letter here.
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


def _reached(pattern: str, states: set[int]) -> frozenset[int]:
    """`states` (characters of the pattern that are used up), and all that a star may stand for nothing to get to."""
    reached = set(states)
    for state in sorted(states):
        at = state
        while at < len(pattern) and pattern[at] == "*":
            at += 1
            reached.add(at)
    return frozenset(reached)


def _step(pattern: str, states: frozenset[int], letter: str) -> frozenset[int]:
    after: set[int] = set()
    for state in states:
        if state < len(pattern):
            if pattern[state] == "*":
                after.add(state)
            elif pattern[state] in ("?", letter):
                after.add(state + 1)
    return _reached(pattern, after)
