"""Starts a server on 127.0.0.1 for the length of a `with`, in a process group of its own, and stops it by its pid."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql

from include.clock import Clock, SystemClock
from include.errors import Terminal
from include.local import process
from include.local.cause import cause
from include.local.ports import free_port
from tests.support.servers.catalogue import Flavour, Known, known
from tests.support.servers.fetch import fetch
from tests.support.servers.program import Program, program
from tests.support.servers.reaper import leashed
from tests.support.servers.system_tables import create

__all__ = ["Server", "running"]

_PATIENCE_S = 60.0
_ROW_LOG = ("--loose-binlog-format=ROW", "--loose-binlog-row-image=FULL", "--loose-binlog-row-metadata=FULL")
_FLAVOURS = {
    # MariaDB 11.4 and newer make a key at every start, which takes this build of 11.4 seven seconds.
    "mariadb": ("--gtid-strict-mode=1", "--log-slave-updates", "--skip-ssl"),
    "mysql": ("--loose-mysqlx=OFF", "--performance-schema=OFF"),
}
_GTID = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON")


@dataclass(frozen=True)
class Server:
    """A server that answers. `version` is what it says itself; data and binlogs (`bin.000001`, …) lie in `data`."""

    name: str
    flavour: Flavour
    version: str
    host: str
    port: int
    root_password: str
    data: Path
    process: process.StartedProcess

    def connect(
        self, user: str = "root", password: str | None = None, database: str | None = None, **more: Any
    ) -> pymysql.connections.Connection[Any]:
        """A connection, as root unless told otherwise; autocommit is on. `more` goes to pymysql."""
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=user,
            password=self.root_password if password is None else password,
            database=database,
            **{"autocommit": True, **more},
        )


@contextmanager
def running(
    name: str, folder: Path, options: Sequence[str] = (), clock: Clock | None = None, server_id: int = 1
) -> Iterator[Server]:
    """Fetch if need be, start, yield, stop. A `folder` that was used before is started again with its data.

    Row binlog with full images (and metadata where the server can), GTIDs on where the version is used so (not MySQL
    5.6), no TLS on MariaDB (`--ssl` turns it on); `options` come last and win. Terminal, with the last lines of the
    server's log, when it does not come up.
    """
    clock = clock or SystemClock()
    row = known(name)
    fetch(row, clock)
    called = program(row)
    folder = folder.absolute()
    data, log = folder / "data", folder / "server.log"
    folder.mkdir(parents=True, exist_ok=True)
    base = (*called.argv, *_base_options(row, called, data))
    if not data.exists():
        create(row, called, base, data, log)
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    password, init, port = secrets.token_urlsafe(12), folder / "accounts.sql", free_port()
    init.touch(mode=0o600)
    init.write_text(_accounts(row, password))
    launch = process.Launch(
        name=name,
        argv=(
            *base,
            # Relative to the data folder: a full path may be longer than a socket's name can be.
            "--socket=socket",
            f"--pid-file={folder / 'pid'}",
            f"--port={port}",
            "--bind-address=127.0.0.1",
            f"--server-id={server_id}",
            f"--log-bin={data / 'bin'}",
            # A server that starts deletes the temporary tables of those that share its folder for them.
            f"--tmpdir={temporary}",
            *_ROW_LOG,
            *_FLAVOURS[row.flavour],
            *(_GTID if row.flavour == "mysql" and row.at_least(8) else ()),
            "--skip-name-resolve",
            "--max-allowed-packet=256M",
            "--innodb-buffer-pool-size=32M",
            "--secure-file-priv=",
            f"--init-file={init}",
            *options,
        ),
        env=called.environment,
        cwd=str(folder),
        log=str(log),
    )
    started = process.start(launch)
    with leashed(started) as identity:
        try:
            version = _ready(row, port, password, started.poll, log, clock)
            yield Server(name, row.flavour, version, "127.0.0.1", port, password, data, identity)
        finally:
            process.stop([(identity, 20.0)], clock)
            started.wait()


def _base_options(row: Known, called: Program, data: Path) -> tuple[str, ...]:
    options = (
        "--no-defaults",
        f"--basedir={called.base}",
        f"--datadir={data}",
        f"--lc-messages-dir={called.share}",
        f"--character-sets-dir={called.share / 'charsets'}",
        f"--plugin-dir={called.plugins}",
        # So that recordings of all versions speak of the same things.
        "--character-set-server=utf8mb4",
        "--collation-server=utf8mb4_general_ci",
        "--default-time-zone=+00:00",
    )
    return (*options, "--user=root") if os.geteuid() == 0 else options


def _accounts(row: Known, password: str) -> str:
    """One statement a line, run before the server listens and kept out of its binlog."""
    lines = ["SET SESSION sql_log_bin=0;"]
    if row.flavour == "mysql" and row.at_least(8):
        lines += [
            f"CREATE USER IF NOT EXISTS root@'127.0.0.1' IDENTIFIED BY '{password}';",
            f"ALTER USER root@'127.0.0.1' IDENTIFIED BY '{password}';",
            f"ALTER USER root@localhost IDENTIFIED BY '{password}';",
        ]
    else:
        if row.flavour == "mariadb":
            lines += ["CREATE USER IF NOT EXISTS root@'127.0.0.1';"]
        lines += [
            f"SET PASSWORD FOR root@'127.0.0.1' = PASSWORD('{password}');",
            f"SET PASSWORD FOR root@localhost = PASSWORD('{password}');",
        ]
    return "\n".join([*lines, "GRANT ALL PRIVILEGES ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;", ""])


def _ready(row: Known, port: int, password: str, ended: Any, log: Path, clock: Clock) -> str:
    begin = clock.monotonic_s()
    while clock.monotonic_s() - begin < _PATIENCE_S and ended() is None:
        try:
            connection = pymysql.connect(
                host="127.0.0.1", port=port, user="root", password=password, connect_timeout=5, ssl_disabled=True
            )
        except (pymysql.Error, OSError):
            clock.sleep(0.1)
            continue
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT VERSION()")
            (version,) = cursor.fetchone() or ("",)
        if not re.match(rf"{re.escape(row.version)}(?!\d)", version):
            raise Terminal(
                f"{row.name} is {version} here, not {row.version}",
                fix="The archive has moved on: name the new version in tests/support/servers/catalogue.py.",
            )
        return str(version)
    raise _silent(row.name, log)


def _silent(name: str, log: Path) -> Terminal:
    said = " | ".join(cause(process.written(log)))
    return Terminal(f"{name} did not come up: {said}", fix=f"See {log}.")
