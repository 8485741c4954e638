"""Columns that rows are looked up by: real servers are asked whether they have an index for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from pydantic import SecretStr

from include.cli.documents.commands import command
from include.document.database import DatabaseAddress
from include.document.indexes import unindexed
from include.document.reading.mysql import MysqlTables
from include.errors import Terminal
from tests.integration.document.test_keys import DEFINITION, TABLES
from tests.support.servers import Server
from tests.support.servers.fixture import Give, server
from tests.support.source.replica_pair import ask

__all__ = ["server"]


def lacking(tables: MysqlTables) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.table, each.columns) for each in unindexed(DEFINITION, tables.indexed)]


def check(at: Server, folder: Path) -> tuple[int, dict[str, object], BaseException | None]:
    """`lyrebird documents check --json`."""
    account = {"host": at.host, "port": at.port, "user": "root", "password": at.root_password}
    values = {
        "documents": {"parcels": DEFINITION.model_dump()},
        "applications": {"assemble_parcels": {"entry": "spark_apps/assemble_documents.py", "topics": ["parcels"]}},
        "sources": {"depot": {**account, "databases": ["depot"]}},
    }
    (folder / "all.yaml").write_text(yaml.safe_dump(values))
    answer = CliRunner().invoke(command, ["check", "--json"], env={"LYREBIRD_DEPLOYMENT": str(folder)})
    return answer.exit_code, json.loads(answer.stdout), answer.exception


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-5.6", "mysql-9.7"])
def test_what_an_index_would_find_is_known_whether_tables_have_rows_or_not(
    name: str, server: Give, tmp_path: Path
) -> None:
    at = server(name)
    ask(at, "DROP DATABASE IF EXISTS depot", "CREATE DATABASE depot", "USE depot", *TABLES)
    tables = MysqlTables(
        DatabaseAddress(host=at.host, port=at.port, user="root", password=SecretStr(at.root_password)), "depot"
    )
    assert lacking(tables) == []
    assert check(at, tmp_path)[:2] == (
        0,
        {
            "topic": "parcels",
            "looked_up": 5,
            "unindexed": [],
            "unheard": ["marked", "marks"],
            "masked": [],
            "unmasked": [],
        },
    )
    many = ", ".join(f"('p{n}', {n}, 'done', 1, 'Nord')" for n in range(2_000))
    ask(
        at,
        "USE depot",
        f"INSERT INTO parcels (code, leg, state, kg, depot) VALUES {many}",
        "ALTER TABLE parcels DROP INDEX depot",
        "ALTER TABLE marked DROP INDEX code",
        "TRUNCATE marked",
    )
    assert lacking(tables) == [("marked", ("code", "leg")), ("parcels", ("depot",))]
    tables.close()
    code, said, error = check(at, tmp_path)
    assert code == 1
    assert [each["fix"] for each in said["unindexed"]] == [  # type: ignore[attr-defined]
        "ALTER TABLE `marked` ADD INDEX (`code`, `leg`)",
        "ALTER TABLE `parcels` ADD INDEX (`depot`)",
    ]
    assert isinstance(error, Terminal)
