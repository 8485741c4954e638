"""Makes the data folder of a new server: by its own option, or from the SQL files that came with it."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from include.errors import Terminal
from include.local.process import tail
from tests.support.servers.catalogue import Known
from tests.support.servers.program import Program

__all__ = ["create"]

# Old names and new ones; each server has one of each row, or none.
_SCRIPTS = (
    ("mariadb_system_tables.sql", "mysql_system_tables.sql"),
    ("mariadb_performance_tables.sql", "mysql_performance_tables.sql"),
    ("mariadb_system_tables_data.sql", "mysql_system_tables_data.sql"),
)
# The first is for MariaDB 10.4 and newer: root has a password, not the socket's owner.
_BEFORE = "SET @auth_root_socket=NULL, @skip_auth_anonymous=1, @current_hostname='localhost';\nUSE mysql;\n"


def create(row: Known, called: Program, base: Sequence[str], data: Path, log: Path) -> None:
    """Fill `data`, which must not exist; Terminal with what the server said when it fails.

    `base` is the command with the options that say where everything is. A torn attempt leaves no `data`.
    """
    fresh = data.with_name("data.new")
    shutil.rmtree(fresh, ignore_errors=True)
    argv = [part if part != f"--datadir={data}" else f"--datadir={fresh}" for part in base]
    if row.flavour == "mysql" and row.at_least(8):
        argv += ["--initialize-insecure"]
        script = ""
    else:
        (fresh / "mysql").mkdir(parents=True)
        argv += ["--bootstrap", "--max-allowed-packet=8M"]
        script = _BEFORE + "".join(_read(row, called, names) for names in _SCRIPTS)
    with log.open("ab") as output:
        made = subprocess.run(
            argv,
            input=script.encode(),
            env=called.environment,
            cwd=log.parent,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if made.returncode != 0:
        said = " | ".join(tail(log, 4))
        raise Terminal(f"{row.name} could not make its system tables: {said}", fix=f"See {log}.")
    if row.flavour == "mysql":
        # Else the server takes one that is made from the network card's address.
        (fresh / "auto.cnf").write_text(f"[auto]\nserver-uuid={uuid.uuid4()}\n")
    fresh.rename(data)


def _read(row: Known, called: Program, names: tuple[str, ...]) -> str:
    for name in names:
        path = called.share / name
        if path.exists():
            return path.read_text("utf-8") + "\n"
    if names[0] == _SCRIPTS[1][0]:
        return ""
    raise Terminal(
        f"{row.name} has no {names[-1]} in {called.share}",
        fix=f"Run again: python -m tests.support.servers fetch {row.name}",
    )
