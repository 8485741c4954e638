"""Foreign keys by which InnoDB itself changes rows of a child table; servers before MySQL 9.6 do not log these rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

from include.errors import Terminal
from include.source.database.server import AskServer, Server

__all__ = ["cascades_into", "cascading_keys", "changes_others", "traces", "untraced_cascades"]

_CASCADES: Final = """
SELECT constraint_schema, table_name, constraint_name, referenced_table_name
FROM information_schema.referential_constraints
WHERE constraint_schema IN ({}) AND (delete_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
                                     OR update_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT'))"""

_OTHERS: Final = """
SELECT 1 FROM information_schema.views WHERE table_schema = %s AND table_name = %s
UNION ALL
SELECT 1 FROM information_schema.triggers WHERE event_object_schema = %s AND event_object_table = %s
UNION ALL
SELECT 1 FROM information_schema.referential_constraints
WHERE unique_constraint_schema = %s AND referenced_table_name = %s
      AND (delete_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
           OR update_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT'))"""
# Of these servers allow neither triggers nor keys.
_OF_THE_SERVER: Final = frozenset({"mysql", "sys", "performance_schema", "information_schema"})
_NO_SUCH_TABLE: Final = 1146
_KEY: Final = re.compile(
    r"^ +(?:CONSTRAINT .*)?FOREIGN KEY .* REFERENCES (\S.*) \("
    r".* ON (?:DELETE|UPDATE) (?:CASCADE|SET NULL|SET DEFAULT)\b",
    re.MULTILINE,
)


def cascades_into(ask: AskServer, database: str, table: str, *, itself: bool = False) -> bool:
    """Whether such a key changes rows of the table; False for one that is gone. `itself`: only a key of its own rows.

    From SHOW CREATE TABLE, which an account sees that may only read; `information_schema` hides keys from it.
    """
    names = ".".join(map(_quoted, (database, table)))
    try:
        rows = ask(f"SHOW CREATE TABLE {names}")
    except Terminal as refusal:
        if refusal.details.get("code") == _NO_SUCH_TABLE:
            return False
        raise
    parents = _KEY.findall(str(rows[0][1]))
    # A parent of another database is shown with it.
    return _quoted(table).lower() in map(str.lower, parents) if itself else bool(parents)


def traces(server: Server) -> Literal["rows", "maps", "none"]:
    """What its binlog has of rows that a key changes.

    rows: all of them; maps: their table's map, without rows, unless the key is of the table's own rows; none: nothing.
    """
    if server.flavour == "mysql":
        return "rows" if server.version >= (9, 6, 0) else "none"
    return "maps" if server.version >= (10, 2, 0) else "none"


def untraced_cascades(ask: AskServer, server: Server, database: str, table: str) -> bool:
    """Whether a key changes rows of the table of which the binlog has no trace."""
    trace = traces(server)
    return trace != "rows" and cascades_into(ask, database, table, itself=trace == "maps")


def changes_others(ask: AskServer, database: str, table: str) -> bool:
    """Whether a statement that changes rows of the table may change those of others: a view, triggers, cascading keys.

    As far as the account may see them; triggers need the privilege TRIGGER.
    """
    return database.lower() not in _OF_THE_SERVER and bool(ask(_OTHERS, *(database, table) * 3))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def cascading_keys(ask: AskServer, databases: Iterable[str]) -> list[tuple[str, str, str, str]]:
    """(database, child table, constraint, parent table) of each such key; one question."""
    names = list(databases)
    marks = ", ".join(["%s"] * len(names))
    return [
        (str(database), str(table), str(constraint), str(parent))
        for database, table, constraint, parent in ask(_CASCADES.format(marks), *names)
    ]
