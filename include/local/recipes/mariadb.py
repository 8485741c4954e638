"""MariaDB with a row binlog (FULL image and metadata), GTIDs, and the accounts `capture` and `shop`.

Two instances of it are in the table: the shop's server and the one of advertising, each with a database of its own.

Accounts come from an init file that the server runs before it listens, so there is no moment with an open door. It is
run at every start and kept out of the binlog.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Final

from include.errors import Terminal
from include.local import process
from include.local.cause import cause
from include.local.process import Launch
from include.local.records import write_private
from include.local.services import Service
from include.local.site import Site

__all__ = ["BINLOG", "finish", "prepare", "ready"]

BINLOG = (
    "--binlog-format=ROW",
    "--binlog-row-image=FULL",
    "--binlog-row-metadata=FULL",
    "--gtid-strict-mode=1",
    "--log-slave-updates",
    "--sync-binlog=1",
)
"""What capture needs of a source."""


@dataclass(frozen=True)
class _Instance:
    """What differs between the servers: their ids as sources of a binlog, their databases, their memory for pages."""

    server_id: int
    database: str
    buffer_pool_mb: int


_INSTANCES: Final = {"mariadb": _Instance(1, "shop", 64), "mariadb-ads": _Instance(2, "ads", 16)}

_ACCOUNTS = """\
SET SESSION sql_log_bin=0;
ALTER USER root@localhost IDENTIFIED BY '{root}';
CREATE USER IF NOT EXISTS root@'127.0.0.1' IDENTIFIED BY '{root}';
ALTER USER root@'127.0.0.1' IDENTIFIED BY '{root}';
GRANT ALL PRIVILEGES ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
CREATE USER IF NOT EXISTS capture@'127.0.0.1' IDENTIFIED BY '{capture}';
ALTER USER capture@'127.0.0.1' IDENTIFIED BY '{capture}';
GRANT REPLICATION SLAVE, BINLOG MONITOR, SLAVE MONITOR, SELECT, REFERENCES, TRIGGER ON *.* TO capture@'127.0.0.1';
CREATE USER IF NOT EXISTS shop@'127.0.0.1' IDENTIFIED BY '{shop}';
ALTER USER shop@'127.0.0.1' IDENTIFIED BY '{shop}';
CREATE DATABASE IF NOT EXISTS {database} CHARACTER SET utf8mb4;
GRANT ALL PRIVILEGES ON {database}.* TO shop@'127.0.0.1';
DELETE FROM mysql.global_priv WHERE Host NOT IN ('localhost', '127.0.0.1') OR User = '';
FLUSH PRIVILEGES;
"""


def prepare(site: Site, row: Service) -> tuple[Launch, ...]:
    """Create the data folder once, write the init file, return the server."""
    folder, home, instance = site.give(row), site.install(row), _INSTANCES[row.name]
    environment = site.server_environment(row, LD_LIBRARY_PATH=str(home / "libs"))
    data = folder / "data"
    if not (data / "mysql").exists():
        _create(site, row, environment)
    init = folder / "accounts.sql"
    write_private(  # by rename: root follows no link that the account has put there
        init,
        _ACCOUNTS.format(
            root=site.secrets["LYREBIRD_MYSQL_ROOT_PASSWORD"],
            capture=site.secrets["LYREBIRD_MYSQL_PASSWORD"],
            shop=site.secrets["LYREBIRD_SHOP_PASSWORD"],
            database=instance.database,
        ),
    )
    site.give(row)
    argv = (
        str(home / "bin" / "mariadbd"),
        "--no-defaults",
        f"--basedir={home}",
        f"--datadir={data}",
        # Relative to the data folder: a full path may be longer than a socket's name can be.
        "--socket=socket",
        f"--pid-file={folder / 'pid'}",
        f"--port={site.ports[row.ports[0].name]}",
        "--bind-address=127.0.0.1",
        f"--server-id={instance.server_id}",
        f"--log-bin={data / 'bin'}",
        # A server that starts deletes the temporary tables of those that share this folder.
        f"--tmpdir={folder / 'tmp'}",
        *BINLOG,
        # Loopback alone is served, and making a key for TLS takes seven seconds of each start.
        "--skip-ssl",
        "--skip-name-resolve",
        "--character-set-server=utf8mb4",
        "--max-connections=100",
        f"--innodb-buffer-pool-size={instance.buffer_pool_mb}M",
        f"--init-file={init}",
        f"--lc-messages-dir={home / 'share'}",
        f"--character-sets-dir={home / 'share' / 'charsets'}",
        f"--plugin-dir={home / 'lib' / 'plugin'}",
    )
    return (site.launch(row, argv, environment),)


def _create(site: Site, row: Service, environment: dict[str, str]) -> None:
    """Have the system tables made in a side folder and move it into place, so that a torn attempt leaves nothing."""
    folder, home = site.folder(row), site.install(row)
    fresh = folder / "data.new"
    shutil.rmtree(fresh, ignore_errors=True)
    argv = [
        str(home / "scripts" / "mariadb-install-db"),
        "--no-defaults",
        f"--basedir={home}",
        f"--datadir={fresh}",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--skip-name-resolve",
    ]
    made = process.run(site.launch(row, argv, environment))
    if made.returncode != 0:
        said = " | ".join(cause(made.stdout + made.stderr))
        raise Terminal(
            f"mariadb-install-db failed with {made.returncode}: {said}",
            fix="`lyrebird doctor` tells whether a shared library is missing.",
        )
    fresh.rename(folder / "data")


def ready(site: Site, row: Service) -> bool:
    """A query as root over TCP."""
    import pymysql

    try:
        connection = pymysql.connect(
            host="127.0.0.1",
            port=site.ports[row.ports[0].name],
            user="root",
            password=site.secrets["LYREBIRD_MYSQL_ROOT_PASSWORD"],
            connect_timeout=2,
        )
    except (pymysql.Error, OSError):
        return False
    with connection, connection.cursor() as cursor:
        database = _INSTANCES[row.name].database
        cursor.execute("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (database,))
        return cursor.fetchone() is not None


def finish(site: Site, row: Service) -> None:
    """Nothing: the init file has done it."""
