"""Statements that bound transactions: BEGIN, COMMIT, ROLLBACK, savepoints, XA. Servers log them as text.

A text that begins as one of them and goes on in a way that is not understood is refused: to take it for any other
statement would put rows into the wrong transaction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from include.errors import Terminal
from include.source.binlog.gtid_event import Xid

__all__ = ["TransactionBoundary", "Word", "boundary"]

Word = Literal[
    "begin",
    "commit",
    "rollback",
    "savepoint",
    "rollback_to",
    "release",
    "xa_start",
    "xa_end",
    "xa_prepare",
    "xa_commit",
    "xa_rollback",
]

# Atomic and possessive: a text of many comments is not tried in every way to part it.
_GAP: Final = r"(?>\s|/\*.*?\*/|--\s[^\n]*(?:\n|$)|\#[^\n]*(?:\n|$))"
_ANY: Final = f"{_GAP}*+"
_NAME: Final = r"(`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|[^\s;`\"]+)"
_PART: Final = r"(?:[xX]'([0-9a-fA-F]*)'|0[xX]([0-9a-fA-F]*)|'([^'\\]*)'|\"([^\"\\]*)\")"
_CHAIN: Final = r"(?: WORK)?(?: AND(?: NO)? CHAIN)?(?:(?: NO)? RELEASE)?"
_XID: Final = rf" {_PART}(?:_,_{_PART}(?:_,_(-?\d+))?)?"
_FORMS: Final[tuple[tuple[Word, str], ...]] = (
    ("begin", r"BEGIN(?: WORK)?"),
    ("begin", r"START TRANSACTION(?: .*)?"),
    ("commit", rf"COMMIT{_CHAIN}"),
    ("rollback", rf"ROLLBACK{_CHAIN}"),
    ("savepoint", rf"SAVEPOINT(?= |[`\"])_{_NAME}"),
    ("rollback_to", rf"ROLLBACK(?: WORK)? TO(?: SAVEPOINT)?(?= |[`\"])_{_NAME}"),
    ("release", rf"RELEASE SAVEPOINT(?= |[`\"])_{_NAME}"),
    ("xa_start", rf"XA (?:START|BEGIN){_XID}(?: JOIN| RESUME)?"),
    ("xa_end", rf"XA END{_XID}(?: SUSPEND(?: FOR MIGRATE)?)?"),
    ("xa_prepare", rf"XA PREPARE{_XID}"),
    ("xa_commit", rf"XA COMMIT{_XID}(?: ONE PHASE)?"),
    ("xa_rollback", rf"XA ROLLBACK{_XID}"),
)
_FLAGS: Final = re.IGNORECASE | re.DOTALL
# In the forms a blank stands for a gap, `_` for one that may be missing; no word of SQL above has either.
_PATTERNS: Final = tuple(
    (word, re.compile(_ANY + form.replace(" ", f"{_GAP}++").replace("_", _ANY) + f"{_ANY};?{_ANY}", _FLAGS))
    for word, form in _FORMS
)
_FIRST: Final = re.compile(rf"{_ANY}(BEGIN|START|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|XA)\b", _FLAGS)


@dataclass(frozen=True, slots=True)
class TransactionBoundary:
    """`name` of a savepoint, in the form in which the server compares it; `xid` of XA statements."""

    word: Word
    name: str = ""
    xid: Xid | None = None


_PLAIN: Final = {
    "BEGIN": TransactionBoundary("begin"),
    "COMMIT": TransactionBoundary("commit"),
    "ROLLBACK": TransactionBoundary("rollback"),
}


def boundary(text: str) -> TransactionBoundary | None:
    """What `text` bounds, None for any other statement; raises `Terminal` for a form that is not understood."""
    found = _PLAIN.get(text)
    if found is not None:
        return found
    first = _FIRST.match(text)
    if first is None:
        return None
    for word, pattern in _PATTERNS:
        match = pattern.fullmatch(text)
        if match is not None:
            if word.startswith("xa_"):
                return TransactionBoundary(word, xid=_xid(match, text))
            return TransactionBoundary(word, _folded(match[1]) if pattern.groups else "")
    if first[1].upper() == "START":
        # START SLAVE, START REPLICA and the like bound nothing.
        return None
    raise _unknown(text)


def _xid(match: re.Match[str], text: str) -> Xid:
    *parts, form = match.groups()
    gtrid, bqual = _part(parts[:4], text), _part(parts[4:], text)
    return Xid(int(form or 1) & 0xFFFFFFFF, gtrid or b"", bqual or b"")


def _part(ways: list[str | None], text: str) -> bytes | None:
    for way, digits in enumerate(ways):
        if digits is not None:
            try:
                return bytes.fromhex(digits) if way < 2 else digits.encode()
            except ValueError as odd:
                raise _unknown(text) from odd
    return None


def _folded(name: str) -> str:
    if name[0] in '`"' and len(name) > 1:
        name = name[1:-1].replace(name[0] * 2, name[0])
    return name.casefold()


def _unknown(text: str) -> Terminal:
    """Whatever its database: a transaction may hold rows of any. It may also hold what is nobody's to read here."""
    first = _FIRST.match(text)
    return Terminal(
        "a statement bounds a transaction in a form that is not understood",
        begins_with=first[1].upper() if first else "",
        characters=len(text),
        fix="Nothing was skipped; a newer release may read it. mysqlbinlog shows the statement at this position.",
    )
