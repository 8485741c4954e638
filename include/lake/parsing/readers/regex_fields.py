"""Named groups of a regular expression over the bytes of a message.

Python's engine backtracks and cannot be interrupted: one message could hold up its partition for ever. So the input is
bounded, and a pattern is refused when the ways in which it may be tried on such an input, an upper bound read off its
parsed form, are too many. What gives nothing back (`a++`, `(?>a|b)`) has one way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from re import _constants as code  # type: ignore[attr-defined]  # what the engine itself calls them
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

from include.lake.parsing.fields import ReadFields, WantedValue, invalid, shown

__all__ = ["check_pattern", "regex_reader"]

_MOST_WAYS: Final = 1_000_000_000
_REPEATS: Final = (code.MAX_REPEAT, code.MIN_REPEAT)
_BEGINNINGS: Final = ((code.AT, code.AT_BEGINNING), (code.AT, code.AT_BEGINNING_STRING))


def check_pattern(written: str, most_bytes: int) -> re.Pattern[bytes]:
    """The compiled pattern; `ValueError` for one that is wrong, or may take too long on `most_bytes`."""
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
    anchored = len(tree) > 0 and tree[0] in _BEGINNINGS and not compiled.flags & re.MULTILINE
    if _ways(tree, most_bytes) * (1 if anchored else most_bytes) > _MOST_WAYS:
        raise ValueError(
            f"the regular expression may take for ever on {most_bytes} bytes: begin it with ^, let repeats give nothing"
            " back (a++ for a+, (?>a|b)* for (a|b)*), or lower most_bytes"
        )
    return compiled


def regex_reader(wanted: Sequence[WantedValue], written: str, most_bytes: int) -> ReadFields:
    """Reads groups as bytes, None of those that took no part; the first match anywhere in the message counts.

    `InvalidRecord` for a message without a match or of more than `most_bytes`. `ValueError` for a field that is no
    group.
    """
    compiled = check_pattern(written, most_bytes)
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


def _ways(tree: Iterable[Any], size: int) -> int:
    """In how many ways, at most, the engine may try the pattern from one place of `size` bytes; cut at the limit."""
    total = 1
    for operation, argument in tree:
        if operation in _REPEATS:
            least, most, body = argument
            most = min(most, size)
            total *= max(1, most - least + 1) * _power(_ways(body, size), most)
        elif operation is code.POSSESSIVE_REPEAT:
            total *= _ways(argument[2], size)
        elif operation is code.ATOMIC_GROUP:
            total *= _ways(argument, size)
        elif operation is code.BRANCH:
            total *= sum(_ways(branch, size) for branch in argument[1])
        elif operation is code.SUBPATTERN:
            total *= _ways(argument[3], size)
        elif operation in (code.ASSERT, code.ASSERT_NOT):
            total *= _ways(argument[1], size)
        elif operation is code.GROUPREF_EXISTS:
            total *= _ways(argument[1], size) + _ways(argument[2] or (), size)
        total = min(total, _MOST_WAYS + 1)
    return total


def _power(ways: int, times: int) -> int:
    total = 1
    while ways > 1 and times > 0 and total <= _MOST_WAYS:
        total, times = total * ways, times - 1
    return total
