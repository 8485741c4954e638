"""Foreign keys by which InnoDB itself changes rows of a child table; servers before MySQL 9.6 do not log these rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from include.errors import Terminal
from include.source.database.server import Ask

__all__ = ["cascades_into", "cascading_keys"]

_CASCADES: Final = """
SELECT constraint_schema, table_name, constraint_name, referenced_table_name
FROM information_schema.referential_constraints
WHERE constraint_schema IN ({}) AND (delete_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
                                     OR update_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT'))"""

_NO_SUCH_TABLE: Final = 1146
_KEY: Final = re.compile(
    r"^ +(?:CONSTRAINT .*)?FOREIGN KEY .* ON (?:DELETE|UPDATE) (?:CASCADE|SET NULL|SET DEFAULT)\b", re.MULTILINE
)


def cascades_into(ask: Ask, database: str, table: str) -> bool:
    """Whether such a key changes rows of the table; False for one that is gone.

    From SHOW CREATE TABLE, which an account sees that may only read; `information_schema` hides keys from it.
    """
    names = ".".join(f"`{name.replace('`', '``')}`" for name in (database, table))
    try:
        rows = ask(f"SHOW CREATE TABLE {names}")
    except Terminal as refusal:
        if refusal.details.get("code") == _NO_SUCH_TABLE:
            return False
        raise
    return _KEY.search(str(rows[0][1])) is not None


def cascading_keys(ask: Ask, databases: Iterable[str]) -> list[tuple[str, str, str, str]]:
    """(database, child table, constraint, parent table) of each such key; one question."""
    names = list(databases)
    marks = ", ".join(["%s"] * len(names))
    return [
        (str(database), str(table), str(constraint), str(parent))
        for database, table, constraint, parent in ask(_CASCADES.format(marks), *names)
    ]
