"""`lyrebird lake restore` over a bucket and a log in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from include.cli.lake import commands as lake
from include.errors import LyrebirdError, Terminal
from include.log.registry.memory import MemoryRegistry
from tests.unit.lake.restore.restore_harness import RestoreHarness
from tests.unit.lake.restore.test_schema_ids import OTHER, Framed, Pair

FILES = """\
kafka: {bootstrap: "127.0.0.1:9"}
store: {endpoint: "http://127.0.0.1:9", bucket: lake, access_key: a, secret_key: secret-password}
lake:
  raw:
    kind: backup
    application: lake_backup
    topics: [e*]
    prefix: raw
    rules: [{topics: "*", format: {sequence: {layout: verbatim}}}]
  thin:
    kind: backup
    application: lake_backup
    topics: [e*]
    prefix: thin
    rules: [{topics: "*", format: {sequence: {layout: offset}}}]
"""


class Shell:
    """Commands over the world's bucket and log."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "deployment.yaml").write_text(FILES, "utf-8")
        monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(folder))
        monkeypatch.setenv("LYREBIRD_STATE", str(folder / "state"))
        self.world = RestoreHarness(folder / "world")
        for day in range(3):
            self.world.send(8, 0, day=day)
            self.world.flush()
        monkeypatch.setattr("include.lake.restore.deployed.store_of", lambda _settings: self.world.store)
        monkeypatch.setattr("include.lake.restore.deployed.kafka_of", lambda _settings: self.world.kafka())

    def __call__(self, *arguments: str) -> Result:
        result = CliRunner().invoke(lake.command, ("restore", *arguments))
        assert "secret-password" not in result.output
        return result

    def json(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self(*arguments, "--json").stdout)
        return found


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(tmp_path, monkeypatch)


ASKED = ("events", "--to", "copy", "--group", "raw")


def test_a_dry_run_says_what_would_be_written_and_writes_nothing(shell: Shell) -> None:
    keys = [info.key for info in shell.world.store.list("")]
    shell.world.commit("billing", {0: 3})
    told = shell(*ASKED, "--groups", "billing", "--dry-run")
    assert told.exit_code == 0, told.exception
    assert "all records of events" in told.stdout
    assert "up to 24 records" in told.stdout
    assert "copy: it is made anew" in told.stdout
    assert "group billing: 1 partitions" in told.stdout
    found = shell.json(*ASKED, "--groups", "billing", "--dry-run")
    assert (found["begun"], found["plan"]["records"], found["groups"]) == (False, 24, {"billing": {"0": 3}})
    assert [info.key for info in shell.world.store.list("")] == keys
    assert shell.world.memory.admin().names() == ["events"]


def test_a_topic_is_restored_with_its_groups_and_asking_again_changes_nothing(shell: Shell) -> None:
    shell.world.commit("billing", {0: 3})
    told = shell(*ASKED, "--groups", "billing, billing")
    assert told.exit_code == 0, told.exception
    assert "24 records of events are in copy" in told.stdout
    assert "partition 0: offsets 0 to 26 are now 0 to 23, 24 records" in told.stdout
    assert "group billing, partition 0: 3 is 3: the same record" in told.stdout
    assert shell.world.content("copy", 0) == shell.world.content("events", 0)
    again = shell.json(*ASKED, "--groups", "billing")
    assert shell.json(*ASKED, "--dry-run")["begun"] is True
    assert (again["records"], again["groups"][0]["how"]) == (24, "kept")
    assert again["partitions"][0]["ranges"] == [[0, 27, 0]]
    kept = shell.world.store.get(again["map"])
    assert kept is not None
    assert json.loads(kept.body)["partitions"] == again["partitions"]
    assert shell.world.content("copy", 0) == shell.world.content("events", 0)


