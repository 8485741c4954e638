"""A statement's text cut into tokens, and read from front to end. What stands in quotes or comments is no word.

Comments that the server executes (`/*!40000 … */`, MariaDB's `/*M! … */`) are opened; a server logs one that it did not
execute as a plain comment. `"…"` is a name or a string by the session's sql_mode, and never a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from include.record.gtid import Flavour

__all__ = ["DOT", "Reader", "Token", "tokens"]

# The server's bits of these words of sql_mode.
_ANSI_QUOTES: Final = 1 << 2
_NO_BACKSLASH_ESCAPES: Final = 1 << 20


def _cutter(sql_mode: int, flavour: Flavour) -> re.Pattern[str]:
    """What cuts a text into tokens. Quantifiers are possessive: of many quotes not every way to part it is tried."""
    string = r"'(?:[^']|'')*+'?" if sql_mode & _NO_BACKSLASH_ESCAPES else r"'(?:[^'\\]|\\.|'')*+'?"
    # In a name a backslash is itself.
    plain = sql_mode & (_NO_BACKSLASH_ESCAPES | _ANSI_QUOTES)
    double = r'"(?:[^"]|"")*+"?' if plain else r'"(?:[^"\\]|\\.|"")*+"?'
    opened = r"/\*M?!\d*" if flavour == "mariadb" else r"/\*!\d*"
    return re.compile(
        rf"""(?P<gap>\s++|{opened}|/\*(?:[^*]|\*(?!/))*+(?:\*/)?|\*/|--(?=\s|$)[^\n]*+|\#[^\n]*+)
          | (?P<string>{string})
          | (?P<name>`(?:[^`]|``)*+`?|{double})
          | (?P<word>[\w$]++)
          | (?P<sign>.)""",
        re.VERBOSE | re.DOTALL,
    )


_QUOTES: Final = _ANSI_QUOTES | _NO_BACKSLASH_ESCAPES
_FLAVOURS: Final[tuple[Flavour, ...]] = ("mariadb", "mysql")
_CUTTERS: Final = {
    (mode, flavour): _cutter(mode, flavour)
    for mode in (0, _ANSI_QUOTES, _NO_BACKSLASH_ESCAPES, _QUOTES)
    for flavour in _FLAVOURS
}


class Token(NamedTuple):
    """`word` in capitals; "" for what is no word. `name` is what it is as a name; "" where it can be none."""

    word: str
    name: str


DOT: Final = Token(".", "")


class Reader:
    """A statement from front to end; the word that is next can be asked for, and taken."""

    def __init__(self, tokens: Iterable[Token], database: str) -> None:
        self.database = database
        self._tokens = iter(tokens)
        self._next: list[Token] = []

    @property
    def word(self) -> str:
        """The next word or sign, without taking it; "" at the end and before a quoted name."""
        return self._ahead(0).word

    @property
    def ended(self) -> bool:
        """Whether nothing is left."""
        return self._ahead(0) == _END

    def takes(self, *words: str) -> bool:
        """Take these words, if they are next."""
        if all(self._ahead(i).word == word for i, word in enumerate(words)):
            del self._next[: len(words)]
            return True
        return False

    def tables(self, most: int = 1 << 30) -> list[tuple[str, str]]:
        """The names that are next, with commas between them, as (database, table)."""
        names: list[tuple[str, str]] = []
        while len(names) < most:
            # A name may begin with its point: it is of the session's database.
            self.takes(".")
            name = self._ahead(0).name
            if not name:
                break
            del self._next[0]
            if self.takes(".") and self._ahead(0).name:
                names.append((name, self._next.pop(0).name))
            else:
                names.append((self.database, name))
            if len(names) < most and not self.takes(","):
                break
        return names

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

    def skip_to(self, *words: str) -> bool:
        """Pass over what stands before one of these words, outside of parentheses; False where nothing does."""
        depth = passed = 0
        before = ""
        while not self.ended:
            token = self._ahead(0)
            # NEXT VALUE FOR a sequence is an expression.
            if not depth and token.word in words and before != "VALUE":
                break
            depth += (token.word == "(") - (token.word == ")")
            before, passed = token.word, passed + 1
            del self._next[0]
        return passed > 0

    def rest(self) -> Iterator[Token]:
        """All that is left."""
        taken, self._next = self._next, []
        yield from (token for token in taken if token != _END)
        yield from self._tokens

    def _ahead(self, place: int) -> Token:
        while len(self._next) <= place:
            self._next.append(next(self._tokens, _END))
        return self._next[place]


_END: Final = Token("", "")


def tokens(text: str, sql_mode: int, flavour: Flavour) -> Iterator[Token]:
    """Words, names, strings and signs in their order. `sql_mode`: see `QueryEvent`."""
    for found in _CUTTERS[sql_mode & _QUOTES, flavour].finditer(text):
        kind, piece = found.lastgroup, found[0]
        if kind == "word":
            yield Token(piece.upper(), piece)
        elif kind == "name":
            yield Token("", piece[1:-1].replace(piece[0] * 2, piece[0]))
        elif kind == "string":
            yield Token("'", "")
        elif kind == "sign":
            yield Token(piece, "")
