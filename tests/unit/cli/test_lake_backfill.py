"""`lyrebird lake backfill, promote, expire` over a bucket and a log in memory."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from include.cli.check import check
from include.cli.lake import commands as lake
from include.errors import SettingsError, Terminal
from include.lake.backfill.run_params import NOTHING_STATUS
from include.lake.definition import declared_groups
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from tests.support.lake.backfill_harness import BackfillHarness, RewritePool, version
from tests.support.shipped_environment import ENV

FILES = """\
kafka: {bootstrap: "127.0.0.1:9"}
store: {endpoint: "http://127.0.0.1:9", bucket: lake, access_key: a, secret_key: secret-password}
expiry: {endpoint: "http://127.0.0.1:9", bucket: lake, access_key: b, secret_key: secret-password}
lake:
  raw:
    kind: backup
    application: lake_backup
    topics: [e*]
    prefix: raw
    rules: [{topics: "*", format: {sequence: {layout: verbatim}}}]
  by_date:
    kind: partition
    application: lake_partition
    topics: [e*]
    prefix: by_date
    rules:
      - topics: "*"
        format: {json_lines: {}}
        versions:
          - {version: 1, added: 2026-01-01T00:00:00Z, parser: {format: json, time: {field: at, unit: ms}}}
          - version: 2
            added: 2026-01-02T00:00:00Z
            from_offsets: {0: 1000000}
            parser: {format: json, time: {field: made, unit: ms}}
"""


class Shell:
    """Commands over the world's bucket."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "deployment.yaml").write_text(FILES, "utf-8")
        monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(folder))
        monkeypatch.setenv("LYREBIRD_STATE", str(folder / "state"))
        self.world = BackfillHarness(folder / "world", version(1, "at"))
        self.world.make("events")
        for day in range(3):
            self.world.events("events", 10, day)
            self.world.store_all()
        self.world.memory.truncate("events", 0, 10**6)
        wanted = declared_groups(Deployment.load(folder))["by_date"]
        rule = wanted.rules[0]
        second = (rule.versions or ())[1].model_copy(update={"from_offsets": None})
        self.second = wanted.model_copy(update={"rules": (rule.model_copy(update={"versions": (second,)}),)})
        for module in ("include.lake.backfill.deployed", "include.store.s3"):
            monkeypatch.setattr(f"{module}.store_of", lambda _settings: self.world.store)
        monkeypatch.setattr("include.lake.backfill.deployed.SequentialPool", self.pool)

    def pool(self, _place: Any) -> RewritePool:
        return RewritePool(self.world, self.world.store, self.second)

    def __call__(self, *arguments: str, said: str | None = None) -> Result:
        result = CliRunner().invoke(lake.command, arguments, input=said)
        assert "secret-password" not in result.output
        return result

    def json(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self(*arguments, "--json").stdout)
        return found


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(tmp_path, monkeypatch)


DAYS = ("--from", "2024-05-01", "--to", "2024-05-31")


def test_a_plan_says_what_would_be_made_again_and_writes_nothing(shell: Shell) -> None:
    before = [info.key for info in shell.world.store.list("")]
    told = shell("backfill", "events", *DAYS, "--version", "2", "--dry-run")
    assert told.exit_code == 0, told.exception
    assert "backfill of events in group by_date: 2024-05-01 to 2024-05-31, parser version 2" in told.stdout
    assert "3 cuts, 30 records; 3 objects," in told.stdout
    found = shell.json("backfill", "events", *DAYS, "--version", "2", "--dry-run")
    assert (found["records"], len(found["cuts"]), len(found["sources"])) == (30, 3, 3)
    assert found["run"] in told.stdout
    assert [info.key for info in shell.world.store.list("")] == before


