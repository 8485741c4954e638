"""Each server of the table starts, logs rows, and finds its data again."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.support.golden.cases import cases_of
from tests.support.golden.record import record
from tests.support.golden.recording import load
from tests.support.servers import SERVERS, known, running
from tests.support.servers.fixture import AT_ONCE, Give, require_here, server

__all__ = ["server"]

_NAMES = [row.name for row in SERVERS]


@pytest.mark.parametrize("name", _NAMES)
def test_a_server_is_of_the_version_and_logs_rows(server: Give, name: str) -> None:
    given = server(name)
    with given.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@global.log_bin, @@global.binlog_format")
        assert cursor.fetchone() == (1, "ROW")
    listening = [c.laddr for c in psutil.Process(given.process.pid).net_connections("tcp") if c.status == "LISTEN"]
    assert listening == [("127.0.0.1", given.port)]
    assert given.version.startswith(known(name).version)


@pytest.mark.parametrize("name", _NAMES)
def test_a_case_recorded_again_says_the_same_rows(server: Give, name: str) -> None:
    kept = load(name, {"mariadb-10.11": "uuid-inet", "mariadb-11.8": "vectors"}.get(name, "decimals"))
    again = record(server(name), cases_of(name)[kept.case])
    assert again.rows() == kept.rows()
    assert again.schema() == kept.schema()


def test_a_server_that_gave_way_comes_back_with_its_data(server: Give) -> None:
    names = [row.name for row in SERVERS if row.flavour == "mariadb"][: AT_ONCE + 1]
    first = server(names[0])
    with first.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS kept")
    for name in names[1:]:
        server(name)
    assert not psutil.pid_exists(first.process.pid)
    with server(names[0]).connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW DATABASES LIKE 'kept'")
        assert cursor.fetchone() == ("kept",)


def test_a_folder_that_was_used_is_started_again_and_nothing_is_left(tmp_path: Path) -> None:
    name = "mariadb-11.4"
    require_here(name)
    with running(name, tmp_path) as first, first.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE kept")
    assert not psutil.pid_exists(first.process.pid)
    options = ["--binlog-checksum=NONE"]
    with (
        running(name, tmp_path, options, server_id=7) as second,
        second.connect() as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SHOW DATABASES LIKE 'kept'")
        assert cursor.fetchone() == ("kept",)
        cursor.execute("SELECT @@server_id, @@binlog_checksum")
        assert cursor.fetchone() == (7, "NONE")
    assert not psutil.pid_exists(second.process.pid)
