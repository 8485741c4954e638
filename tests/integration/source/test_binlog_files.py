"""What servers of each kind say of their binlog files: sizes, limits, when one began."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from include.clock import SystemClock
from include.record.position import BinlogPosition
from include.source.database.binlog_files import BinlogFiles
from include.source.database.preflight import preflight
from include.source.definition import SourceDefinition
from tests.support.servers import SERVERS
from tests.support.servers.fixture import Give, server

__all__ = ["server"]

DAY_US = 86_400_000_000


@pytest.mark.parametrize("name", [row.name for row in SERVERS])
def test_lag_and_purge_horizon_are_told(name: str, server: Give) -> None:
    given = server(name, "--loose-expire-logs-days=2", "--loose-binlog-expire-logs-seconds=172800")
    with given.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE told")
        cursor.execute("CREATE TABLE told.t (id int, f float(7,2))")
        cursor.execute("FLUSH LOGS")
        cursor.execute("INSERT INTO told.t VALUES (1, 1.5)")
        cursor.execute("SHOW BINARY LOGS")
        names = [str(row[0]) for row in cursor.fetchall()]
    source = SourceDefinition(
        host=given.host, port=given.port, user="root", password=SecretStr(given.root_password), databases=["told"]
    )
    clock = SystemClock()
    files = BinlogFiles(source, clock)
    first = files.look(BinlogPosition(names[0], 4))
    assert first.lag_bytes is not None
    assert first.lag_bytes > 100
    assert first.horizon.hours == pytest.approx(48, abs=0.1)
    assert "from the last write" in first.horizon.basis
    assert first.oldest_age_h == pytest.approx(0, abs=0.1)
    end = files.look_at_end()
    assert (end.lag_bytes, end.horizon.hours) == (0, 48.0)
    began = files.started(names[-1])
    assert began is not None
    assert 0 <= clock.now_us() - began + 1_000_000 < DAY_US
    assert files.started("bin.999999") is None
    warned = {found.place for found in preflight(source) if found.level == "warn"}
    assert {"told.t", "told.t.f"} <= warned
