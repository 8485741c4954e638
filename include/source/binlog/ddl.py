"""What a statement logged as text does to captured tables.

A row binlog holds DDL as text only. It is not replayed: the text tells which tables lose rows without row events
(truncate, drop), get a new name, or come into being; columns are learned anew from the server and from table maps.
So only the few words that say this are read, and no grammar is needed for the rest, whatever a server may add to it.
Text that would change rows itself (DML logged as a statement, CREATE … SELECT) is refused.

What stands in quotes or comments is no word: the text is cut into tokens first. Comments that the server executes
(`/*!40000 … */`, `/*M! … */`) are opened. `"…"` is a name or a string by the session's sql_mode, and never a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from include.errors import Terminal

__all__ = ["Effect", "EffectKind", "effects"]

EffectKind = Literal["truncate", "drop", "drop_database", "create", "alter", "reread", "rename"]
"""reread: rows vanish or appear without row events in a way that only a new snapshot shows (partitions)."""

_DML: Final = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH", "CALL", "SELECT", "DO", "EXECUTE"})
# The server's bits of these words of sql_mode.
_ANSI_QUOTES: Final = 1 << 2
_NO_BACKSLASH_ESCAPES: Final = 1 << 20


def _cutter(sql_mode: int) -> re.Pattern[str]:
    """What cuts a text into tokens. Quantifiers are possessive: of many quotes not every way to part it is tried."""
    string = r"'(?:[^']|'')*+'?" if sql_mode & _NO_BACKSLASH_ESCAPES else r"'(?:[^'\\]|\\.|'')*+'?"
    # In a name a backslash is itself.
    plain = sql_mode & (_NO_BACKSLASH_ESCAPES | _ANSI_QUOTES)
    double = r'"(?:[^"]|"")*+"?' if plain else r'"(?:[^"\\]|\\.|"")*+"?'
    return re.compile(
        rf"""(?P<gap>\s++|/\*M?!\d*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?|\*/|--(?=\s|$)[^\n]*+|\#[^\n]*+)
          | (?P<string>{string})
          | (?P<name>`(?:[^`]|``)*+`?|{double})
          | (?P<word>[\w$]++)
          | (?P<sign>.)""",
        re.VERBOSE | re.DOTALL,
    )


_QUOTES: Final = _ANSI_QUOTES | _NO_BACKSLASH_ESCAPES
_CUTTERS: Final = {mode: _cutter(mode) for mode in (0, _ANSI_QUOTES, _NO_BACKSLASH_ESCAPES, _QUOTES)}
# What moves whole partitions, or a tablespace, in or out of a table.
_MOVES: Final = frozenset(
    {
        *((verb, "PARTITION") for verb in ("TRUNCATE", "DROP", "EXCHANGE", "IMPORT", "CONVERT")),
        ("CONVERT", "TABLE"),
        ("IMPORT", "TABLESPACE"),
    }
)


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect on `database`.`table`; of a rename, `to` is the new (database, table)."""

    kind: EffectKind
    database: str
    table: str = ""
    to: tuple[str, str] | None = None


def effects(
    text: str,
    database: str,
    *,
    sql_mode: int = 0,
    lower_names: bool = False,
    in_memory: Callable[[str, str], bool] = lambda _database, _table: False,
) -> list[Effect]:
    """Effects of a statement run in `database`; raises `Terminal` for DML logged as text.

    `sql_mode`: see `Query`. `lower_names`: the server keeps names of tables in small letters, while a statement is
    logged as it was written.
    `in_memory` tells tables that a restart empties: older servers log that as a DELETE of all rows.
    """
    if lower_names:
        text, database = text.lower(), database.lower()
    reader = _Reader(_tokens(text, sql_mode), database)
    if reader.takes("DELETE", "FROM"):
        emptied = reader.tables(most=1)
        if emptied and not any(reader.rest()) and in_memory(*emptied[0]):
            return [Effect("truncate", *emptied[0])]
        raise _rows_as_text(text, database)
    if reader.word in _DML:
        raise _rows_as_text(text, database)
    if reader.takes("TRUNCATE"):
        reader.takes("TABLE")
        return [Effect("truncate", *name) for name in reader.tables(most=1)]
    if reader.takes("DROP"):
        return _dropped(reader)
    if reader.takes("CREATE"):
        return _created(reader, text)
    if reader.takes("RENAME"):
        return _renamed(reader)
    return _altered(reader) if reader.takes("ALTER") else []


def _dropped(reader: _Reader) -> list[Effect]:
    if reader.takes("TABLE") or reader.takes("TABLES"):
        reader.skip_condition()
        return [Effect("drop", *name) for name in reader.tables()]
    if reader.takes("DATABASE") or reader.takes("SCHEMA"):
        reader.skip_condition()
        return [Effect("drop_database", name) for _, name in reader.tables(most=1)]
    return []


def _created(reader: _Reader, text: str) -> list[Effect]:
    replaces = reader.takes("OR", "REPLACE")
    if not reader.takes("TABLE"):
        return []
    reader.skip_condition()
    made = reader.tables(most=1)
    if any(token.word == "SELECT" for token in reader.rest()):
        raise _rows_as_text(text, reader.database)
    return [*(Effect("drop", *name) for name in made if replaces), *(Effect("create", *name) for name in made)]


def _renamed(reader: _Reader) -> list[Effect]:
    if not (reader.takes("TABLE") or reader.takes("TABLES")):
        return []
    reader.skip_condition()
    found: list[Effect] = []
    more = True
    while more and (old := reader.tables(most=1)):
        reader.skip_wait()
        reader.takes("TO")
        found += [Effect("rename", *old[0], to=new) for new in reader.tables(most=1)]
        more = reader.takes(",")
    return found


def _altered(reader: _Reader) -> list[Effect]:
    while reader.takes("ONLINE") or reader.takes("OFFLINE") or reader.takes("IGNORE"):
        pass
    if not reader.takes("TABLE"):
        return []
    reader.skip_condition()
    altered = reader.tables(most=1)
    if not altered:
        return []
    table, rest = altered[0], list(reader.rest())
    found = _moved(table, rest, reader.database)
    for i, token in enumerate(rest):
        if token.word == "RENAME" and rest[i - 1 : i] != [_DOT]:
            after = _Reader(rest[i + 1 :], reader.database)
            if after.word in ("COLUMN", "INDEX", "KEY"):
                continue
            if not after.takes("TO") and not after.takes("AS"):
                after.takes("=")
            return [*found, *(Effect("rename", *table, to=new) for new in after.tables(most=1))]
    return [*found, Effect("alter", *table)]


def _moved(table: tuple[str, str], rest: list[_Token], database: str) -> list[Effect]:
    """Rows that came or went with a partition; another table may have got or given them."""
    found: list[Effect] = []
    for i, (verb, what) in enumerate(pairwise(rest)):
        if (verb.word, what.word) not in _MOVES:
            continue
        found.append(Effect("reread", *table))
        if verb.word == "CONVERT" and what.word == "TABLE":
            found += [Effect("drop", *other) for other in _Reader(rest[i + 2 :], database).tables(most=1)]
        elif verb.word in ("EXCHANGE", "CONVERT"):
            after = [j for j in range(i + 2, len(rest)) if rest[j].word == "TABLE"]
            others = _Reader(rest[after[0] + 1 :], database).tables(most=1) if after else []
            for other in others:
                found += [Effect("create", *other)] if verb.word == "CONVERT" else []
                found.append(Effect("reread", *other))
    return found


class _Token(NamedTuple):
    """`word` in capitals; "" for what is no word. `name` is what it is as a name; "" where it can be none."""

    word: str
    name: str


_DOT: Final = _Token(".", "")


class _Reader:
    """A statement from front to end; the word that is next can be asked for, and taken."""

    def __init__(self, tokens: Iterable[_Token], database: str) -> None:
        self.database = database
        self._tokens = iter(tokens)
        self._next: list[_Token] = []

    @property
    def word(self) -> str:
        """The next word or sign, without taking it; "" at the end and before a quoted name."""
        return self._ahead(0).word

    def takes(self, *words: str) -> bool:
        """Take these words, if they are next."""
        if all(self._ahead(i).word == word for i, word in enumerate(words)):
            del self._next[: len(words)]
            return True
        return False

    def tables(self, most: int = 1 << 30) -> list[tuple[str, str]]:
        """The names that are next, with commas between them, as (database, table)."""
        found: list[tuple[str, str]] = []
        while len(found) < most:
            # A name may begin with its point: it is of the session's database.
            self.takes(".")
            name = self._ahead(0).name
            if not name:
                break
            del self._next[0]
            if self.takes(".") and self._ahead(0).name:
                found.append((name, self._next.pop(0).name))
            else:
                found.append((self.database, name))
            if len(found) < most and not self.takes(","):
                break
        return found

    def skip_condition(self) -> None:
        """IF EXISTS, IF NOT EXISTS."""
        if not self.takes("IF", "EXISTS"):
            self.takes("IF", "NOT", "EXISTS")

    def skip_wait(self) -> None:
        """WAIT and its seconds, NOWAIT."""
        if self.takes("WAIT"):
            self._ahead(0)
            del self._next[:1]
        else:
            self.takes("NOWAIT")

    def rest(self) -> Iterator[_Token]:
        """All that is left."""
        taken, self._next = self._next, []
        yield from (token for token in taken if token != _END)
        yield from self._tokens

    def _ahead(self, place: int) -> _Token:
        while len(self._next) <= place:
            self._next.append(next(self._tokens, _END))
        return self._next[place]


_END: Final = _Token("", "")


def _tokens(text: str, sql_mode: int) -> Iterator[_Token]:
    for found in _CUTTERS[sql_mode & _QUOTES].finditer(text):
        kind, piece = found.lastgroup, found[0]
        if kind == "word":
            yield _Token(piece.upper(), piece)
        elif kind == "name":
            yield _Token("", piece[1:-1].replace(piece[0] * 2, piece[0]))
        elif kind == "string":
            yield _Token("'", "")
        elif kind == "sign":
            yield _Token(piece, "")


def _rows_as_text(text: str, database: str) -> Terminal:
    return Terminal(
        "rows were changed by a statement that is logged as text",
        database=database,
        statement=text.strip()[:120],
        fix="Set binlog_format = ROW for every session, then read the tables anew: "
        "`lyrebird capture run --source … --snapshot --anew`.",
    )
