"""The condition by which a snapshot chooses rows: a small part of SQL, parsed, never pasted.

```
condition = both {OR both}          both = test {AND test}          test = NOT test | "(" condition ")" | comparison
comparison = operand (= | <> | != | < | <= | > | >= | <=>) operand  | operand IS [NOT] NULL
           | operand [NOT] IN "(" literal {, literal} ")"           | operand [NOT] BETWEEN literal AND literal
operand = column | literal          column = name | `name`          literal = 7 | -1.5 | 'text' | NULL | TRUE | FALSE
```

Whoever may ask for a snapshot may not read more than capture lets out: so columns are those of the one table that leave
as they are, and there is neither a function nor a query. What is rendered consists of the words above, of names that
the table has, quoted, and of placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple, NoReturn

from include.errors import Terminal
from include.policy.policy import TablePolicy
from include.source.rows.shape import TableShape
from include.source.snapshot.key_order import quoted

__all__ = [
    "ColumnComparison",
    "Condition",
    "ConditionError",
    "LiteralValue",
    "Predicate",
    "all_hold",
    "leaving",
    "require_policy",
]

LiteralValue = int | Decimal | str | bool | None

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?![0-9A-Za-z_.$])"
    r"|(?P<text>'(?:[^'\\]|''|\\['\"\\])*')"
    r"|`(?P<quoted>(?:[^`]|``)+)`"
    r"|(?P<word>[A-Za-z_$\u0080-\uffff][0-9A-Za-z_$\u0080-\uffff]*)"
    r"|(?P<sign><=>|<>|!=|<=|>=|[=<>(),+-])"
    r"|(?P<end>\Z))"
)
_SIGNS: Final = frozenset({"=", "<>", "!=", "<", "<=", ">", ">=", "<=>"})
_WORDS: Final = frozenset({"AND", "OR", "NOT", "IN", "IS", "BETWEEN", "NULL", "TRUE", "FALSE"})
_CONSTANTS: Final[dict[str, LiteralValue]] = {"NULL": None, "TRUE": True, "FALSE": False}
_ESCAPED: Final = re.compile(r"''|\\(.)", re.DOTALL)
_MOST_CHARACTERS: Final = 20_000
_MOST_DIGITS: Final = 65
_DEEPEST: Final = 50


class ConditionError(Terminal):
    """A condition that is none, or not one of this table; details name the `position` in it, from 1."""


class Predicate(NamedTuple):
    """SQL with a `%s` for each of `values`; other signs of per cent are doubled."""

    sql: str
    values: tuple[LiteralValue, ...]


class _Column(NamedTuple):
    name: str
    position: int


class ColumnComparison(NamedTuple):
    """One comparison of a condition: the names of its columns as they are written, and its values."""

    columns: tuple[str, ...]
    values: tuple[LiteralValue, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition, of no table yet; "" is true of all rows."""

    text: str
    comparisons: tuple[ColumnComparison, ...]
    _parts: tuple[str | _Column, ...]
    _values: tuple[LiteralValue, ...]

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Raise `ConditionError` for anything but the grammar above."""
        if not text.strip():
            return cls("", (), (), ())
        parser = _Parser(text)
        parser.condition(0)
        if parser.kind != "end":
            parser.refuse("expected AND, OR or the end")
        return cls(text, tuple(parser.comparisons), tuple(parser.parts), tuple(parser.values))

    def bound(self, column: Callable[[str], str]) -> Predicate:
        """With each name as `column` gives it in the table; it raises `LookupError` with the reason it refuses one."""
        return Predicate(self.with_columns(lambda name: quoted(column(name)).replace("%", "%%")), self._values)

    def with_columns(self, column: Callable[[str], str]) -> str:
        """With SQL in the place of each name, and `%s` in that of each value of `comparisons`, in their order.

        Raises `ConditionError` where `column` raises `LookupError`.
        """
        sql = []
        for part in self._parts:
            if isinstance(part, str):
                sql.append(part)
                continue
            try:
                sql.append(column(part.name))
            except LookupError as refused:
                raise _error(self.text, part.position, str(refused.args[0]), part.name) from None
        return " ".join(sql)


def leaving(shape: TableShape) -> Callable[[str], str]:
    """Looks up columns of a table that leave as they are; letters' case aside, as servers do."""
    names = {each.name.lower(): each.name for each in shape.schema.columns if each.name not in shape.masks}

    def column(name: str) -> str:
        if name.lower() not in names:
            raise LookupError(f"no column of {shape.table} that leaves as it is")
        return names[name.lower()]

    return column


def all_hold(*conditions: str) -> str:
    """The text of a condition that is true where all of these are; "" is true of all rows."""
    given = [each.strip() for each in conditions if each.strip()]
    return given[0] if len(given) == 1 else " AND ".join(f"({each})" for each in given)


