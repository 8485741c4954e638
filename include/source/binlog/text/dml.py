"""The tables whose rows a statement changes that is logged as text, by its text alone.

Where tables are joined, all of them count: which of them change is not looked for. A derived table never changes.
"""

from __future__ import annotations

from itertools import pairwise, takewhile
from typing import Final

from include.record.gtid import Flavour
from include.source.binlog.text.functions import calls_unknown
from include.source.binlog.text.words import Reader, Token

__all__ = ["changed_tables"]

# Reserved words: a table of such a name is quoted.
_INSERTS: Final = ("LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "IGNORE", "INTO")
_UPDATES: Final = ("LOW_PRIORITY", "IGNORE")
# Where nothing else stands before FROM; QUICK and HISTORY may be tables, too.
_DELETES: Final = ("LOW_PRIORITY", "QUICK", "IGNORE", "HISTORY")
_VERBS: Final = frozenset({"INSERT", "REPLACE", "UPDATE", "DELETE", "SELECT"})
_DERIVED: Final = frozenset({"SELECT", "WITH", "VALUES", "TABLE"})
_ENDS: Final = frozenset({"SET", "WHERE", "ORDER", "LIMIT", "RETURNING"})
_AFTER_LIST: Final = _ENDS | {"JOIN", "STRAIGHT_JOIN", "("}
_JOINS: Final = frozenset({",", "JOIN", "STRAIGHT_JOIN"})


def changed_tables(reader: Reader, flavour: Flavour) -> list[tuple[str, str]] | None:
    """(database, table) of each; None for a statement that does not say it, as one that calls somebody's function."""
    rest = list(reader.rest())
    reader = Reader(rest, reader.database)
    if reader.takes("WITH"):
        reader = _after_common_tables(reader)
    if reader.takes("INSERT") or reader.takes("REPLACE"):
        _skip(reader, _INSERTS)
        return _filled(reader, flavour)
    if reader.takes("LOAD"):
        into = [i for i, (one, other) in enumerate(pairwise(rest)) if (one.word, other.word) == ("INTO", "TABLE")]
        return _filled(Reader(rest[into[0] + 2 :], reader.database), flavour) if into else None
    if calls_unknown(rest, flavour):
        return None
    if reader.takes("UPDATE"):
        _skip(reader, _UPDATES)
        return _joined(list(reader.rest()), reader.database) or None
    if reader.takes("DELETE"):
        return _deleted(list(reader.rest()), reader.database) or None
    return None


def _skip(reader: Reader, modifiers: tuple[str, ...]) -> None:
    while any(reader.takes(word) for word in modifiers):
        pass


def _filled(reader: Reader, flavour: Flavour) -> list[tuple[str, str]] | None:
    """The one table that is next; what follows it may be its columns."""
    tables = reader.tables(most=1)
    return None if not tables or calls_unknown(list(reader.rest()), flavour) else tables


def _after_common_tables(reader: Reader) -> Reader:
    """The statement behind WITH … AS (…)."""
    rest, depth = list(reader.rest()), 0
    for i, token in enumerate(rest):
        depth += (token.word == "(") - (token.word == ")")
        if not depth and token.word in _VERBS:
            return Reader(rest[i:], reader.database)
    return Reader((), reader.database)


def _deleted(rest: list[Token], database: str) -> list[tuple[str, str]]:
    """DELETE FROM t …, DELETE t, u FROM … and DELETE FROM t, u USING …: names before the joins may be aliases."""
    begin = next((i for i, token in enumerate(rest) if token.word == "FROM"), len(rest))
    behind = rest[begin + 1 :]
    if all(token.word in _DELETES for token in rest[:begin]):
        listed = list(takewhile(lambda token: token.word not in _AFTER_LIST, behind))
        using = [i for i, token in enumerate(listed) if token.word == "USING"]
        behind = behind[using[0] + 1 :] if using else behind
    return _joined(behind, database)


def _joined(rest: list[Token], database: str) -> list[tuple[str, str]]:
    """The tables of joins that `rest` begins with."""
    tables: list[tuple[str, str]] = []
    depth, skipped, due, before = 0, 0, True, ""
    for i, token in enumerate(rest):
        word = token.word
        if word == "(":
            depth += 1
            ahead = rest[i + 1].word if i + 1 < len(rest) else ""
            if not skipped and (not due or ahead in _DERIVED):
                # A derived table, a condition, a list of columns or of partitions.
                skipped, due = depth, False
        elif word == ")":
            if skipped == depth:
                skipped = 0
            depth -= 1
        elif skipped:
            continue
        elif word in _ENDS and not depth and before != "FOR":
            break
        elif word in _JOINS and before != "FOR":
            due = True
        elif due and (token.name or word == "."):
            called = i + 1 < len(rest) and rest[i + 1].word == "("
            if word not in ("LATERAL", "OJ") and not called:
                tables += Reader(rest[i:], database).tables(most=1)
            due = word in ("LATERAL", "OJ")
        before = word
    return tables
