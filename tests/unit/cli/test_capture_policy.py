"""`lyrebird capture policy`: with the server's tables, and without an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from include.cli.capture import policy as capture_policy
from include.cli.capture.commands import command
from include.errors import SettingsError, Terminal, Transient
from include.policy.checks import TableColumns
from include.record.schema import Column
from include.source.database import connection

SOURCES = """\
sources:
  shop:
    host: db
    port: 3306
    user: u
    password: secret-password
    databases: [shop, old]
    mask_salt: 0123456789abcdef
    filter:
      sessions:
      users:
        ignored_columns: [notes]
        masks: {email: hash, phone: {keep_last: 3}}
      "shop.tmp_*":
      "*.log":
        masks: {ip: null}
"""
TEXTS = tuple(Column(name, "varchar") for name in ("id", "email", "notes", "phone"))
TABLES = {
    ("shop", "orders"): TableColumns((Column("id", "int"),), ("id",)),
    ("shop", "sessions"): TableColumns((Column("id", "int"),), ("id",)),
    ("shop", "tmp_1"): TableColumns((Column("id", "int"),), ("id",)),
    ("shop", "users"): TableColumns(TEXTS, ("id",)),
}


class Run:
    """Calls the command on a deployment of its own; `tables` None = the server does not answer."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch, self.asked = folder, monkeypatch, 0
        (folder / "sources.yaml").write_text(SOURCES, "utf-8")
        monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(folder))
        monkeypatch.setenv("LYREBIRD_STATE", str(folder / "state"))

    def __call__(self, tables: dict[tuple[str, str], TableColumns] | None, *arguments: str) -> Result:
        def answer(_source: object) -> tuple[Any, str]:
            self.asked += 1
            return tables, "" if tables is not None else "the server does not answer (server='db:3306')"

        self.monkeypatch.setattr(capture_policy, "_tables", answer)
        result = CliRunner().invoke(command, ["policy", "--source", "shop", *arguments])
        assert "secret-password" not in result.output
        assert "0123456789abcdef" not in result.output
        return result

    def json(self, tables: dict[tuple[str, str], TableColumns] | None, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self(tables, *arguments, "--json").stdout)
        return found


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, monkeypatch)


def test_all_tables_of_the_server_are_listed_with_what_decided(run: Run) -> None:
    found = run.json(TABLES)
    verdicts = {each["table"]: each["passes"] for each in found["tables"]}
    assert verdicts == {"shop.orders": True, "shop.sessions": False, "shop.tmp_1": False, "shop.users": True}
    assert (found["asked"], found["unreachable"], found["problems"]) == (True, None, [])
    assert found["unused"] == ["*.log"]
    assert all(each["known"] for each in found["tables"])


def test_the_list_says_what_is_left_out_and_why(run: Run) -> None:
    output = run(TABLES).output
    users = next(line for line in output.splitlines() if line.startswith("shop.users"))
    assert "without notes; email masked, hash; phone masked, keep_last: 3" in users
    assert users.endswith(f"passed by sources.shop.filter.users ({run.folder / 'sources.yaml'}:12)")
    assert "2 of 4 pass" in output
    assert "entries that decide no table of the server: *.log" in output


def test_one_table_is_explained_column_by_column(run: Run) -> None:
    result = run(TABLES, "--explain", "users")
    assert result.exit_code == 0
    assert [" ".join(line.split()) for line in result.output.splitlines()[1:]] == [
        "id as is (key)",
        "email masked, hash",
        "notes ignored",
        "phone masked, keep_last: 3",
    ]
    (users,) = run.json(TABLES, "--explain", "shop.users")["tables"]
    assert users["columns"][1] == {"name": "email", "fate": "masked", "mask": "hash", "key": False}


def test_a_dropped_table_is_explained_without_the_server(run: Run) -> None:
    result = run(None, "--explain", "sessions")
    assert run.asked == 0
    assert result.exit_code == 0
    assert "shop.sessions is dropped" in result.output
    assert "old.sessions is dropped" in result.output
    assert "the server was not asked: no column is needed to tell" in result.output


def test_without_an_answer_the_named_tables_are_shown_and_the_reason(run: Run) -> None:
    result = run(None)
    assert result.exit_code == 0
    assert (
        "this is what the deployment files alone tell, as the server does not: the server does not answer"
        in result.output
    )
    found = run.json(None)
    named = {each["table"]: (each["passes"], each["known"]) for each in found["tables"]}
    assert named == {
        "shop.sessions": (False, None),
        "old.sessions": (False, None),
        "shop.users": (True, None),
        "old.users": (True, None),
        "shop.tmp_*": (False, None),
        "*.log": (True, None),
    }
    assert found["unreachable"].startswith("the server does not answer")


def test_without_an_answer_a_table_is_explained_as_far_as_the_file_tells(run: Run) -> None:
    output = run(None, "--explain", "shop.users").output
    assert "notes  ignored" in output
    assert "other columns as they are" in output


def test_a_table_that_is_not_there_is_said_to_be_so(run: Run) -> None:
    output = run(TABLES, "--explain", "shop.users_new").output
    assert "the server has no such table" in output
    assert "no entry of `filter` names it" in output


def test_a_policy_that_does_not_fit_ends_with_1_and_the_place(run: Run) -> None:
    tables = TABLES | {("shop", "users"): TableColumns(TEXTS[:3], ("email",))}
    for arguments in ((), ("--explain", "users")):
        result = run(tables, *arguments)
        assert result.exit_code == 1
        assert "problem: no such column" in result.output
        assert "problem: a key column cannot be masked" in result.output
    assert len(run.json(tables)["problems"]) == 2


def test_an_unknown_source_is_refused(run: Run) -> None:
    result = CliRunner().invoke(command, ["policy", "--source", "shpo"])
    assert isinstance(result.exception, SettingsError)


@pytest.mark.parametrize("refusal", [Transient("no answer", system="mysql"), Terminal("the account is refused")])
def test_any_refusal_of_the_server_is_a_reason_not_an_end(
    run: Run, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    def refuse(_source: object) -> None:
        raise refusal

    monkeypatch.setattr(connection, "connect", refuse)
    result = CliRunner().invoke(command, ["policy", "--source", "shop", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["unreachable"] == str(refusal)
