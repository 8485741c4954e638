"""`lyrebird audit join`, `documents`, `tables` of a stack in which nothing of it runs yet, over a log in memory."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from include.audit import begun
from include.audit.documents import run as documents_run
from include.audit.joins import joins_spark
from include.audit.merkle import run as tables_run
from include.cli.audit import commands as audits
from include.errors import Transient
from include.log import topics
from include.log.memory import MemoryLog
from include.log.running import batches_spark
from tests.support.paths import ROOT

SHIPPED = ROOT / "include" / "deployment" / "documents.yaml"
TABLE = "cdc.shop.shop.orders"
JOIN = {
    "join": [{"topic": "sales.reviews", "join_keys": ["id"]}, {"topic": "sales.shops", "join_keys": ["id"]}],
    "output": {"namespace": "sales", "source": "reviewed"},
}


class Stack:
    """A deployment of which nothing runs, and its log."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        document = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))["documents"]["assembled_order"]
        source = {"host": "db", "port": 3306, "user": "u", "password": "p", "databases": ["shop"]}
        declared = {
            "kafka": {"bootstrap": "127.0.0.1:9"},
            "registry": {"url": "http://127.0.0.1:9"},
            "sources": {"shop": source},
            "applications": {
                "assemble": {"entry": "spark_apps/assemble_documents.py", "topics": ["assembled_order"]},
                "join_reviews": {"entry": "spark_apps/join.py", "topics": ["sales.reviewed"]},
            },
            "documents": {"assembled_order": document | {"application": "assemble"}},
            "joins": {"reviewed": {"application": "join_reviews", "file": "reviewed.yaml"}},
            "audits": {"reviewed": {"kind": "join", "join": "reviewed"}},
        }
        (folder / "deployment").mkdir()
        (folder / "deployment" / "all.yaml").write_text(yaml.safe_dump(declared))
        (folder / "deployment" / "reviewed.yaml").write_text(yaml.safe_dump(JOIN))
        monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(folder / "deployment"))
        self.log = MemoryLog()
        for module in (documents_run, joins_spark, tables_run):
            monkeypatch.setattr(module, "KafkaReader", lambda *_, **__: self.log.reader())
            monkeypatch.setattr(module, "KafkaAdmin", lambda *_, **__: self.log.admin())
        monkeypatch.setattr(begun, "_SETTLES_S", 0.0)
        monkeypatch.setattr(batches_spark, "session", lambda *_: SimpleNamespace(stop=lambda: None))
        monkeypatch.setattr(tables_run, "captured_tables", lambda *_: ["shop.orders"])

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(audits.command, arguments)

    def write(self, topic: str) -> None:
        """A record that nobody speaks for."""
        self.log.admin().ensure(topics.document_spec(topic, 2))
        writer = self.log.writer("w")
        writer.begin()
        writer.append(topic, b"k", b"v", partition=1)
        writer.commit()


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    return Stack(tmp_path, monkeypatch)


AUDITS = pytest.mark.parametrize(
    ("arguments", "topic", "start"),
    [
        (("join", "reviewed"), "sales.reviewed", "Start the application join_reviews."),
        (("documents",), "assembled_order", "Start the application assemble."),
        (("tables",), TABLE, "Is capture running? `lyrebird capture status`"),
    ],
)


@AUDITS
def test_what_has_not_begun_is_neither_clean_nor_wrong(
    stack: Stack, arguments: tuple[str, ...], topic: str, start: str
) -> None:
    found = stack(*arguments)
    assert (found.exit_code, found.stderr) == (4, "")
    first = found.stdout.splitlines()[0]
    assert f": nothing to judge: there is no such topic yet (topic='{topic}'). {start}" in first
    told: dict[str, Any] = json.loads(stack(*arguments, "--json").stdout)
    (entry,) = told["tables"].values() if "tables" in told else [told]
    assert (entry["verdict"], entry["findings"], entry["next_command"]) == ("nothing", 0, "")
    stack.log.admin().ensure(topics.document_spec(topic, 2))
    assert stack(*arguments).exit_code == 4


@AUDITS
def test_what_is_there_without_what_speaks_for_it_is_lost(
    stack: Stack, arguments: tuple[str, ...], topic: str, start: str
) -> None:
    stack.write(topic)
    found = stack(*arguments)
    assert found.exit_code == 2
    assert "complete to is not told any more" in found.output
    assert start not in found.output


def test_a_repair_of_what_has_not_begun_asks_nobody(stack: Stack) -> None:
    assert stack("join", "reviewed", "--repair").exit_code == 4
    assert stack.log.admin().names() == []


def test_a_source_without_a_captured_table_has_nothing_to_judge(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_run, "captured_tables", lambda *_: [])
    found = stack("tables")
    assert (found.exit_code, found.stdout) == (4, "0 tables: none\n")


def test_a_lake_table_that_no_entry_keeps_is_told_before_the_log_is_asked(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise Transient("no broker answers", system="kafka", attempt=1)

    monkeypatch.setattr(tables_run, "KafkaReader", away)
    assert stack("tables").exit_code == 2
    for arguments, says in (
        (("--against", "lake"), "no lake table of this topic is kept"),
        (("--of", "topic"), "has no lake table that could be compared"),
    ):
        told = stack("tables", *arguments).stdout
        assert says in told
        assert "no broker answers" not in told
