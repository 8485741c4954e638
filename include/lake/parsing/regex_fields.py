"""Named groups of a regular expression over the bytes of a message.

Python's engine backtracks and cannot be interrupted. So patterns in which an unbounded repeat stands inside another,
which take exponential time, are refused unless the inner one gives nothing back (`(?>…)`, `a++`); and the input is
bounded, as repeats beside each other still take a power of its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from re import _constants as code  # type: ignore[attr-defined]  # what the engine itself calls them
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

from include.lake.parsing.fields import Read, Wanted, invalid, shown

__all__ = ["check_pattern", "regex_reader"]

_REPEATS: Final = (code.MAX_REPEAT, code.MIN_REPEAT)
_SAFE: Final = (code.ATOMIC_GROUP, code.POSSESSIVE_REPEAT)


def check_pattern(written: str) -> re.Pattern[bytes]:
    """The compiled pattern; `ValueError` for one that is wrong or may take exponential time."""
    try:
        raw = written.encode()
        compiled = re.compile(raw)
        tree = parser.parse(raw)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"no regular expression: {error}") from None
    if compiled.flags & re.LOCALE:
        raise ValueError("a regular expression may not depend on the locale: leave (?L) out")
    if not compiled.groupindex:
        raise ValueError("the regular expression has no named group, as in (?P<ts>[0-9]+)")
    if _nested(tree, inside=False):
        raise ValueError("a repeat inside a repeat may take for ever: make the inner one possessive, as in (?:a++b)*")
    return compiled


def regex_reader(wanted: Sequence[Wanted], written: str, most_bytes: int) -> Read:
    """Reads groups as bytes, None of those that took no part; the first match anywhere in the message counts.

    `InvalidRecord` for a message without a match or of more than `most_bytes`. `ValueError` for a field that is no
    group.
    """
    compiled = check_pattern(written)
    for want in wanted:
        if len(want.path) != 1 or want.path[0] not in compiled.groupindex:
            groups = ", ".join(compiled.groupindex)
            raise ValueError(f"{shown(want.path)} is no group of the regular expression; it has {groups}")
    names = [str(want.path[0]) for want in wanted]
    search = compiled.search

    def read(data: bytes) -> Sequence[Any]:
        if len(data) > most_bytes:
            raise invalid("the message is too long for its regular expression", "size", size=len(data), most=most_bytes)
        found = search(data)
        if found is None:
            raise invalid("the regular expression does not match", "no match", head=data)
        return [found[name] for name in names]

    return read


def _nested(items: Iterable[Any], *, inside: bool) -> bool:
    """Whether an unbounded repeat stands in another (`inside`: this is in one), as the engine's parser sees it."""
    for operation, argument in items:
        if operation in _SAFE:
            # What it matched once is never tried in another way, by whatever stands around it.
            if _nested(argument if operation is code.ATOMIC_GROUP else argument[2], inside=False):
                return True
            continue
        repeat = operation in _REPEATS and argument[1] == code.MAXREPEAT
        if repeat and inside:
            return True
        if any(_nested(each, inside=inside or repeat) for each in _parts(argument)):
            return True
    return False


def _parts(argument: Any) -> Iterable[Any]:
    """The patterns in an operation's argument."""
    if isinstance(argument, parser.SubPattern):
        yield argument
    elif isinstance(argument, list | tuple):
        for each in argument:
            yield from _parts(each)
