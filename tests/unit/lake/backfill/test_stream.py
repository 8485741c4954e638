"""A backfill as Spark's jobs: tasks travel as bytes, and are carried out by what they find in the other process."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from include.lake.backfill import backfill_spark as stream
from include.lake.backfill.promotion import promote
from include.lake.backfill.request import BackfillRequest
from include.lake.backfill.run_registry import run_named
from include.settings.deployment import Deployment
from tests.support.lake.backfill_harness import BackfillHarness, version
from tests.support.paths import ROOT
from tests.unit.cli.test_lake_backfill import FILES


class Context:
    """A Spark context as far as a pool knows one; jobs run here, with what came of their bytes."""

    defaultParallelism = 2  # noqa: N815 - Spark's name

    def parallelize(self, items: Iterable[Any], _slices: int) -> Context:
        self.items = list(items)
        return self

    def mapPartitions(self, function: Callable[[Any], Iterable[Any]]) -> Context:
        job = Context()
        job.items = [cloudpickle.loads(cloudpickle.dumps((function, self.items)))]
        return job

    def collect(self) -> list[Any]:
        return [cloudpickle.loads(cloudpickle.dumps(each)) for work, items in self.items for each in work(iter(items))]


class Session:
    stopped = False

    def __init__(self) -> None:
        self.sparkContext = Context()

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BackfillHarness:
    (tmp_path / "deployment.yaml").write_text(FILES, "utf-8")
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    monkeypatch.setenv("LYREBIRD_STATE", str(tmp_path / "state"))
    made = BackfillHarness(tmp_path / "world", version(1, "at"))
    made.make("events", 2)
    for day in range(3):
        for partition in range(2):
            made.events("events", 10, day, partition)
        made.store_all()
    for partition in range(2):
        made.memory.truncate("events", partition, 10**6)
    for module in ("include.lake.backfill.deployed", "include.lake.writing.worker"):
        monkeypatch.setattr(f"{module}.store_of", lambda _settings: made.store)
    return made


def test_a_backfill_on_spark_is_written_and_compared(world: BackfillHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    monkeypatch.setattr(stream, "session", lambda _name: session)
    told: list[tuple[int, int]] = []
    request = BackfillRequest(topic="events", since="2024-05-01", until="2024-05-31", version=2, run="mine")
    found = stream.backfill_by_spark(Deployment.load(), request, lambda done, total: told.append((done, total)))
    assert (found.clean, found.whole, found.cuts) == (True, True, 6)
    assert (told[0], told[-1], session.stopped) == ((0, 6), (6, 6), True)
    promote(world.store, run_named(world.store, world.topic_key(), "mine"))
    lines = world.read()
    assert (len(lines), {line[:13] for line in lines}) == (60, {b"dt=2024-05-01", b"dt=2024-05-02", b"dt=2024-05-03"})


def test_the_program_says_how_far_it_is_and_what_became_of_it(
    world: BackfillHarness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stream, "session", lambda _name: Session())
    monkeypatch.setattr("include.log.running.application.log_to_stderr", lambda: None)

    def run(*arguments: str) -> int:
        monkeypatch.setattr("sys.argv", ["backfill_lake.py", *arguments])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(ROOT / "spark_apps" / "backfill_lake.py"), run_name="__main__")
        return int(end.value.code or 0)

    assert run("events", "--from", "2024-05-02", "--version", "2") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("0 of ")
    assert "clean" in said
    assert said[-1].startswith('{"run": ')
    assert run("events", "--from", "2001-01-01") == 1
    error = capsys.readouterr().err
    assert error.startswith("error: no committed cut has any of it")
    assert error.count("\n") == 1
