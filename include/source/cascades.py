"""Foreign keys by which InnoDB itself changes rows of a child table; servers before MySQL 9.6 do not log these rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from include.source.server import Ask

__all__ = ["cascading_keys"]

_CASCADES: Final = """
SELECT constraint_schema, table_name, constraint_name, referenced_table_name
FROM information_schema.referential_constraints
WHERE constraint_schema IN ({}) AND (delete_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
                                     OR update_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT'))"""


def cascading_keys(ask: Ask, databases: Iterable[str]) -> list[tuple[str, str, str, str]]:
    """(database, child table, constraint, parent table) of each such key; one question."""
    names = list(databases)
    marks = ", ".join(["%s"] * len(names))
    return [
        (str(database), str(table), str(constraint), str(parent))
        for database, table, constraint, parent in ask(_CASCADES.format(marks), *names)
    ]
