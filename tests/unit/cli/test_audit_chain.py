"""`lyrebird audit chain` over a bucket in memory: what it prints, and how it ends."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from include.audit.chain import platform as chain_platform
from include.audit.chain.run_params import verdict_of
from include.cli.audit import commands as audits
from include.errors import Transient
from include.lake.protocol import chain
from include.lake.protocol.pointer import read_pointer
from include.store.memory import MemoryStore
from tests.support.lake.chain_harness import GROUPS, ChainHarness

STORE = {"endpoint": "http://127.0.0.1:9", "bucket": "lake", "access_key": "a", "secret_key": "secret-password"}
SERVERS = {
    "kafka": {"bootstrap": "127.0.0.1:9"},
    "store": STORE,
    "expiry": STORE | {"access_key": "b"},
}


class Run:
    """Calls the command on a deployment of its own, whose groups have stored a topic."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        declared = {name: group.model_dump(mode="json", exclude_unset=True) for name, group in GROUPS.items()}
        (folder / "deployment.yaml").write_text(json.dumps(SERVERS | {"lake": declared}), "utf-8")
        monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(folder))
        self.world = ChainHarness(folder / "world")
        self.world.fill(2)
        self.compacted: bool | None = False
        self.asked: list[str] = []
        monkeypatch.setattr(self.world.store, "close", lambda: None, raising=False)
        monkeypatch.setattr(chain_platform, "store_of", lambda _settings: self.world.store)
        monkeypatch.setattr(chain_platform, "KafkaAdmin", lambda *_, **__: self)

    def __call__(self, *arguments: str) -> Result:
        result = CliRunner().invoke(audits.command, ["chain", *arguments])
        assert "secret-password" not in result.output
        return result

    def compacts(self, topic: str) -> bool | None:
        """As `KafkaAdmin`'s."""
        self.asked.append(topic)
        if self.compacted is None:
            raise Transient("Kafka does not answer", system="kafka")
        return self.compacted


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, monkeypatch)


def test_a_clean_topic_ends_with_0(run: Run) -> None:
    for arguments in (["e"], ["--all"], ["e", "--group", "raw"], ["e", "--labels"], ["e", "--deep"]):
        found = run(*arguments)
        assert found.exit_code == 0
        assert found.stdout.startswith("chains of e: clean (")
    assert run("e", "--group", "raw").stdout.count("backup") == 1
    assert run.asked == []


def test_findings_end_with_1_and_have_their_next_commands(run: Run) -> None:
    run.world.store.delete(run.world.commits("raw")[0].files[0].key)
    found = run("e")
    assert found.exit_code == 1
    assert "  next: lyrebird lake where e 0 0\n" in found.stdout
    told = json.loads(run("e", "--json").stdout)
    assert (told["clean"], told["topics"]["e"]["findings"][0]["fault"]) == (False, "object missing")


def test_a_report_is_written_and_findings_end_with_0_then(run: Run, tmp_path: Path) -> None:
    run.world.store.delete(run.world.commits("raw")[0].files[0].key)
    report = tmp_path / "report.json"
    assert run("--all", "--report", str(report)).exit_code == 0
    verdict = verdict_of(json.loads(report.read_text("utf-8")))
    assert (verdict.findings, verdict.next_command) == (1, "lyrebird audit chain e")


@pytest.mark.parametrize("arguments", [[], ["e", "--all"], ["nobody"], ["e", "--group", "nobody"]])
def test_what_cannot_be_said_ends_with_2_and_one_line(run: Run, arguments: list[str]) -> None:
    found = run(*arguments)
    assert found.exit_code == 2
    assert found.stdout == ""
    assert found.stderr.startswith("error: ")
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize(("compacts", "status"), [(True, 0), (False, 1), (None, 1)])
def test_kafka_is_asked_whether_it_compacts_where_counts_differ(run: Run, compacts: bool | None, status: int) -> None:
    commit = run.world.commits()[1]
    wrong = replace(commit, n_records=commit.n_records - 1, filtered=commit.filtered - 1)
    run.world.store.put(run.world.chain().commit(commit.first), wrong.to_bytes())
    run.compacted = compacts
    found = run("e")
    assert found.exit_code == status
    assert run.asked == ["e"]