def test_a_backfill_is_made_promoted_and_its_old_objects_expire(shell: Shell) -> None:
    made = shell.json("backfill", "events", *DAYS, "--version", "2", "--run", "fix-7")
    assert (made["clean"], made["made"], made["now"]["written"]) == (True, 3, 30)
    again = shell("backfill", "events", *DAYS, "--version", "2", "--run", "fix-7")
    assert "3 of 3 cuts made" in again.stdout
    assert "lyrebird lake promote events --run fix-7" in again.stdout
    promoted = shell("promote", "events", "--run", "fix-7")
    assert "backfill fix-7 is promoted: readers follow generation 2" in promoted.stdout
    assert shell.json("promote", "events", "--run", "fix-7")["anew"] is False
    read = shell.world.read()
    expire = ("expire", "events", "--group", "by_date", "--generation", "1")
    assert shell.json(*expire, "--dry-run")["kept"] == 0
    assert shell(*expire, said="n\n").exit_code == 1
    assert len(shell.world.objects(1)) == 3
    assert shell(*expire, said="y\n").exit_code == 0
    assert shell.world.objects(1) == {}
    assert shell.world.read() == read
    assert shell.json(*expire, "--yes")["objects"] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("backfill", "events"), "of dates or of offsets"),
        (("backfill", "events", "--to", "2024-05-01"), "without a first one"),
        (("backfill", "events", "--from", "tomorrow"), "not a day"),
        (("backfill", "events", "--from", "2024-05-02", "--to", "2024-05-01"), "before the first"),
        (("backfill", "other", *DAYS), "nothing of this topic is stored (got='other', nearest=['events']"),
        (("backfill", "events", *DAYS, "--group", "raw"), "no such partition group"),
        (("backfill", "events", *DAYS, "--version", "9"), "no such version"),
        (("backfill", "events", *DAYS, "--version", "1", "--as-of", "2026-01-01T00:00Z"), "one version of the parser"),
        (("backfill", "events", *DAYS, "--as-of", "2026-01-01T00:00"), "without its zone"),
        (("backfill", "events", "--offsets", "0:5"), "no range of offsets"),
        (("backfill", "events", *DAYS, "--run", "a/b"), "no name of a backfill"),
        (("promote", "events", "--run", "never"), "allowed=[]). The topic has none: begin one"),
        (("expire", "events", "--group", "by_date", "--generation", "9", "--dry-run"), "no such generation"),
        (
            ("expire", "events", "--group", "nothing", "--generation", "1", "--dry-run"),
            "Choose one of these, or declare it.",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_next_step(shell: Shell, arguments: tuple[str, ...], says: str) -> None:
    error = shell(*arguments).exception
    assert isinstance(error, (SettingsError, Terminal))
    assert says in str(error)
    assert error.fix or error.details.get("allowed")


@pytest.mark.parametrize("plan", [(), ("--dry-run",)])
def test_days_without_records_have_an_exit_code_of_their_own(shell: Shell, plan: tuple[str, ...]) -> None:
    told = shell("backfill", "events", "--from", "2001-01-01", *plan)
    assert told.exit_code == NOTHING_STATUS
    assert told.stderr.startswith(
        "error: no committed cut has any of it: there is nothing to make again (topic='events'"
    )
    assert "asked='2001-01-01" in told.stderr
    assert "`lyrebird lake status`" in told.stderr


def test_objects_are_not_removed_by_the_writers_credentials(shell: Shell, tmp_path: Path) -> None:
    text = "\n".join(line for line in FILES.splitlines() if not line.startswith("expiry"))
    (tmp_path / "deployment.yaml").write_text(text, "utf-8")
    error = shell("expire", "events", "--group", "by_date", "--generation", "1", "--yes").exception
    assert isinstance(error, SettingsError)
    assert error.details["path"] == "expiry"


def test_credentials_of_another_bucket_are_refused(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "deployment.yaml").write_text(FILES.replace("bucket: lake, access_key: b", "bucket: b, access_key: b"))
    error = shell("expire", "events", "--group", "by_date", "--generation", "1", "--yes").exception
    assert "another bucket" in str(error)


def test_check_refuses_credentials_of_another_bucket() -> None:
    good = Deployment.load(PROJECT_ROOT / "include" / "deployment", ENV)
    assert "raw" in check(good)["lake"]
    wrong = {**good.values, "expiry": {**good.values["expiry"], "bucket": "another"}}
    with pytest.raises(SettingsError, match="another bucket than `store`"):
        check(dataclasses.replace(good, values=wrong))
