import json
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from include import VERSION
from include.cli import main
from include.cli.table import duration, table
from include.errors import Terminal, Transient
from include.settings.renamed import RenamedOption


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["lyrebird", *arguments])
    return main.main()


def test_help_lists_every_command_without_importing_one() -> None:
    before = set(sys.modules)
    told = CliRunner().invoke(main.lyrebird, ["--help"])
    assert told.exit_code == 0
    assert all(f"  {name} " in told.output and entry.help in told.output for name, entry in main.COMMANDS.items())
    assert {name for name in set(sys.modules) - before if name.startswith("include.cli.")} == set()


def test_the_version_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"lyrebird {VERSION}\n"


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_of_the_table_exists_and_takes_json(name: str) -> None:
    entry = main.COMMANDS[name]
    command = entry.load()
    assert command.name == name
    leaves = list(command.commands.values()) if isinstance(command, click.Group) else [command]
    for leaf in leaves:
        assert any("--json" in option.opts for option in leaf.params), leaf.name
        assert leaf.help


def test_an_error_is_one_line_on_stderr_and_exit_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def failing() -> None:
        raise Terminal("port 1 is in use", fix="Stop it.", port=1)

    monkeypatch.setattr(main.lyrebird, "get_command", lambda _context, _name: failing)
    assert run(monkeypatch, "up") == 1
    assert capsys.readouterr().err == "error: port 1 is in use (port=1). Stop it.\n"


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (
            Terminal("port 1 is in use", fix="Stop it.", port=1),
            1,
            {"kind": "Terminal", "message": "port 1 is in use", "details": {"port": 1}, "fix": "Stop it."},
        ),
        (
            Transient("Kafka does not answer", at=Path("/x")),
            75,
            {"kind": "Transient", "message": "Kafka does not answer", "details": {"at": "/x"}, "fix": ""},
        ),
        (
            click.UsageError("no such thing"),
            2,
            {"kind": "UsageError", "message": "no such thing", "details": {}, "fix": ""},
        ),
    ],
)
def test_with_json_an_error_is_json_too(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    status: int,
    told: dict[str, Any],
) -> None:
    @click.command()
    @click.option("--json", "as_json", is_flag=True)
    def failing(as_json: bool) -> None:
        raise error

    monkeypatch.setattr(main.lyrebird, "get_command", lambda _context, _name: failing)
    assert run(monkeypatch, "up", "--json") == status
    said = capsys.readouterr()
    assert said.out == ""
    assert json.loads(said.err) == {"error": told | {"passing": status == 75}}


def test_a_command_that_says_itself_that_it_failed_says_it_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "audit", "chain", "--all", "--json")
    assert ended.value.code == 2
    assert json.loads(capsys.readouterr().err)["error"]["message"] == "no deployment files"


def test_what_may_succeed_later_has_an_exit_code_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def failing() -> None:
        raise Transient("Kafka does not answer", system="kafka")

    monkeypatch.setattr(main.lyrebird, "get_command", lambda _context, _name: failing)
    assert run(monkeypatch, "up") == main.EXIT_TRANSIENT == 75


def test_an_unknown_command_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "upp") == 2
    assert "No such command 'upp'. Did you mean up?" in capsys.readouterr().err


def test_an_earlier_name_works_and_is_not_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "lake", "audit", "--help") == 0
    assert "Walk the chains of TOPIC" in capsys.readouterr().out
    assert run(monkeypatch, "lake", "--help") == 0
    assert "  audit " not in capsys.readouterr().out


def test_an_earlier_spelling_of_an_option_works_and_is_not_listed() -> None:
    seen = []

    @click.command()
    @click.option("--dry-run", cls=RenamedOption, before=("--plan", "--check"), is_flag=True, help="Write nothing.")
    def command(dry_run: bool) -> None:
        seen.append(dry_run)

    for word in ("--dry-run", "--plan", "--check"):
        assert CliRunner().invoke(command, [word]).exit_code == 0
    assert seen == [True, True, True]
    told = CliRunner().invoke(command, ["--help"]).output
    assert "--dry-run  Write nothing." in told
    assert "--plan" not in told


def test_ctrl_c_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    def waiting() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main.lyrebird, "get_command", lambda _context, _name: waiting)
    assert run(monkeypatch, "up") == 130
    assert "stopped" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("capture status --source sh", ["shelf", "shop"]),
        ("lake where s", ["shop.lines", "shop_orders"]),
        ("lake backfill shop.", ["shop.lines"]),
        ("table status shop", ["shop.lines", "shop_orders"]),
        ("documents check --topic ", ["shop_orders"]),
    ],
)
def test_a_shell_completes_what_the_deployment_declares(
    words: str, expected: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = {
        "sources": {"shop": {}, "shelf": {}, "ads": {}},
        "documents": {"shop_orders": {}},
        "lake": {"raw": {"topics": ["cdc.shop.*", "shop.lines"], "rules": [{"topics": "s*"}]}},
        "kafka": {"bootstrap": "${LYREBIRD_NOWHERE}"},
    }
    (tmp_path / "d.yaml").write_text(json.dumps(declared), "utf-8")
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    monkeypatch.setenv("_LYREBIRD_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"lyrebird {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" "))))
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch)
    assert ended.value.code == 0
    assert capsys.readouterr().out.split() == [f"plain,{name}" for name in expected]


def test_a_full_disk_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    def full() -> None:
        with open("/dev/full", "w", encoding="utf-8") as disk:
            disk.write("x")

    monkeypatch.setattr(main.lyrebird, "get_command", lambda _context, _name: full)
    assert run(monkeypatch, "up") == 75
    assert capsys.readouterr().err.startswith("error: a disk is full (")


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(("a", "n"), [("x", "10"), ("long", "5")], right=("n",)) == "a      n\nx     10\nlong   5"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.9, "59 s"), (185, "3 min 5 s"), (7800, "2 h 10 min"), (97200, "1 d 3 h")],
)
def test_durations_read_as_a_person_says_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text
