"""Chooses the columns of a table that can be compared, and defines the texts of their values.

The text of a row, or of its key, is that of its columns with `;` between them; null is `N`. Before a text that may have
any sign stands its length in bytes, as in netstrings (https://cr.yp.to/proto/netstrings.txt): so no two rows have the
same.

| kind | columns | text |
|---|---|---|
| `number` | integers, year, bit, decimal | decimal digits, as many behind the point as the column has |
| `double` | float, double | sign, 53 bits of the mantissa as an integer, `p`, exponent of the first bit; `0` |
| `date`, `datetime`, `timestamp` | of these names | as the server shows it, in UTC |
| `time` | time | microseconds |
| `text` | char, varchar, enum, set, uuid, inet4, inet6 | itself |
| `long_text` | text, json | the hash of its UTF-8 |
| `bytes` | binary, varbinary, blob, geometry | their hash |
| `hex` | binary and varbinary in a key | hex digits, in upper case |

But for `hex` all in lower case. Masked columns have the text of what leaves: to the server, that of null where that is
all. Of a charset that leaves bytes open the
server makes question marks: a text that has such bytes is `?` and their hex digits to it, and differs from the topic's.
What has no text that both sides make alike is named with the reason, and not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, Self

from include.errors import Terminal
from include.policy.masks import HashMask, KeepLastMask, Mask, NullMask
from include.policy.policy import TablePolicy
from include.record.schema import GEOMETRIES, Column, TableSchema
from include.source.rows.text import text_charset

__all__ = ["ComparedColumn", "ComparedRows", "Digest", "HashKind", "Incomparable", "server_digest"]

HashKind = Literal["number", "double", "date", "datetime", "timestamp", "time", "text", "long_text", "bytes", "hex"]
Digest = Literal["md5", "sha256"]
"""A hash of 32 hex digits: MD5, or the first half of SHA-256."""

_KINDS: Final[dict[str, HashKind]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit", "decimal"), "number"),
    **dict.fromkeys(("float", "double"), "double"),
    "date": "date",
    "datetime": "datetime",
    "timestamp": "timestamp",
    "time": "time",
    **dict.fromkeys(("char", "varchar", "enum", "set", "uuid", "inet4", "inet6"), "text"),
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext", "json"), "long_text"),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), "bytes"),
    **dict.fromkeys(GEOMETRIES, "bytes"),
}
_SHORT: Final = frozenset({"binary", "varbinary"})
_HASHED: Final = frozenset({"number", "text", "long_text", "bytes"})


class Incomparable(Terminal):
    """A table that cannot be compared as it is, through nobody's fault: it is named, and no alarm."""


@dataclass(frozen=True, slots=True)
class ComparedColumn:
    """A column at the server, and what of it leaves; `charset` is that of its texts where that leaves bytes open."""

    column: Column
    kind: HashKind
    mask: Mask | None = None
    charset: str = ""

    @property
    def sized(self) -> bool:
        """Whether its text may have any sign, so that its length in bytes stands before it."""
        return self.kind == "text" or (isinstance(self.mask, KeepLastMask) and self.kind != "long_text")


@dataclass(frozen=True)
class ComparedRows:
    """The columns that both sides make texts and hashes of.

    Args:
        columns: that are compared, in the server's order.
        key: those of them that are the key's, in its order.
        not_compared: why other columns that leave are not, by name.
        invalid: the topic's field of dates that no calendar has; '' where no column can hold one.
        digest: the hash.
        keyless: the table has no key of its own: all columns are.
    """

    columns: tuple[ComparedColumn, ...]
    key: tuple[ComparedColumn, ...]
    not_compared: Mapping[str, str]
    invalid: str
    digest: Digest
    keyless: bool = False

    @classmethod
    def of(
        cls,
        columns: Iterable[Column],
        schema: TableSchema,
        policy: TablePolicy,
        digest: Digest = "md5",
        *,
        keyless: bool = False,
    ) -> Self:
        """Of a table.

        Args:
            columns: the server's.
            schema: those that leave.
            policy: of the table.
            digest: as `server_digest` says.
            keyless: the table has no key of its own.

        Raises:
            Incomparable: a column of the key has no text that both sides make alike.
        """
        leaving = {column.name for column in schema.columns}
        compared: dict[str, ComparedColumn] = {}
        refused: dict[str, str] = {}
        for column in columns:
            if column.name in leaving:
                mask = policy.mask(column.name)
                why = _why_not(column, mask)
                if why:
                    refused[column.name] = why
                else:
                    charset = text_charset(column) or "utf8mb4"
                    kind = _KINDS[column.type]
                    compared[column.name] = ComparedColumn(column, kind, mask, charset if charset != "utf8mb4" else "")
        for name in schema.key:
            if name not in compared or isinstance(compared[name].mask, NullMask):
                raise Incomparable(
                    "rows of a table cannot be compared: a column of its key has no text that both sides make alike",
                    table=schema.full_name,
                    column=name,
                    why=refused.get(name, ""),
                    fix="Leave the table out, or give it a key of other columns.",
                )
        key = tuple(_named(compared[name]) for name in schema.key)
        return cls(tuple(compared.values()), key, refused, schema.invalid_field, digest, keyless)

    def without_salt(self) -> Self:
        """For whoever makes texts of a copy, where masks have done their work."""
        columns, key = (
            tuple(replace(each, mask=HashMask("")) if isinstance(each.mask, HashMask) else each for each in some)
            for some in (self.columns, self.key)
        )
        return replace(self, columns=columns, key=key)


def server_digest(flavour: str, version: tuple[int, ...]) -> Digest:
    """The hash of rows of a server: MD5, which takes MariaDB two thirds of SHA-256's time; MySQL has none since 9.6."""
    return "sha256" if flavour == "mysql" and version >= (9, 6) else "md5"


def _named(compared: ComparedColumn) -> ComparedColumn:
    """As it stands in the text of a key, from which the row is to be found again."""
    return replace(compared, kind="hex") if compared.column.type in _SHORT and compared.mask is None else compared


def _why_not(column: Column, mask: Mask | None) -> str:
    """Why both sides make no equal text of a column; '' when they do."""
    kind = _KINDS.get(column.type)
    if kind is None:
        return f"{column.type} has no text that both sides make alike"
    if isinstance(mask, NullMask):
        return ""
    if column.old:
        return "a DECIMAL of before MySQL 5.0 may hold more digits than SQL shows"
    if isinstance(mask, HashMask) and (kind not in _HASHED or column.type == "bit"):
        return f"the text of a {column.type} that was hashed is not what SQL prints"
    return ""
