"""Texts of old charsets: a snapshot reads them as the stream does, and neither makes a question mark of any byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.servers.fixture import Give, server
from tests.support.source.capture_harness import CaptureHarness, opened

__all__ = ["server"]

COLUMNS = (
    "id int PRIMARY KEY, cyrillic varchar(20) CHARACTER SET cp1251, plain char(9) CHARACTER SET ascii,"
    " japanese text CHARACTER SET sjis, chinese varchar(20) CHARACTER SET gbk, western varchar(20) CHARACTER SET latin1"
)
GOOD = "'Привет', 'plain', '日本語', '中文', 'Málaga €'"


def aside(world: CaptureHarness) -> dict[str, str]:
    return {each["table"].partition(".")[2]: each["cause"] for each in world.status()["aside"]}


@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-9.7"])
def test_a_byte_that_is_no_text_sets_a_table_aside_by_snapshot_and_by_stream(
    name: str, server: Give, unique: str, tmp_path: Path, kafka: str, registry_url: str
) -> None:
    with opened(unique, tmp_path, server(name), kafka, registry_url) as world:
        for table in ("early", "late", "whole"):
            world.sql(f"CREATE TABLE {table} ({COLUMNS}) CHARACTER SET utf8mb4")
            world.sql(f"INSERT INTO {table} VALUES (1, {GOOD})")
        # No character of cp1251 has this byte; a server that converts it says `?`.
        odd = "(2, _cp1251 x'c098', 'plain', '', '', '')"
        world.sql(f"INSERT INTO early VALUES {odd}")
        assert world.ask(f"SELECT cyrillic FROM {unique}.early WHERE id = 2") == [("А?",)]
        world.run("run", "--snapshot")
        capture = world.start("run")
        world.wait(lambda: "early" in aside(world))
        world.sql(f"INSERT INTO late VALUES {odd}", f"INSERT INTO whole VALUES (2, {GOOD})")
        world.wait(lambda: set(aside(world)) == {"early", "late"})
        assert all("cyrillic" in reason for reason in aside(world).values()), aside(world)
        world.wait(lambda: len(world.copy("whole")) == 2)
        assert world.copy("whole") == world.truth("whole")
        first, second = (row[1:] for _, row in sorted(world.copy("whole").items()))
        assert first == second == ("Привет", "plain", "日本語", "中文", "Málaga €")
        world.stop(capture)
