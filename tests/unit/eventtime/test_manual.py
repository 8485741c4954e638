"""What the manual of event time shows is what the commands print and the checks say."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from include.cli.eventtime.replay import command
from include.errors import SettingsError
from include.eventtime.config.definition import JobEntry, JobOutputDefinition, JobSourceDefinition
from include.eventtime.config.process import process_class, require_sound
from include.eventtime.replay import interleaved, read_lines, replay
from include.settings.environment import PROJECT_ROOT

pytestmark = pytest.mark.unit

MANUAL = (PROJECT_ROOT / "docs" / "event-time.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return [
        text for its, text in re.findall(r"^```(\w*)\n(.*?)^```$", MANUAL, re.DOTALL | re.MULTILINE) if its == language
    ]


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The manual's job as a module of its own."""
    name = "manual_sessions"
    (tmp_path / f"{name}.py").write_text(blocks("python")[0])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def test_the_detectors_example_prints_what_the_manual_shows(tmp_path: Path) -> None:
    tracks, outputs, late, _ = blocks("")
    (tmp_path / "tracks.jsonl").write_text(tracks)
    options = ["--job", "offline", "--input", str(tmp_path / "tracks.jsonl"), "--timeout", "30m"]
    done = CliRunner().invoke(command, options, catch_exceptions=False)
    assert (done.stdout, done.stderr) == (outputs, late)


def test_the_manuals_job_runs_and_its_test_passes(tmp_path: Path, jobs: str) -> None:
    kind = process_class(f"{jobs}.Sessions")
    require_sound(kind, kind.settings_type())
    times = ["17:30:15", "17:35:20", "17:45:20", "18:00:00"]
    said = [
        f'{{"partition": 0, "offset": {n}, "key": "r", "time": "2026-11-02T{at}Z", "value": {{}}}}'
        for n, at in enumerate(times)
    ]
    (tmp_path / "tracks.jsonl").write_text(
        "\n".join(
            [*said, said[0].replace("17:30:15", "18:30:00").replace('"r"', '"q"').replace('"offset": 0', '"offset": 4')]
        )
    )
    body = blocks("python")[1].splitlines()[1:]
    code = "\n".join(line.removeprefix("    ") for line in body)
    names = {"read_lines": read_lines, "interleaved": interleaved, "replay": replay, "Sessions": kind}
    exec(code, {**names, "Settings": kind.settings_type, "Path": lambda name: tmp_path / name})


def test_the_manuals_job_with_a_clock_is_refused_as_it_says(tmp_path: Path, jobs: str) -> None:
    code = blocks("python")[0].replace("from dataclasses", "import time\nfrom dataclasses")
    (tmp_path / f"{jobs}.py").write_text(
        code.replace("ctx.state.begin = element.time", "ctx.state.begin = time.time_ns()")
    )
    kind = process_class(f"{jobs}.Sessions")
    with pytest.raises(SettingsError) as refused:
        require_sound(kind, kind.settings_type())
    assert refused.value.message in blocks("")[3]
    assert refused.value.fix in blocks("")[3]
    assert "the clock: use `ctx.time` or `element.time`" in refused.value.details["reason"]


def test_the_manual_declares_a_job_and_names_every_setting() -> None:
    (entry,) = blocks("yaml")
    assert JobEntry.model_validate(yaml.safe_load(entry)["eventtime"]["scooter_status"]).buckets == 16
    names = {*JobEntry.model_fields, *JobSourceDefinition.model_fields, *JobOutputDefinition.model_fields}
    assert [name for name in sorted(names) if f"`{name}" not in MANUAL] == []
