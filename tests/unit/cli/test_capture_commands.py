"""The commands of `lyrebird capture`: names, older names, and where status finds a capture of this host."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
from click.testing import CliRunner

from include.cli.capture import status as capture_status
from include.cli.capture.commands import COMMANDS, command

NAMES = ["run", "status", "check", "policy", "snapshot", "reread", "resume-table"]


def test_each_command_is_listed_and_takes_json() -> None:
    assert command.list_commands(click.Context(command)) == NAMES
    for name in NAMES:
        assert "--json" in CliRunner().invoke(command, [name, "--help"]).output


def test_the_older_name_of_snapshot_still_works_and_is_not_listed() -> None:
    older, newer = COMMANDS["request-snapshot"].load(), COMMANDS["snapshot"].load()
    assert (older.callback, older.params) == (newer.callback, newer.params)
    assert "request-snapshot" not in CliRunner().invoke(command, ["--help"]).output


def test_resume_table_wants_a_table() -> None:
    result = CliRunner().invoke(command, ["resume-table", "--source", "shop"])
    assert result.exit_code == 2
    assert "TABLE" in result.output


def _report(state: Path, folder: str, **fields: object) -> None:
    (state / "run" / folder).mkdir(parents=True)
    (state / "run" / folder / "progress.json").write_text(json.dumps(fields))


def test_status_takes_the_newest_report_of_this_host(tmp_path: Path) -> None:
    assert capture_status._progress(tmp_path, "capture-s") == ({}, {}, False)
    _report(tmp_path, "capture-s", at_us=5, ops={"c": 1})
    _report(tmp_path, "by-hand-capture-s", at_us=9, ops={"c": 2})
    assert capture_status._progress(tmp_path, "capture-s")[0]["ops"] == {"c": 2}


def test_status_tells_why_a_capture_gave_up(tmp_path: Path) -> None:
    _report(tmp_path, "capture-s", at_us=5)
    (tmp_path / "run" / "capture-s" / "gave-up.json").write_text('{"text": "purged"}')
    assert capture_status._progress(tmp_path, "capture-s") == ({"at_us": 5}, {"text": "purged"}, False)


def test_status_sees_whether_the_process_lives(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    note = tmp_path / "metrics" / "capture-s.json"
    for written, lives in ((json.dumps({"pid": os.getpid()}), True), (json.dumps({"pid": 2**30}), False), ("{", False)):
        note.write_text(written)
        assert capture_status._progress(tmp_path, "capture-s")[2] is lives
