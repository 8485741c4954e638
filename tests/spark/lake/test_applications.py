"""Which groups an application of the lake takes: decided before a session is made."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from include.errors import SettingsError
from include.lake.check import PROGRAMS
from include.lake.groups_spark import run_application, upload
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT

DEPLOYED = """\
lake:
  raw:
    {kind: backup, application: a, topics: ["*"], prefix: raw, run: RUN, rules: [{topics: "*", format: {sequence: {}}}]}
  more:
    {kind: backup, application: a, topics: ["*"], prefix: more, rules: [{topics: "*", format: {sequence: {}}}]}
"""


def deployed(folder: Path, run: str = "stream") -> Deployment:
    (folder / "lake.yaml").write_text(DEPLOYED.replace("RUN", run))
    return Deployment.load(folder, {})


def test_a_program_refuses_groups_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="runs partition groups") as refused:
        run_application("a", deployed(tmp_path), kind="partition")
    assert refused.value.details["path"] == "lake.raw.application"


def test_an_application_runs_its_groups_in_one_way(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="groups that run and groups on a schedule"):
        run_application("a", deployed(tmp_path, "schedule"))


def test_nobody_and_nothing_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no group of the lake"):
        run_application("b", deployed(tmp_path))
    with pytest.raises(SettingsError, match="no such name"):
        upload(["raws"], deployed(tmp_path))


@pytest.mark.parametrize(
    "arguments",
    [
        ("lake_backup", "--application", "lake_backup"),
        ("lake_partition", "--application", "lake_partition"),
        ("lake_upload", "--group", "raws"),
    ],
)
def test_a_deployment_file_that_cannot_be_read_is_told_as_the_programs_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "lake.yaml").write_text("lake: {raw: [")
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    monkeypatch.setenv("LYREBIRD_RUN", str(tmp_path / "run"))
    monkeypatch.setattr("include.log.running.application.log_to_stderr", lambda: None)
    monkeypatch.setattr("sys.argv", [f"{arguments[0]}.py", *arguments[1:]])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(PROJECT_ROOT / "spark_apps" / f"{arguments[0]}.py"), run_name="__main__")
    assert end.value.code == 1
    told = json.loads((tmp_path / "run" / "gave-up.json").read_text())
    assert told["kind"] == "stopped"
    assert f"not valid YAML (file='{tmp_path}/lake.yaml'" in told["text"]


def test_each_kind_of_group_has_its_program() -> None:
    for kind, program in PROGRAMS.items():
        assert f'kind="{kind}"' in (PROJECT_ROOT / program).read_text()
