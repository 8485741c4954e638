"""Why an application of the lake has ended: told once, however often it is run again and meets the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from include.errors import Fenced, LyrebirdError, Restart, Terminal
from include.lake.host import GroupHost
from include.lake.incidents.incidents import LakeIncidents, ending_told
from include.lake.reading.group_log import TopicIdPartition
from include.lake.run_params import UPLOADS
from include.lake.writing.driver import Driver
from include.lake.writing.report import GroupReport
from include.log.running.application import main
from include.metrics.progress import RunFolder
from include.settings.deployment import Deployment
from tests.support.lake.harness import GROUP, LakeHarness

SCHEDULED = GROUP.model_copy(update={"run": "schedule"})


class Runs:
    """Runs of lake_upload over one group, an hour between them."""

    def __init__(self, folder: Path) -> None:
        self.world = LakeHarness(folder / "local")
        self.clock = self.world.clock
        self.folder = RunFolder(folder, self.clock)
        self.world.make("events", 2)

    def tp(self, partition: int) -> TopicIdPartition:
        return TopicIdPartition("events", self.world.topics()[0].named_id, partition)

    def run(self, *, fails: LyrebirdError | None = None) -> dict[str, Any]:
        """What it gave up for; {} for a run that went well. `fails`: before it has begun."""
        world = self.world
        self.clock.advance(3_600)
        world.write("events", 30)
        world.write("events", 30, 1)
        incidents = LakeIncidents(UPLOADS, self.folder, self.clock)
        watchers = incidents.of("raw", SCHEDULED, lambda _chain, _since: (), world)
        world.submitted.clear()
        driver = Driver("raw", SCHEDULED, world, world.store, world, self.clock, watchers, "here")
        (self.folder.path / "gave-up.json").unlink(missing_ok=True)
        try:
            with ending_told(UPLOADS, again=True):
                if fails is not None:
                    raise fails
                host = GroupHost(
                    UPLOADS, [(driver, GroupReport("raw"))], self.folder, self.clock, bool, incidents=incidents
                )
                host.drain(flush=True)
        except Terminal:
            assert (self.folder.path / "gave-up.json").exists()
        return self.folder.kept("gave-up.json")

    def reported(self) -> set[str]:
        return {each["id"] for each in self.folder.kept("progress.json")["incidents"]}


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setenv("LYREBIRD_RUN", str(tmp_path))
    return Runs(tmp_path)


def test_runs_that_leave_a_partition_standing_end_with_one_incident_until_it_goes_on(runs: Runs) -> None:
    runs.world.fails[runs.tp(0)] = Terminal("the log was truncated", partition=0, end=31, fix="Raise `revision`.")
    first = runs.run()
    assert (first["kind"], first["group"]) == ("standing", "raw")
    assert first["text"].endswith("Raise `revision`. Then the next run goes on.")
    # The log has grown meanwhile, and another partition stands still, too.
    runs.world.fails[runs.tp(0)] = Terminal("the log was truncated", partition=0, end=45, fix="Raise `revision`.")
    runs.world.fails[runs.tp(1)] = Terminal("a commit cannot be read", partition=1)
    second = runs.run()
    assert second["id"] == first["id"]
    assert "end=45" in second["text"]
    assert len(runs.reported()) == 2
    assert runs.run()["id"] == first["id"]
    runs.world.fails.clear()
    assert runs.run() == {}
    assert runs.reported() == set()
    runs.world.fails[runs.tp(0)] = Terminal("the log was truncated", partition=0)
    assert runs.run()["id"] != first["id"]


@pytest.mark.parametrize(
    "error", [Fenced("a newer revision has taken over", topic="t"), Terminal("the store is unfit")]
)
def test_runs_that_end_alike_are_one_incident_until_one_goes_well(runs: Runs, error: Terminal) -> None:
    first = runs.run(fails=error)
    assert runs.run(fails=error)["id"] == first["id"]
    other = runs.run(fails=Terminal("not valid YAML", file="a.yaml", line=3))
    assert other["id"] != first["id"]
    assert runs.run(fails=Terminal("not valid YAML", file="a.yaml", line=4))["id"] == other["id"]
    assert other["text"].endswith("Then the next run goes on.")
    assert runs.run() == {}
    assert runs.reported() == set()
    assert runs.run(fails=error)["id"] != first["id"]


def test_a_stream_that_ends_has_an_incident_for_each_end_and_a_restart_has_none(runs: Runs) -> None:
    ids = set()
    for _ in range(2):
        with pytest.raises(Terminal), ending_told("lake_backup"):
            raise Terminal("the store is unfit")
        ids.add(runs.folder.kept("gave-up.json")["id"])
        # As its guardian does before another start.
        (runs.folder.path / "gave-up.json").unlink()
    assert len(ids) == 2
    with pytest.raises(Restart), ending_told("lake_backup"):
        raise Restart("begin anew")
    assert runs.folder.kept("gave-up.json") == {}


def test_what_was_told_before_the_session_ended_stays(runs: Runs) -> None:
    left: list[Any] = []

    def run() -> None:
        try:
            with ending_told("lake_backup"):
                raise Terminal("the store is unfit")
        finally:
            left.append(runs.folder.kept("gave-up.json"))

    with pytest.raises(Terminal), ending_told("lake_backup"):
        run()
    assert left == [runs.folder.kept("gave-up.json")] != [{}]


@pytest.mark.parametrize("text", ["lake: {raw: [", "lake: {}"])
def test_a_deployment_that_cannot_be_used_is_given_up_for_in_its_own_words(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "lake.yaml").write_text(text)
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["lake_backup.py", "--application", "lake_backup"])

    def run(application: str, deployment: Deployment) -> None:
        raise deployment.error(("lake",), "no group of the lake names this application", application=application)

    assert main("", run, ending_told) == 1
    said = capsys.readouterr().err.removeprefix("error: ").strip()
    told = json.loads((runs.folder.path / "gave-up.json").read_text())
    assert told["text"].startswith(f"lake_backup has stopped: {said.rstrip('.')}")
    assert f"{tmp_path}" in told["text"]