def require_policy(condition: Condition, tables: Iterable[TablePolicy]) -> None:
    """Raise `ConditionError` for a column that the policy keeps back or masks in one of `tables`.

    What can be told without the server; whether there is such a column, capture finds.
    """
    for policy in tables:

        def column(name: str, policy: TablePolicy = policy) -> str:
            if policy.ignores(name) or policy.mask(name) is not None:
                raise LookupError(f"no column of {policy.database}.{policy.table} that leaves as it is")
            return name

        condition.bound(column)


def _error(text: str, position: int, reason: str, near: str) -> ConditionError:
    return ConditionError(
        "a condition cannot be used",
        reason=reason,
        position=position,
        near=near[:40],
        condition=text[:200],
        fix="Compare columns that leave with literals: `id > 7 AND state IN ('new', 'paid') AND due IS NOT NULL`.",
    )


class _Parser:
    """Recursive descent; `kind` and `token` are what comes next."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.parts: list[str | _Column] = []
        self.values: list[LiteralValue] = []
        self.comparisons: list[ColumnComparison] = []
        self.kind = self.token = ""
        self._start = self._next = 0
        if len(text) > _MOST_CHARACTERS:
            self.refuse(f"longer than {_MOST_CHARACTERS} characters")
        if any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in text):
            self.refuse("a sign that no text has")
        self._advance()

    def refuse(self, reason: str) -> NoReturn:
        raise _error(self._text, self._start + 1, reason, self._text[self._start :] or "the end")

    def condition(self, depth: int) -> None:
        if depth > _DEEPEST:
            self.refuse(f"more than {_DEEPEST} conditions within each other")
        self._both(depth)
        while self._took("OR"):
            self.parts.append("OR")
            self._both(depth)

    def _both(self, depth: int) -> None:
        self._test(depth)
        while self._took("AND"):
            self.parts.append("AND")
            self._test(depth)

    def _test(self, depth: int) -> None:
        # The server binds NOT more loosely than comparisons, as is done here.
        while self._took("NOT"):
            self.parts.append("NOT")
        if self._took("("):
            self.parts.append("(")
            self.condition(depth + 1)
            self._require(")")
        else:
            parts, values = len(self.parts), len(self.values)
            self._comparison()
            columns = tuple(part.name for part in self.parts[parts:] if isinstance(part, _Column))
            self.comparisons.append(ColumnComparison(columns, tuple(self.values[values:])))

    def _comparison(self) -> None:
        self._operand()
        if self.kind == "sign" and self.token in _SIGNS:
            self.parts.append(self.token)
            self._advance()
            self._operand()
            return
        if self._took("IS"):
            self.parts.append("IS NOT NULL" if self._took("NOT") else "IS NULL")
            if not self._took("NULL"):
                self.refuse("expected NULL")
            return
        if self._took("NOT"):
            self.parts.append("NOT")
            if self.token not in ("IN", "BETWEEN"):
                self.refuse("expected IN or BETWEEN")
        if self._took("IN"):
            self.parts.append("IN")
            self._require("(")
            self._literal()
            while self._took(","):
                self.parts.append(",")
                self._literal()
            self._require(")")
        elif self._took("BETWEEN"):
            self.parts.append("BETWEEN")
            self._literal()
            if not self._took("AND"):
                self.refuse("expected AND")
            self.parts.append("AND")
            self._literal()
        else:
            self.refuse("expected a comparison, IS, IN or BETWEEN")

    def _operand(self) -> None:
        if self.kind == "column":
            self.parts.append(_Column(self.token, self._start + 1))
            self._advance()
        else:
            self._literal()

    def _literal(self) -> None:
        sign = self.token if self.kind == "sign" and self.token in {"+", "-"} else ""
        if sign:
            self._advance()
        if self.kind == "number":
            if len(self.token) > _MOST_DIGITS:
                self.refuse(f"a number of more than {_MOST_DIGITS} digits")
            text = ("-" if sign == "-" else "") + self.token
            value: LiteralValue = Decimal(text) if "." in text else int(text)
        elif self.kind == "text" and not sign:
            value = _ESCAPED.sub(lambda found: found[1] or "'", self.token[1:-1])
        elif self.kind == "keyword" and self.token in _CONSTANTS and not sign:
            value = _CONSTANTS[self.token]
        else:
            self.refuse("expected a number" if sign else "expected a literal")
        self.parts.append("%s")
        self.values.append(value)
        self._advance()

    def _took(self, word: str) -> bool:
        if self.kind not in ("keyword", "sign") or self.token != word:
            return False
        self._advance()
        return True

    def _require(self, sign: str) -> None:
        if not self._took(sign):
            self.refuse(f"expected {sign}")
        self.parts.append(sign)

    def _advance(self) -> None:
        matched = _TOKEN.match(self._text, self._next)
        if matched is None:
            self._start = self._next
            self.refuse("not part of a condition")
        kind, token = str(matched.lastgroup), matched[str(matched.lastgroup)]
        if kind == "word":
            upper = token.upper()
            kind, token = ("keyword", upper) if upper in _WORDS else ("column", token)
        elif kind == "quoted":
            kind, token = "column", token.replace("``", "`")
        self.kind, self.token = kind, token
        self._start, self._next = matched.end() - len(matched[0].lstrip()), matched.end()
