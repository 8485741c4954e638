"""`lyrebird lake finalise` over a bucket and a log in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from include.cli.lake import commands as lake
from include.cli.lake import finalise as lake_finalise
from include.errors import SettingsError
from tests.support.lake.dates.harness import HOUR_MS, NOON, DatesHarness

FILES = """\
kafka: {bootstrap: "127.0.0.1:9"}
store: {endpoint: "http://127.0.0.1:9", bucket: lake, access_key: a, secret_key: secret-password}
lake:
  raw:
    kind: backup
    application: lake_backup
    topics: [events]
    prefix: raw
    rules: [{topics: "*", format: {sequence: {layout: verbatim}}}]
  by_date:
    kind: partition
    application: lake_partition
    topics: [events]
    prefix: by_date
    finalise: {lateness_s: 600}
    rules:
      - topics: "*"
        format: {json_lines: {}}
        versions:
          - version: 1
            added: 2026-01-01T00:00:00Z
            parser: {format: json, time: {field: at, unit: ms}, names: [{by: hour}]}
"""
ELEVEN = "dt=2024-05-01/hr=11"


class Run:
    """Calls the command on a deployment whose topic has one hour that is over, and one that is not."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "deployment.yaml").write_text(FILES, "utf-8")
        monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(folder))
        self.world = DatesHarness(folder / "world")
        monkeypatch.setattr(lake_finalise, "open_store", lambda _deployment: self.world.store)
        monkeypatch.setattr(lake_finalise, "SystemClock", lambda: self.world.clock)
        monkeypatch.setattr("include.lake.reading.kafka_group.KafkaGroupLog", lambda *_, **__: self.world)
        self.world.at(NOON - 1000, NOON - 999, NOON)
        self.world.set_ms(NOON + HOUR_MS // 2)

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(lake.command, ["finalise", *arguments])


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, monkeypatch)


def test_it_says_what_is_over_and_marks_it(run: Run) -> None:
    lines = run("--dry-run").output.splitlines()
    assert lines == [
        "by_date, events: all partitions have passed 2024-05-01T12:30:00.000000Z; 2 dates open",
        f"  {ELEVEN} is over (edition 1; 1 object, 2 records)",
    ]
    assert run.world.markers() == []
    assert run("events", "--group", "by_date").output.splitlines() == lines
    assert run.world.markers() == [f"by_date/events/{ELEVEN}/_SUCCESS"]


def test_a_report_is_told_and_acknowledged(run: Run, tmp_path: Path) -> None:
    told = run("--report", str(tmp_path / "r.json"), "--json")
    assert told.exit_code == 0
    assert json.loads(told.stdout) == json.loads((tmp_path / "r.json").read_text())
    (topic,) = json.loads(told.stdout)["topics"]
    assert [(date["folder"], date["change"], date["new"]) for date in topic["dates"]] == [(ELEVEN, "finished", True)]
    assert run("--acknowledge", str(tmp_path / "r.json")).output == "1 date acknowledged\n"
    assert json.loads(run("--acknowledge", str(tmp_path / "r.json"), "--json").output) == {"acknowledged": 0}
    assert json.loads(run("--json").stdout)["topics"][0]["dates"] == []


def test_late_objects_are_named(run: Run) -> None:
    run()
    run.world.at(NOON - 5)
    assert [line.split("/")[-1] for line in run().output.splitlines()[1:]] == [
        "hr=11 got records after it was over: run it again (edition 2; 2 objects, 3 records)",
        "1_0_00000000000000000004.jsonl",
    ]


def test_a_topic_that_cannot_be_judged_is_an_exit_code_unless_a_report_has_it(run: Run, tmp_path: Path) -> None:
    run.world.store.put(run.world.topic_key().pointer, b"spoiled")
    assert run().exit_code == 1
    assert run("--report", str(tmp_path / "r.json")).exit_code == 0
    assert "cannot be read" in json.loads((tmp_path / "r.json").read_text())["topics"][0]["error"]


def test_what_has_no_dates_is_refused(run: Run) -> None:
    for arguments in (["--group", "raw"], ["--group", "else"], ["nothing"]):
        told = run(*arguments)
        assert isinstance(told.exception, SettingsError), arguments