def test_mending_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "SUMMARY_COMMITS", 2)
    assert "summaries written: 1" not in run("e").stdout
    run.world.store.delete(run.world.chain().commit(61))
    assert run("e").exit_code == 1
    assert "objects of the chain mended: 1" in run("e", "--repair").stdout
    assert run("e").exit_code == 0


def test_mending_needs_credentials_that_may_delete_in_the_same_bucket(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    declared = json.loads(file.read_text("utf-8"))
    for expiry, said in (({"expiry": STORE | {"bucket": "other"}}, "another bucket"), ({}, "expiry")):
        del declared["expiry"]
        declared |= expiry
        file.write_text(json.dumps(declared), "utf-8")
        found = run("e", "--repair")
        assert found.exit_code == 2
        assert said in found.stderr
        assert run("e").exit_code == 0


def test_a_lake_in_which_nothing_is_yet_is_neither_clean_nor_wrong(run: Run, tmp_path: Path) -> None:
    store: Any = MemoryStore(run.world.clock)
    store.close = lambda: None
    run.world.store = store
    found = run("--all")
    assert (found.exit_code, found.stderr) == (4, "")
    assert [line.partition(":")[0] for line in found.stdout.splitlines()] == ["by_date", "raw"]
    assert "nothing is stored below parted/ yet. Start the application lake." in found.stdout
    told = json.loads(run("--all", "--json").stdout)
    assert (told["verdict"], told["clean"], set(told["nothing"])) == ("nothing", False, {"by_date", "raw"})
    report = tmp_path / "report.json"
    assert run("--all", "--report", str(report)).exit_code == 0
    assert json.loads(report.read_text("utf-8"))["verdict"] == "nothing"


def test_a_group_that_has_nothing_yet_is_named_beside_those_that_are_judged(run: Run) -> None:
    for key in [info.key for info in run.world.store.list("parted/")]:
        run.world.store.delete(key)
    found = run("--all")
    assert found.exit_code == 0
    assert found.stdout.startswith("chains of e: clean (")
    assert found.stdout.splitlines()[-1].startswith("by_date: nothing to judge: ")
    told = json.loads(run("--all", "--json").stdout)
    assert (told["verdict"], list(told["nothing"])) == ("clean", ["by_date"])
    # Whoever names topics asks for these alone.
    assert json.loads(run("e", "--json").stdout)["nothing"] == {}


def test_a_topic_whose_writer_has_begun_and_committed_nothing_is_not_clean(run: Run) -> None:
    for group in GROUPS:
        topic = run.world.chain(group).of
        pointer = replace(read_pointer(run.world.store, topic), heads={}, noted="")
        for key in [info.key for info in run.world.store.list(f"{topic.prefix}/")]:
            run.world.store.delete(key)
        run.world.store.put(topic.pointer, pointer.to_bytes())
    found = run("--all")
    assert found.exit_code == 4
    assert found.stdout.startswith("chains of e: nothing to judge: no cut of it is committed yet")
    told = json.loads(run("--all", "--json").stdout)
    assert (told["verdict"], told["topics"]["e"]["verdict"], len(told["nothing"])) == ("nothing", "nothing", 2)


def test_a_topic_of_which_only_commits_or_objects_are_left_is_lost_and_wrong(run: Run) -> None:
    for group in GROUPS.values():
        for key in [info.key for info in run.world.store.list(f"{group.prefix}/_chain/")]:
            run.world.store.delete(key)
    assert run("--all").exit_code == 1


def test_a_pointer_that_says_that_data_was_there_makes_an_empty_chain_wrong(run: Run) -> None:
    topic = run.world.chain("raw").of
    pointer = replace(read_pointer(run.world.store, topic), heads={0: 122}, noted="2026-11-02")
    for key in [info.key for info in run.world.store.list("raw/")]:
        run.world.store.delete(key)
    run.world.store.put(topic.pointer, pointer.to_bytes())
    told = json.loads(run("e", "--group", "raw", "--json").stdout)
    (hole,) = told["topics"]["e"]["findings"]
    assert (hole["fault"], hole["partition"], hole["first"], hole["until"]) == ("hole", 0, 0, 122)
    assert run("e", "--group", "raw").exit_code == 1


def test_without_a_group_there_is_nothing_to_audit(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    declared = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps(declared | {"lake": {}}), "utf-8")
    found = run("--all")
    assert (found.exit_code, "no group of the lake is declared" in found.stderr) == (2, True)
