"""Finds the effects on tables of a statement that is logged as text.

A row binlog holds DDL as text only. It is not replayed: the text tells which tables lose rows without row events
(truncate, drop), get a new name, or come into being; columns are learned anew from the server and from table maps.
So only the few words that say this are read, and no grammar is needed for the rest, whatever a server may add to it.
Text that changes rows itself (DML logged as a statement, CREATE … SELECT) says of which tables; the rows are in no
event. A statement that begins with no word known here may have changed any.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from include.errors import Terminal
from include.record.gtid import Flavour
from include.source.binlog.text.dml import changed_tables
from include.source.binlog.text.functions import calls_unknown
from include.source.binlog.text.words import DOT, Reader, Token, tokens

__all__ = ["EffectKind", "TableEffect", "effects"]

EffectKind = Literal["truncate", "drop", "drop_database", "create", "alter", "index", "reread", "rename", "rows"]
"""index: its keys may be others. reread: rows vanish or appear without row events in a way that only a new snapshot
shows (partitions). rows: the text itself changed rows; without a table it does not say of which."""

_HARMLESS: Final = frozenset(
    """
    ANALYZE BACKUP CACHE CHANGE CHECK CHECKSUM CLONE DEALLOCATE DESC DESCRIBE EXPLAIN FLUSH GRANT HANDLER HELP INSTALL
    KILL LOCK OPTIMIZE PREPARE PURGE REPAIR RESET RESIGNAL RESTART REVOKE SET SHOW SHUTDOWN SIGNAL START STOP UNINSTALL
    UNLOCK USE
    """.split()  # noqa: SIM905 - read more easily than in quotes each
)
# What moves whole partitions, or a tablespace, in or out of a table.
_MOVES: Final = frozenset(
    {
        *((verb, "PARTITION") for verb in ("TRUNCATE", "DROP", "EXCHANGE", "IMPORT", "CONVERT")),
        ("CONVERT", "TABLE"),
        ("IMPORT", "TABLESPACE"),
    }
)


_INDEX_KINDS: Final = ("ONLINE", "OFFLINE", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR")


@dataclass(frozen=True, slots=True)
class TableEffect:
    """One effect on `database`.`table`; of a rename, `to` is the new (database, table).

    `parents`: tables to which the statement gives it foreign keys that change its rows by cascade.
    """

    kind: EffectKind
    database: str
    table: str = ""
    to: tuple[str, str] | None = None
    parents: frozenset[tuple[str, str]] = frozenset()


def effects(
    text: str,
    database: str,
    *,
    sql_mode: int = 0,
    lower_names: bool = False,
    in_memory: Callable[[str, str], bool] = lambda _database, _table: False,
    flavour: Flavour = "mariadb",
) -> list[TableEffect]:
    """Finds the effects of a statement on tables.

    Args:
        text: the statement.
        database: the session's, of which names without a database are.
        sql_mode: bits of the session's, see `QueryEvent`.
        lower_names: the server keeps names of tables in small letters, while a statement is logged as it was written.
        in_memory: (database, table) → whether a restart empties it: older servers log that as a DELETE of all rows.
        flavour: the server's family.

    Raises:
        Terminal: a SET STATEMENT of a form that is not understood.
    """
    if lower_names:
        text, database = text.lower(), database.lower()
    reader = Reader(tokens(text, sql_mode, flavour), database)
    while reader.takes("SET", "STATEMENT"):
        _skip_settings(reader)
    if reader.takes("TRUNCATE"):
        reader.takes("TABLE")
        return [TableEffect("truncate", *name) for name in reader.tables(most=1)]
    if reader.takes("DROP"):
        return _dropped(reader)
    if reader.takes("CREATE"):
        return _created(reader, flavour)
    if reader.takes("RENAME"):
        return _renamed(reader)
    if reader.takes("ALTER"):
        return _altered(reader)
    return [] if _is_harmless(reader) else _changed(reader, in_memory, flavour)


def _skip_settings(reader: Reader) -> None:
    """MariaDB's SET STATEMENT name = value, … FOR: what follows is the statement."""
    more = True
    while more:
        # `global.x` and `session.x` are names too.
        named = len(reader.tables(most=1)) == 1
        reader.takes(":")
        valued = reader.takes("=") and reader.skip_to(",", "FOR")
        more = reader.takes(",")
        if not named or not valued or not (more or reader.takes("FOR")) or reader.ended:
            raise Terminal(
                "a statement has settings of its own, in a form that is not understood",
                database=reader.database,
                fix="What it did is not known. If it changed no captured table, a newer release may read it; else read "
                "everything anew: `lyrebird capture run --source … --snapshot --anew`.",
            )


