"""`lyrebird lake status, where, cat, files, policy` over a bucket and a log in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from include.cli.lake import cat as lake_cat
from include.cli.lake import commands as lake
from include.cli.lake import files as lake_files
from include.cli.lake import policy as lake_policy
from include.cli.lake import status as lake_status
from include.cli.lake import where as lake_where
from include.clock import iso
from include.errors import SettingsError
from include.lake.definition import declared_groups
from include.settings.deployment import Deployment
from tests.support.lake.stored_topic import NOW_US, StoredTopic, event

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
  dates:
    kind: partition
    application: lake_partition
    topics: [events]
    prefix: dates
    rules:
      - topics: "*"
        format: {json_lines: {content: payload}}
        versions:
          - version: 1
            added: 2026-01-01T00:00:00Z
            parser:
              format: json
              time: {field: at, unit: ms}
              drop: [{field: type, one_of: [ping]}]
"""
NAME = "1_0_00000000000000000000"


class Run:
    """Calls a command on a deployment of its own, whose groups have stored some events."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "deployment.yaml").write_text(FILES, "utf-8")
        monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(folder))
        monkeypatch.setenv("LYREBIRD_STATE", str(folder / "state"))
        self.folder, self.world = folder, StoredTopic(folder / "world")
        for module in (lake_cat, lake_files, lake_policy, lake_status, lake_where):
            monkeypatch.setattr(module, "open_store", lambda _deployment: self.world.store)
        monkeypatch.setattr("include.lake.reading.kafka_group.KafkaGroupLog", lambda *_, **__: self.world)
        for timed in (lake_policy, lake_status):
            monkeypatch.setattr(timed, "SystemClock", lambda: self.world.clock)
        monkeypatch.setattr(lake_policy, "_topics", lambda _deployment: ["events", "else"])
        self.world.append([event(0), event(1, days_ago=1), event(2, type="ping"), b"no json"])
        self.store_all()

    def store_all(self) -> None:
        for name, group in declared_groups(Deployment.load(self.folder)).items():
            self.world.store_all(group, name)

    def __call__(self, *arguments: str) -> Result:
        result = CliRunner().invoke(lake.command, arguments)
        assert "secret-password" not in result.output
        return result

    def json(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self(*arguments, "--json").stdout)
        return found

    def commit(self) -> str:
        return next(each.key for each in self.world.store.list("raw/_chain/") if each.key.endswith(".commit"))

    def lines(self, *arguments: str) -> list[Any]:
        return [json.loads(line) for line in self(*arguments, "--json").stdout.splitlines()]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", [name for name, entry in lake.COMMANDS.items() if not entry.hidden])
def test_every_command_of_the_table_exists_helps_and_takes_json(name: str) -> None:
    entry = lake.COMMANDS[name]
    command = entry.load()
    assert isinstance(command, click.Command)
    assert (command.name, bool(command.help)) == (name, True)
    assert any("--json" in option.opts for option in command.params)


def test_where_names_object_and_index_in_each_group(run: Run) -> None:
    found = {each["group"]: each for each in run.json("where", "events", "0", "1")["found"]}
    assert (found["raw"]["state"], found["raw"]["key"], found["raw"]["index"]) == (
        "stored",
        f"raw/events/offset=0/{NAME}",
        1,
    )
    assert (found["dates"]["key"], found["dates"]["index"]) == (f"dates/events/dt=2026-11-20/{NAME}.jsonl", 0)
    line = run("where", "events", "0", "0", "--group", "dates").output.strip()
    assert line.startswith(f"dates: stored; dates/events/dt=2026-11-21/{NAME}.jsonl, record 0 (from 0); cut [0, 5) of")
    states = [run.json("where", "events", "0", str(offset))["found"][1]["state"] for offset in range(6)]
    assert states == ["stored", "stored", "filtered", "refused", "no record", "not yet"]


def test_where_fails_when_a_record_is_missing(run: Run) -> None:
    run.world.store.delete(f"raw/events/offset=0/{NAME}")
    result = run("where", "events", "0", "1", "--group", "raw")
    assert result.exit_code == 1
    assert "raw: missing" in result.output
    assert "lyrebird audit chain events" in result.output


def test_where_of_a_topic_of_no_group_says_how_to_list_them(run: Run) -> None:
    result = run("where", "nothing", "0", "0")
    assert isinstance(result.exception, SettingsError)
    assert "lyrebird lake policy" in str(result.exception)


def test_cat_shows_records_of_the_bucket_and_of_a_file_alike(run: Run, tmp_path: Path) -> None:
    key = f"raw/events/offset=0/{NAME}"
    found = run.lines("cat", key)
    assert [each["offset"] for each in found] == [0, 1, 2, 3]
    assert found[0]["value"] == event(0).decode()
    local = tmp_path / "odd.name"
    local.write_bytes(run.world.store.get(key).body)  # type: ignore[union-attr]
    assert run.lines("cat", str(local)) == found == run.lines("cat", f"s3://lake/{key}")
    shown = run("cat", key, "--offset", "3")
    assert shown.stdout.splitlines()[0].split("  ")[:2] == ["3", "3"]
    assert "SequenceFile, layout verbatim" in shown.stderr
    assert run("cat", key, "--raw", "--limit", "2").stdout_bytes == event(0) + b"\n" + event(1, days_ago=1) + b"\n"


def test_cat_of_a_quarantine_object_says_why(run: Run) -> None:
    (found,) = run.lines("cat", f"dates/events/_quarantine/{NAME}")
    assert (found["value"], found["offset"], found["headers"]) == ("no json", 3, [])
    assert found["refused"]
    assert f"refused: {found['refused']}" in run("cat", f"dates/events/_quarantine/{NAME}").stdout


def test_cat_refuses_what_it_cannot_do(run: Run) -> None:
    for arguments, message in (
        (["nothing"], "no such object"),
        (["s3://other/key"], "another bucket"),
        ([f"dates/events/dt=2026-11-21/{NAME}.jsonl", "--offset", "0"], "keeps no offsets"),
        ([f"raw/events/offset=0/{NAME}", "--offset", "77"], "no record of this offset"),
        (["x", "--raw", "--json"], "different things"),
        ([""], "names no object with records"),
        (["s3://lake/"], "names no object with records"),
        ([run.commit()], "names no object with records"),
    ):
        result = run("cat", *arguments)
        assert isinstance(result.exception, SettingsError), arguments
        assert message in str(result.exception)
        assert result.exception.fix


def test_without_a_group_it_is_said_where_to_declare_one(run: Run) -> None:
    (run.folder / "deployment.yaml").write_text(FILES.partition("lake:\n")[0], "utf-8")
    error = run("status").exception
    assert isinstance(error, SettingsError)
    assert error.message == "no group of the lake is declared"
    assert "topic" not in error.details


def test_files_lists_exactly_the_objects_of_the_dates(run: Run) -> None:
    result = run("files", "events", "--from", "2026-11-20", "--to", "2026-11-21")
    keys = [f"dates/events/dt=2026-11-{day}/{NAME}.jsonl" for day in (20, 21)]
    assert result.stdout.splitlines() == keys
    assert "dates: 2 objects, 2 records" in result.stderr
    found = run.json("files", "events", "--from", "2026-11-20")
    assert [each["key"] for each in found["objects"]] == keys[:1]
    assert (found["group"], found["bucket"], found["to"]) == ("dates", "lake", "2026-11-20")
    raw = run("files", "events", "--from", "2026-11-21", "--group", "raw", "--as", "uris")
    assert raw.stdout.splitlines() == [f"s3://lake/raw/events/offset=0/{NAME}"]
    refused = run("files", "events", "--from", "2026-11-21", "--refused")
    assert refused.stdout.splitlines() == [f"dates/events/_quarantine/{NAME}"]


def test_files_makes_queries_for_duckdb_and_spark(run: Run) -> None:
    sql = run("files", "events", "--from", "2026-11-21", "--as", "sql").stdout
    assert sql.startswith(f"SELECT * FROM read_json(['s3://lake/dates/events/dt=2026-11-21/{NAME}.jsonl'],")
    spark = run("files", "events", "--from", "2026-11-21", "--as", "spark").stdout
    assert spark.startswith('spark.read.format("json")')


def test_status_shows_each_partition_and_what_its_application_reported(run: Run) -> None:
    folder = run.folder / "state" / "run" / "lake_backup"
    folder.mkdir(parents=True)
    told = {"at_us": NOW_US, "groups": {"raw": {"lost": ["events/0: offsets 1 to 2: gone"], "away": "s3 is away"}}}
    (folder / "progress.json").write_text(json.dumps(told), "utf-8")
    (folder / "gave-up.json").write_text(json.dumps({"text": "fenced", "fix": "lyrebird lake status"}), "utf-8")
    found = {each["group"]: each for each in run.json("status")["groups"]}
    assert (found["raw"]["healthy"], found["dates"]["healthy"]) == (False, True)
    (one,) = found["dates"]["partitions"]
    assert (one["state"], one["committed"], one["lag_records"], one["last"]["records"]) == ("up to date", 5, 0, 4)
    output = run("status").output
    assert "dates (lake_partition): all right" in output
    assert "its application waits: s3 is away" in output
    assert "its application has ended: fenced" in output
    assert "lost, by its application: events/0: offsets 1 to 2: gone" in output
    run.world.append([event(9)])
    run.world.clock.advance(90)
    output = run("status", "--group", "dates", "--topic", "events").output
    assert "open" in output
    assert "1 min 30 s" in output
    assert "2026-11-21T10:0" in output


def test_status_shows_the_open_incidents_of_a_group_and_of_its_whole_application(run: Run) -> None:
    folder = run.folder / "state" / "run" / "lake_backup"
    folder.mkdir(parents=True)
    incidents = [
        {"id": f"lost:raw:id:0:1:{NOW_US}", "kind": "lost", "group": "raw", "text": "lost 1 to 2", "fix": "look"},
        {"id": f"store:{NOW_US}", "kind": "store", "group": "", "text": "the store is away", "fix": "wait"},
        {"id": f"late:other:{NOW_US}", "kind": "late", "group": "other", "text": "late", "fix": "see"},
    ]
    told = {"at_us": NOW_US, "groups": {"raw": {"lost": ["1 to 2"]}}, "incidents": incidents}
    (folder / "progress.json").write_text(json.dumps(told), "utf-8")
    found = {each["group"]: each for each in run.json("status")["groups"]}
    assert [each["kind"] for each in found["raw"]["reported"]["incidents"]] == ["lost", "store"]
    assert (found["raw"]["healthy"], found["dates"]["healthy"]) == (False, True)
    output = run("status", "--group", "raw").output
    assert f"  incident since {iso(NOW_US)}: lost 1 to 2\n    look\n" in output
    assert "the store is away" in output
    assert "lost, by its application" not in output
    assert "late" not in output


def test_of_a_group_on_a_schedule_status_shows_what_its_runs_reported(run: Run) -> None:
    deployed = run.folder / "deployment.yaml"
    deployed.write_text(deployed.read_text("utf-8").replace("prefix: raw", "prefix: raw\n    run: schedule"), "utf-8")
    folder = run.folder / "state" / "run" / "lake_upload"
    folder.mkdir(parents=True)
    lost = {"id": f"lost:raw:id:0:1:{NOW_US}", "kind": "lost", "group": "raw", "text": "lost 1 to 2", "fix": "look"}
    (folder / "progress.json").write_text(json.dumps({"at_us": NOW_US, "groups": {}, "incidents": [lost]}), "utf-8")
    assert "lost 1 to 2" in run("status", "--group", "raw").output
    assert "lost 1 to 2" not in run("status", "--group", "dates").output


def test_status_leaves_out_topics_that_are_gone_unless_asked(run: Run) -> None:
    run.world.memory.admin().delete("events")
    assert run.json("status", "--group", "raw")["groups"][0]["partitions"] == []
    assert "no topic is there" in run("status", "--group", "raw").output
    (one,) = run.json("status", "--group", "raw", "--all")["groups"][0]["partitions"]
    assert one["state"] == "gone"


def test_policy_explains_a_topic_and_lists_rules(run: Run) -> None:
    explained = run("policy", "events").output
    assert "events is stored by dates: wanted by events (" in explained
    assert "parser version 1, from the beginning" in explained
    assert "upload: after 200000000 bytes" in explained
    assert "nothing is not stored by raw" in run("policy", "nothing").output
    listed = run("policy").output.splitlines()
    assert [line.split()[0] for line in listed] == ["group", "raw", "dates"]
    (raw, dates) = run.json("policy", "events")["reports"]
    assert (raw["versions"], len(raw["config"]), len(dates["versions"])) == ([], 64, 1)


def test_policy_tells_when_a_group_on_a_schedule_is_stored(run: Run) -> None:
    assert "  runs: always" in run("policy", "events", "--explain").output.splitlines()
    text = (run.folder / "deployment.yaml").read_text("utf-8")
    scheduled = text.replace("prefix: raw\n", "prefix: raw\n    run: schedule\n    schedule: 15 3 * * *\n")
    (run.folder / "deployment.yaml").write_text(scheduled, "utf-8")
    explained = run("policy", "events", "--explain", "--group", "raw").output
    assert "runs: by the DAG lake_upload at 15 3 * * * (UTC) (" in explained
    assert "deployment.yaml:10)" in explained
    assert "at 15 3 * * * (UTC)" in run("policy", "--group", "raw").output
    assert run.json("policy", "events", "--group", "raw")["reports"][0]["schedule"] == "15 3 * * *"


def test_policy_explains_what_waits_and_when_it_is_due(run: Run) -> None:
    run.world.append([event(9), event(10)])
    run.world.clock.advance(90)
    lines = [line.strip() for line in run("policy", "--explain", "events", "--group", "raw").output.splitlines()]
    at = lines.index("partition 0:")
    assert lines[at + 2].startswith("waiting: offsets 5 to 7, about ")
    assert lines[at + 3].startswith("oldest: 90.000 s")
    assert lines[at + 4].startswith("not due: by age in 3510 s")
    (report,) = run.json("policy", "--explain", "--group", "raw")["reports"]
    assert report["now"][0]["partition"] == 0
    assert run.json("policy", "events")["reports"][0]["now"] == []


def test_policy_fails_when_nothing_would_come_of_it(run: Run) -> None:
    text = (run.folder / "deployment.yaml").read_text("utf-8").replace('topics: "*"\n', "topics: other\n")
    (run.folder / "deployment.yaml").write_text(text, "utf-8")
    result = run("policy", "events")
    assert result.exit_code == 1
    assert "problem: no rule of the group has this topic" in result.output
