"""`lyrebird eventtime replay`: a file of elements through the platform's own algorithm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from include.cli.eventtime.replay import command
from include.errors import SettingsError
from include.eventtime.model.process import Context, Element, Process

pytestmark = pytest.mark.unit

BY_HAND = [("17:30:15", 0), ("17:30:20", 0), ("17:30:25", 1), ("18:00:32", 0)]


class Ticks(Process[Any]):
    """Timers that never end."""

    key = int

    def on_element(self, element: Element, ctx: Context[Any]) -> None:
        ctx.set_timer("tick", element.time)

    def on_timer(self, name: str, time: int, ctx: Context[Any]) -> None:
        ctx.set_timer("tick", time + 1)


TICKS = f"{__name__}.Ticks"


def file_of(folder: Path, *lines: object) -> Path:
    file = folder / "tracks.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return file


def tracks(*said: tuple[str, int]) -> list[dict[str, Any]]:
    offsets: dict[int, int] = {}
    found = []
    for time, partition in said:
        offset = offsets[partition] = offsets.get(partition, -1) + 1
        at = f"2026-11-02T{time}Z"
        found.append({"partition": partition, "offset": offset, "key": "s1", "time": at, "value": {}})
    return found


def run(file: Path, *options: str, job: str = "offline") -> dict[str, Any]:
    done = CliRunner().invoke(command, ["--job", job, "--input", str(file), "--json", *options], catch_exceptions=False)
    found: dict[str, Any] = json.loads(done.output)
    return found


def events(made: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["value"]["status"], each["time"][11:19]) for each in made["outputs"] if each["output"] == "events"]


def test_the_detectors_table_is_printed_a_line_an_output(tmp_path: Path) -> None:
    file = file_of(tmp_path, *tracks(*BY_HAND))
    done = CliRunner().invoke(command, ["--job", "offline", "--input", str(file), "--timeout", "30m"])
    lines = [json.loads(line) for line in done.output.splitlines()]
    assert [(each["output"], each["value"]["status"], each["version"]) for each in lines] == [
        ("status", "offline", 1),
        ("events", "offline", 2),
        ("status", "online", 3),
        ("events", "online", 4),
    ]
    assert lines[0]["key"] == "s1"
    assert lines[0]["time"] == lines[0]["value"]["at"] == "2026-11-02T18:00:25.000000Z"
    assert lines[0]["value"]["last_seen"] == "2026-11-02T17:30:25.000000Z"


def test_speeds_and_batches_change_nothing(tmp_path: Path) -> None:
    said = [(f"{hour:02}:{minute:02}:0{minute % 10}", minute % 4) for hour in range(6) for minute in (1, 7, 9, 31, 53)]
    file = file_of(tmp_path, *tracks(*said))
    whole = run(file, "--timeout", "5m")
    assert len(events(whole)) > 20
    for seed in range(5):
        assert run(file, "--timeout", "5m", "--interleave", "--seed", str(seed), "--batch", str(seed + 1)) == whole


def test_late_elements_are_told_of_or_written_to_a_file(tmp_path: Path) -> None:
    file = file_of(tmp_path, *tracks(*BY_HAND, ("18:00:20", 0)))
    options = ["--job", "offline", "--input", str(file)]
    done = CliRunner().invoke(command, options)
    told = json.loads(done.stderr)
    assert told["late"]["line"] == 5
    assert told["late"]["watermark"] == "2026-11-02T18:00:26.999999Z"
    late = tmp_path / "late.jsonl"
    done = CliRunner().invoke(command, [*options, "--late", str(late)])
    assert done.stderr == ""
    assert json.loads(late.read_text()) == told


def test_without_a_bound_of_disorder_nothing_is_late_in_an_ideal_replay(tmp_path: Path) -> None:
    idle = {"idle": {"partition": 0, "next_offset": 3, "time": "2026-11-02T18:00:26Z"}}
    file = file_of(tmp_path, *tracks(*BY_HAND), idle, *tracks(*BY_HAND, ("18:00:20", 0))[4:])
    assert len(run(file)["late"]) == 1
    made = run(file, "--ideal")
    assert made["late"] == []
    # The late track keeps the device online.
    assert events(made) == []


def test_a_partition_that_is_said_to_be_idle_holds_nobody_up(tmp_path: Path) -> None:
    stuck = tracks(("17:30:00", 0), ("17:30:00", 1), ("18:30:00", 0))
    idle = {"idle": {"partition": 1, "next_offset": 1, "time": 1_793_644_200_000}}
    assert events(run(file_of(tmp_path, *stuck), "--open")) == []
    assert events(run(file_of(tmp_path, *stuck, idle), "--open")) == [("offline", "18:00:00")]


def test_timers_after_the_end_are_called_when_they_are_asked_for(tmp_path: Path) -> None:
    file = file_of(tmp_path, *tracks(("17:30:00", 0)))
    assert events(run(file)) == []
    assert events(run(file, "--drain")) == [("offline", "18:00:00")]


def test_timers_that_never_end_are_told_of(tmp_path: Path) -> None:
    file = file_of(tmp_path, {"partition": 0, "offset": 0, "key": 1, "time": 0, "value": {}})
    with pytest.raises(SettingsError, match="set timers for ever"):
        run(file, "--drain", job=TICKS)


def test_the_bound_of_disorder_is_given_or_five_seconds(tmp_path: Path) -> None:
    file = file_of(tmp_path, *tracks(("17:30:10", 0), ("17:30:05", 0), ("17:30:04", 0)))
    assert len(run(file)["late"]) == 1
    assert len(run(file, "--disorder", "4s")["late"]) == 2
    assert len(run(file, "--disorder", "1m")["late"]) == 0


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["x"], "not a line"),
        (["[]"], "not a line"),
        ([{"partition": 0, "offset": 0, "key": "a", "time": "later", "value": {}}], "not a line"),
        ([{"partition": 0, "offset": 0, "key": "a", "time": 1}], "path='value'"),
        ([{"partition": 0, "offset": 0, "key": "a", "time": 1, "value": {}, "x": 1}], "path='x'"),
        ([*tracks(("17:00:00", 0)), *tracks(("17:00:01", 0))], "offsets of a partition rise"),
        ([*tracks(("17:00:00", 0)), {"idle": {"partition": 0, "next_offset": 0, "time": 1}}], "line=2"),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, lines: list[Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        run(file_of(tmp_path, *lines))


def test_names_settings_and_keys_that_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where no stack has ever run.
    monkeypatch.setenv("LYREBIRD_STATE", str(tmp_path / "state"))
    file = file_of(tmp_path, *tracks(("17:00:00", 0)))
    with pytest.raises(SettingsError, match="Did you mean offline"):
        run(file, job="ofline")
    with pytest.raises(SettingsError, match="not a setting of the job") as refused:
        run(file, "--set", "limit=5")
    assert refused.value.details["path"] == "limit"
    with pytest.raises(SettingsError, match="a setting is NAME=VALUE"):
        run(file, "--set", "timeout")
    with pytest.raises(SettingsError, match=r"5 minutes.* is no duration"):
        run(file, "--disorder", "5 minutes")
    with pytest.raises(SettingsError, match="not of the job's type"):
        run(file, job=TICKS)
    with pytest.raises(SettingsError, match="cannot read the elements"):
        run(tmp_path / "none")


def test_an_empty_file_gives_nothing_and_no_server_is_started_for_it(tmp_path: Path) -> None:
    file = file_of(tmp_path)
    assert run(file) == run(file, "--engine", "spark") == {"outputs": [], "late": [], "failed": [], "watermark": None}