def test_a_target_that_is_there_decides_itself_what_it_keeps(shell: Shell) -> None:
    shell.world.make("copy", 2)
    assert "its own retention and cleanup decide" in shell(*ASKED, "--dry-run").stdout
    shell(*ASKED)
    assert "this restore has begun, and goes on" in shell(*ASKED, "--dry-run").stdout


def test_days_are_those_of_the_records(shell: Shell) -> None:
    told = shell.json(*ASKED, "--from", "2024-05-02", "--until", "2024-05-03")
    assert told["records"] == 16
    assert shell.world.content("copy", 0) == shell.world.content("events", 0)[8:]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("events", "--to", "copy"), "which backup group"),
        (("events", "--to", "copy", "--group", "thin"), "does not keep all of a record"),
        (("other", "--to", "copy"), "Did you mean events?"),
        (("e1", "--to", "copy", "--group", "raw"), "nothing of this topic is stored"),
        (("events", "--to", "cdc.shop.copy", "--group", "raw"), "belongs to capture"),
        ((*ASKED, "--until", "2024-05-01"), "without a first one"),
        ((*ASKED, "--from", "tomorrow"), "not a day"),
        ((*ASKED, "--from", "2001-01-01"), "no record of this"),
        ((*ASKED, "--from", "2024-05-01", "--offsets", "0:1-2"), "of days or of offsets"),
        ((*ASKED, "--zone", "Mars/Olympus"), "no such time zone"),
        ((*ASKED, "--offsets", "0:5"), "no range of offsets"),
        ((*ASKED, "--offsets", "0:5-5"), "no range of offsets"),
        ((*ASKED, "--partitions", "9"), "another number of partitions"),
        ((*ASKED, "--groups", "typo"), "without committed offsets"),
        ((*ASKED, "--topic-id", "nobody"), "no life of the topic has this id"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_next_step(shell: Shell, arguments: tuple[str, ...], says: str) -> None:
    error = shell(*arguments).exception
    assert isinstance(error, LyrebirdError)
    assert says in str(error)
    assert error.fix


class Registered(Shell):
    """With a schema registry that is not the one of the backup's records."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, monkeypatch)
        (folder / "registry.yaml").write_text('registry: {url: "http://127.0.0.1:9"}\n', "utf-8")
        self.world = world = Framed(folder / "framed")
        self.pairs = world.fill()
        self.registry = MemoryRegistry()
        for number in range(9):
            self.registry.register(f"{number}-value", {**OTHER, "name": f"x{number}"})
        monkeypatch.setattr("include.lake.restore.deployed.ConfluentRegistry", lambda _settings: self.registry)

    @property
    def found(self) -> list[Pair]:
        return [(record.key, record.value) for record in self.world.records("copy", 0)]


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    return Registered(tmp_path, monkeypatch)


def test_schemas_that_the_registry_lacks_are_told_by_a_dry_run_and_registered_by_the_restore(
    registered: Registered,
) -> None:
    told = registered(*ASKED, "--dry-run")
    assert "the registry lacks 4 of the schemas that the backup keeps" in told.stdout
    assert registered.json(*ASKED, "--dry-run")["lacking_schemas"] == [1, 2, 3, 4]
    assert registered.registry.newest("copy-value") is None
    done = registered(*ASKED)
    assert done.exit_code == 0, done.exception
    assert "4 records have other schema ids, as the registry knows them" in done.stdout
    assert "schema 1 of a key is 10 now" in done.stdout
    again = registered.json(*ASKED)
    assert again["rewritten"] == 4
    assert registered.registry.newest("copy-key") == 10
    assert registered.found != registered.pairs


def test_keep_ids_leaves_every_byte_and_is_another_restore(registered: Registered) -> None:
    done = registered.json(*ASKED, "--keep-ids")
    assert (done["rewritten"], done["schema_ids"]) == (0, [])
    assert registered.found == registered.pairs
    assert registered.registry.newest("copy-value") is None
    other = registered(*ASKED)
    assert isinstance(other.exception, Terminal)
    assert "another restore" in str(other.exception)
