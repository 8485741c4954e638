"""The documents' commands before they reach a server: which topic is meant, how long a request still takes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from click.testing import CliRunner

from include.cli.documents import check
from include.cli.documents.commands import COMMANDS, command
from include.cli.documents.options import ShownRequest, chosen
from include.cli.documents.status import _Status
from include.document.definition import DocumentDefinition
from include.document.indexes import looked_up
from include.errors import SettingsError, Terminal
from tests.support.paths import ROOT

SHIPPED = ROOT / "include" / "deployment" / "documents.yaml"


def declare(folder: Path, *topics: str) -> None:
    entry = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))["documents"]["assembled_order"]
    application = {"entry": "spark_apps/assemble_documents.py"}
    values = {
        "documents": {topic: entry | {"application": f"a_{topic}"} for topic in topics},
        "applications": {f"a_{topic}": application | {"topics": [topic]} for topic in topics},
        "sources": {"shop": {"host": "h"}},
    }
    (folder / "all.yaml").write_text(yaml.safe_dump(values))


def test_the_one_topic_needs_no_name_and_of_several_one_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    declare(tmp_path, "orders")
    assert chosen(None)[1] == chosen("orders")[1] == "orders"
    with pytest.raises(SettingsError, match="no such document topic") as refused:
        chosen("order")
    assert refused.value.details["allowed"] == ["orders"]
    declare(tmp_path, "orders", "carts")
    with pytest.raises(SettingsError, match=r"several topics.*\['carts', 'orders'\].*--topic"):
        chosen(None)
    assert chosen("carts")[1] == "carts"


def test_what_is_left_of_a_request_follows_from_the_share_of_the_keys_and_the_time_that_it_took() -> None:
    running = ShownRequest("r", "running", 1_000, "", 10_000_000, 40_000_000, 0.25)
    assert running.left_s == 90
    assert running.line() == "request r: running, 1,000 documents, 25% of the keys, about 1 min 30 s left"
    assert ShownRequest("r", "done", 4_000, "", 0, 9, 1.0).left_s is None
    unknown = ShownRequest("r", "running", 7, "", 0, 9)
    assert unknown.line() == "request r: running, 7 documents"
    assert unknown.to_json()["left_s"] is None


def test_every_documents_command_has_help() -> None:
    for name in COMMANDS:
        answer = CliRunner().invoke(command, [name, "--help"])
        assert answer.exit_code == 0
        assert "--topic" in answer.stdout


def test_each_missing_index_is_named_with_the_statement_that_adds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class WithoutIndexes:
        def __init__(self, *_: object) -> None:
            self.columns = None

        def indexed(self, table: str, columns: tuple[str, ...]) -> bool:
            return False

        def close(self) -> None:
            pass

    declare(tmp_path, "orders")
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    monkeypatch.setattr(check, "MysqlTables", WithoutIndexes)
    monkeypatch.setattr(check, "database_of", lambda *_: SimpleNamespace(place="h:3306"))
    monkeypatch.setattr(check, "check_columns", lambda *_: None)
    wanted = [each.fix for each in looked_up(chosen(None)[2])]
    assert len(wanted) > 1
    answer = CliRunner().invoke(command, ["check"])
    assert isinstance(answer.exception, Terminal)
    lines = [line for line in answer.stdout.splitlines() if line.startswith("no index: ")]
    assert [line.rpartition(": ")[2] for line in lines] == [f"{statement};" for statement in wanted]
    assert answer.exception.fix == f"{'; '.join(wanted)}."


def test_the_status_tells_of_the_connections_that_large_batches_take(tmp_path: Path) -> None:
    declare(tmp_path, "orders")
    entry = yaml.safe_load((tmp_path / "all.yaml").read_text())["documents"]["orders"]
    definition = DocumentDefinition.model_validate(entry | {"read_connections": 3})
    status = _Status("orders", definition, "h:3306", None, {}, 0.0, [], {})
    assert "  reads from h:3306 by one connection, a large batch by 3 at most, at most 100,000 rows/s" in status.lines()
    assert status.to_json()["read"]["connections"] == 3
