"""What a statement logged as text does to captured tables.

A row binlog holds DDL as text only. It is not replayed: the text tells which tables lose rows without row events
(truncate, drop), get a new name, or come into being; columns are learned anew from the server and from table maps.
Text that would change rows itself (DML logged as a statement) is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from include.errors import Terminal

__all__ = ["Effect", "EffectKind", "effects"]

EffectKind = Literal["truncate", "drop", "drop_database", "create", "alter", "reread", "rename"]
"""reread: rows vanish or appear without row events in a way that only a new snapshot shows (partitions)."""

_DML: Final = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH", "CALL", "SELECT", "DO", "EXECUTE"})
_NAME: Final = r"(?:`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"|[\w$]+)"
_TABLE: Final = rf"({_NAME}(?:\s*\.\s*{_NAME})?)"
_WAIT: Final = r"(?:\s+(?:WAIT\s+\d+|NOWAIT))?"
_IF: Final = r"(?:IF\s+(?:NOT\s+)?EXISTS\s+)?"
_FLAGS: Final = re.IGNORECASE | re.DOTALL
_TRUNCATE: Final = re.compile(rf"TRUNCATE\s+(?:TABLE\s+)?{_TABLE}", _FLAGS)
_DROP: Final = re.compile(rf"DROP\s+(?:TEMPORARY\s+)?TABLES?\s+{_IF}(.*)", _FLAGS)
_DROP_TEMPORARY: Final = re.compile(r"(DROP|CREATE(\s+OR\s+REPLACE)?)\s+TEMPORARY\s", _FLAGS)
_DROP_DATABASE: Final = re.compile(rf"DROP\s+(?:DATABASE|SCHEMA)\s+{_IF}({_NAME})", _FLAGS)
_CREATE: Final = re.compile(rf"CREATE\s+(OR\s+REPLACE\s+)?TABLE\s+{_IF}{_TABLE}", _FLAGS)
_RENAME: Final = re.compile(rf"RENAME\s+TABLES?\s+{_IF}(.*)", _FLAGS)
_PAIR: Final = re.compile(rf"{_TABLE}{_WAIT}\s+TO\s+{_TABLE}", _FLAGS)
_ALTER: Final = re.compile(rf"ALTER\s+(?:ONLINE\s+)?(?:IGNORE\s+)?TABLE\s+{_IF}{_TABLE}(.*)", _FLAGS)
_ALTER_RENAME: Final = re.compile(
    rf"\bRENAME\s+(?:(?:TO|AS)\s+|=\s*)?(?!COLUMN\b|INDEX\b|KEY\b|TO\b|AS\b){_TABLE}", _FLAGS
)
_PARTITIONS: Final = re.compile(
    r"\b(TRUNCATE|DROP|EXCHANGE|IMPORT|CONVERT)\s+(PARTITION|TABLE)|\bIMPORT\s+TABLESPACE", _FLAGS
)
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect on `database`.`table`; of a rename, `to` is the new (database, table)."""

    kind: EffectKind
    database: str
    table: str = ""
    to: tuple[str, str] | None = None


def effects(text: str, database: str) -> list[Effect]:
    """Effects of a statement run in `database`; raises `Terminal` for DML logged as text."""
    plain = _without_comments(text).strip()
    word = plain.split(None, 1)[0].upper() if plain else ""
    if word in _DML:
        raise Terminal(
            "rows were changed by a statement that is logged as text",
            database=database,
            statement=plain[:120],
            fix="Set binlog_format = ROW for every session, then read the tables anew: "
            "`lyrebird capture run --source … --snapshot --anew`.",
        )
    if _DROP_TEMPORARY.match(plain):
        return []
    if found := _TRUNCATE.match(plain):
        return [Effect("truncate", *_split(found[1], database))]
    if found := _DROP.match(plain):
        return [Effect("drop", *_split(name, database)) for name in re.findall(_TABLE, _list_of(found[1]), _FLAGS)]
    if found := _DROP_DATABASE.match(plain):
        return [Effect("drop_database", _plain(found[1]))]
    if found := _CREATE.match(plain):
        made = _split(found[2], database)
        return [*([Effect("drop", *made)] if found[1] else []), Effect("create", *made)]
    if found := _RENAME.match(plain):
        return [
            Effect("rename", *_split(old, database), to=_split(new, database)) for old, new in _PAIR.findall(found[1])
        ]
    if found := _ALTER.match(plain):
        return _altered(_split(found[1], database), _QUOTED.sub("''", found[2]), database)
    return []


def _altered(table: tuple[str, str], rest: str, database: str) -> list[Effect]:
    out = [Effect("reread", *table)] if _PARTITIONS.search(rest) else []
    renamed = _ALTER_RENAME.search(rest)
    if renamed:
        return [*out, Effect("rename", *table, to=_split(renamed[1], database))]
    return [*out, Effect("alter", *table)]


def _without_comments(text: str) -> str:
    """Comments gone, those that the server executes (`/*!40000 … */`, `/*M! … */`) opened."""
    opened = re.sub(r"/\*M?!\d*\s?(.*?)\*/", r" \1 ", text, flags=re.DOTALL)
    return re.sub(r"/\*.*?\*/", " ", opened, flags=re.DOTALL)


def _list_of(text: str) -> str:
    """A list of tables without the words that may follow it."""
    return re.sub(r"\s+(RESTRICT|CASCADE|WAIT\s+\d+|NOWAIT)\s*$", "", text.strip().rstrip(";"), flags=re.IGNORECASE)


def _split(name: str, database: str) -> tuple[str, str]:
    parts = re.findall(_NAME, name)
    return (_plain(parts[0]), _plain(parts[1])) if len(parts) == 2 else (database, _plain(parts[0]))


def _plain(name: str) -> str:
    name = name.rstrip(";")
    if len(name) > 1 and name[0] == name[-1] and name[0] in '`"':
        return name[1:-1].replace(name[0] * 2, name[0])
    return name
