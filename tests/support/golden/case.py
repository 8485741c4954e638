"""What a case is: a script of SQL of one subject, and the servers on which it makes sense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.support.servers.catalogue import SERVERS, Known

__all__ = ["DATABASE", "MARIADB", "MYSQL", "Case", "Fails", "In", "Step", "both", "mariadb", "mysql"]

DATABASE = "golden"
"""The database that every script finds empty and selected."""


@dataclass(frozen=True)
class In:
    """A statement in another session than the first, which has no name."""

    session: str
    sql: str


@dataclass(frozen=True)
class Fails:
    """A statement that the server must refuse with this error, maybe after some of its rows were written."""

    error: int
    sql: str


Step = str | In | Fails


@dataclass(frozen=True)
class Case:
    """`script` runs between two FLUSH BINARY LOGS; `setup` and `restore` before and after, outside of the recording.

    A script may be a function of the server where the dialects differ. `options` are for the server's start. `files`
    are patterns of files of MariaDB's test data that are copied into the database's folder first, `definitions` tables
    (name, bytes of the .frm) that are written there.
    """

    name: str
    on: Callable[[Known], bool]
    script: tuple[Step, ...] | Callable[[Known], tuple[Step, ...]]
    setup: tuple[str, ...] = ()
    restore: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    definitions: tuple[tuple[str, bytes], ...] = ()

    def steps(self, row: Known) -> tuple[Step, ...]:
        """The script for that server."""
        return self.script if isinstance(self.script, tuple) else self.script(row)

    def servers(self) -> list[str]:
        """Names of the servers that can run it."""
        return [row.name for row in SERVERS if self.on(row)]


def mariadb(*version: int) -> Callable[[Known], bool]:
    """MariaDB, of that version or newer."""
    return lambda row: row.flavour == "mariadb" and row.at_least(*version)


def mysql(*version: int) -> Callable[[Known], bool]:
    """MySQL, of that version or newer."""
    return lambda row: row.flavour == "mysql" and row.at_least(*version)


def both(least_mariadb: tuple[int, ...] = (), least_mysql: tuple[int, ...] = ()) -> Callable[[Known], bool]:
    """Either, of these versions or newer."""
    return lambda row: mariadb(*least_mariadb)(row) or mysql(*least_mysql)(row)


MARIADB = mariadb()
MYSQL = mysql()