def _is_harmless(reader: Reader) -> bool:
    """Whether it changes neither rows nor columns."""
    if reader.takes("ANALYZE"):
        if reader.word in ("TABLE", "TABLES", "LOCAL", "NO_WRITE_TO_BINLOG"):
            return True
        # MariaDB carries out what it analyzes.
        if reader.takes("FORMAT", "="):
            reader.skip_to("INSERT", "REPLACE", "UPDATE", "DELETE", "SELECT", "WITH")
        return False
    return reader.ended or reader.word in _HARMLESS or reader.takes("LOAD", "INDEX")


def _changed(reader: Reader, in_memory: Callable[[str, str], bool], flavour: Flavour) -> list[TableEffect]:
    if reader.word == "DELETE":
        rest = list(reader.rest())
        alone, reader = Reader(rest, reader.database), Reader(rest, reader.database)
        emptied = alone.tables(most=1) if alone.takes("DELETE", "FROM") else []
        if emptied and alone.ended and in_memory(*emptied[0]):
            return [TableEffect("truncate", *emptied[0])]
    changed = changed_tables(reader, flavour)
    return (
        [TableEffect("rows", "")]
        if changed is None
        else [TableEffect("rows", *name) for name in dict.fromkeys(changed)]
    )


def _dropped(reader: Reader) -> list[TableEffect]:
    if reader.takes("TABLE") or reader.takes("TABLES"):
        reader.skip_condition()
        return [TableEffect("drop", *name) for name in reader.tables()]
    if reader.takes("DATABASE") or reader.takes("SCHEMA"):
        return _database_dropped(reader)
    while reader.takes("ONLINE") or reader.takes("OFFLINE"):
        pass
    return _indexed(reader) if reader.takes("INDEX") else []


def _database_dropped(reader: Reader) -> list[TableEffect]:
    reader.skip_condition()
    return [TableEffect("drop_database", name) for _, name in reader.tables(most=1)]


def _created(reader: Reader, flavour: Flavour) -> list[TableEffect]:
    replaces = reader.takes("OR", "REPLACE")
    if replaces and (reader.takes("DATABASE") or reader.takes("SCHEMA")):
        # MariaDB logs no DROP of its own for it.
        return _database_dropped(reader)
    while any(reader.takes(word) for word in _INDEX_KINDS):
        pass
    if reader.takes("INDEX"):
        return _indexed(reader)
    temporary = reader.takes("TEMPORARY")
    if not reader.takes("TABLE"):
        return []
    reader.skip_condition()
    made = reader.tables(most=1)
    rest = list(reader.rest())
    rows = _rows(rest)
    called = [TableEffect("rows", "")] if calls_unknown(rows, flavour) else []
    if temporary:
        return called
    return [
        *(TableEffect("drop", *name) for name in made if replaces),
        *(TableEffect("create", *name, parents=_cascades(rest, name[0])) for name in made),
        *(TableEffect("rows", *name) for name in made if rows),
        *called,
    ]


def _rows(rest: list[Token]) -> list[Token]:
    """What of a table's definition gives it rows: SELECT, MySQL's TABLE and VALUES, and what follows."""
    depth = 0
    for i, token in enumerate(rest):
        depth += (token.word == "(") - (token.word == ")")
        if token.word == "SELECT" or (not depth and token.word in ("TABLE", "VALUES")):
            return rest[i:]
    return []


def _indexed(reader: Reader) -> list[TableEffect]:
    reader.skip_to("ON")
    return [TableEffect("index", *name) for name in reader.tables(most=1)] if reader.takes("ON") else []


def _renamed(reader: Reader) -> list[TableEffect]:
    if not (reader.takes("TABLE") or reader.takes("TABLES")):
        return []
    reader.skip_condition()
    renames: list[TableEffect] = []
    more = True
    while more and (old := reader.tables(most=1)):
        reader.skip_wait()
        reader.takes("TO")
        renames += [TableEffect("rename", *old[0], to=new) for new in reader.tables(most=1)]
        more = reader.takes(",")
    return renames


def _altered(reader: Reader) -> list[TableEffect]:
    while reader.takes("ONLINE") or reader.takes("OFFLINE") or reader.takes("IGNORE"):
        pass
    if not reader.takes("TABLE"):
        return []
    reader.skip_condition()
    altered = reader.tables(most=1)
    if not altered:
        return []
    table, rest = altered[0], list(reader.rest())
    moves = _moved(table, rest, reader.database)
    parents = _cascades(rest, table[0])
    for i, token in enumerate(rest):
        if token.word == "RENAME" and rest[i - 1 : i] != [DOT]:
            after = Reader(rest[i + 1 :], reader.database)
            if after.word in ("COLUMN", "INDEX", "KEY"):
                continue
            if not after.takes("TO") and not after.takes("AS"):
                after.takes("=")
            return [*moves, *(TableEffect("rename", *table, new, parents) for new in after.tables(most=1))]
    return [*moves, TableEffect("alter", *table, parents=parents)]


def _cascades(rest: list[Token], database: str) -> frozenset[tuple[str, str]]:
    """Parents of the foreign keys of a definition that change rows by cascade; `database`: the child's.

    Of a column's own REFERENCES, which many servers leave out, nothing is said, nor of another engine's keys.
    """
    parents: set[tuple[str, str]] = set()
    parent: list[tuple[str, str]] = []
    words = [token.word for token in rest]
    engines = [word for before, word in pairwise(word for word in words if word != "=") if before == "ENGINE"]
    if engines and engines != ["INNODB"]:
        return frozenset()
    foreign = False
    for i, (word, event, action) in enumerate(zip(words, words[1:], words[2:], strict=False)):
        foreign |= (word, event) == ("FOREIGN", "KEY")
        if word == "REFERENCES":
            parent = Reader(rest[i + 1 :], database).tables(most=1) if foreign else []
            foreign = False
        elif word == "ON" and event in ("DELETE", "UPDATE") and action in ("CASCADE", "SET"):
            parents.update(parent)
    return frozenset(parents)


def _moved(table: tuple[str, str], rest: list[Token], database: str) -> list[TableEffect]:
    """Rows that came or went with a partition; another table may have got or given them."""
    moves: list[TableEffect] = []
    for i, (verb, what) in enumerate(pairwise(rest)):
        if (verb.word, what.word) not in _MOVES:
            continue
        moves.append(TableEffect("reread", *table))
        if verb.word == "CONVERT" and what.word == "TABLE":
            moves += [TableEffect("drop", *other) for other in Reader(rest[i + 2 :], database).tables(most=1)]
        elif verb.word in ("EXCHANGE", "CONVERT"):
            after = [j for j in range(i + 2, len(rest)) if rest[j].word == "TABLE"]
            others = Reader(rest[after[0] + 1 :], database).tables(most=1) if after else []
            for other in others:
                moves += [TableEffect("create", *other)] if verb.word == "CONVERT" else []
                moves.append(TableEffect("reread", *other))
    return moves
