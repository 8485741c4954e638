"""Commands that take long say how far they are by the one bar, on stderr, and not beside JSON."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from include.cli import progress_bar
from include.cli.eventtime import replay, verify
from include.cli.index import purge, rebuild, replay_dead
from include.cli.search import dark_launch
from include.clock import ManualClock
from include.errors import BackPressure
from include.eventtime.replay import JobReplay
from include.index.generations.rebuild.pace import RebuildProgress
from include.index.upkeep.purge import PurgeResult
from include.index.upkeep.replay import Replayed
from include.search.dark_launch.report import DarkReport
from tests.support.paths import ROOT


@pytest.fixture(autouse=True)
def every_step_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bar, "_LINE_EVERY_S", -1.0)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def of(*_: object) -> Iterator[Any]:
        yield SimpleNamespace(alias="orders")

    monkeypatch.setattr("include.index.deployed.DeployedIndex.of", of)


def run(command: Any, *words: str) -> Result:
    answer = CliRunner().invoke(command, words)
    assert answer.exit_code == 0, answer.exception
    return answer


def test_no_command_draws_a_line_of_its_own() -> None:
    sources = (ROOT / "include" / "cli").rglob("*.py")
    assert [path.name for path in sources if "\\r" in path.read_text(encoding="utf-8")] == []


@pytest.mark.usefixtures("index")
def test_a_purge(monkeypatch: pytest.MonkeyPatch) -> None:
    def purged(*_: object, on_progress: Any, **__: object) -> list[PurgeResult]:
        on_progress(PurgeResult("orders-v1", "shop.orders", past_use=1_500))
        return []

    monkeypatch.setattr("include.index.upkeep.purge_deployed.purge_deployed", purged)
    line = run(purge.command, "orders").stderr
    assert line.startswith("past their use in orders-v1 from shop.orders: 1,500 tombstones, ")
    shown = run(purge.command, "orders", "--json")
    assert (json.loads(shown.stdout), shown.stderr) == ({"dry_run": False, "purged": []}, "")


@pytest.mark.usefixtures("index")
def test_letters_that_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def replayed(*_: object, on_progress: Any, **__: object) -> dict[str, list[Replayed]]:
        on_progress(Replayed("shop.orders", read=12))
        return {}

    monkeypatch.setattr("include.index.upkeep.replay_deployed.replay_deployed", replayed)
    assert run(replay_dead.command, "orders").stderr.startswith("shop.orders: 12 letters, ")
    shown = run(replay_dead.command, "orders", "--json")
    assert (json.loads(shown.stdout), shown.stderr) == ({"dry_run": False, "indexes": []}, "")


def test_a_rebuild_and_what_it_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar.progress_bar("orders", unit="offsets") as bar:
        teller = rebuild._teller(bar)
        teller.reached(RebuildProgress(250, 1_000, 5.0, None))
        teller.waits("the application is behind")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("orders: 250 of 1,000 offsets, ")
    assert shown.err.endswith("waits: the application is behind\n")


def test_a_rebuilds_json_is_lines_of_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    teller = rebuild._json_teller()
    for done in (1, 2, 10):
        teller.reached(RebuildProgress(done, 10, 5.0, None))
    teller.waits("it")
    shown = capsys.readouterr()
    # One a second, and the end.
    told = [json.loads(line) for line in shown.out.splitlines()]
    assert told == [
        *({"reached": {"done": done, "total": 10, "per_s": 5.0, "left_s": None}} for done in (1, 10)),
        {"waits": "it"},
    ]
    assert shown.err == ""


def test_a_dark_launch(capsys: pytest.CaptureFixture[str]) -> None:
    class Launch:
        report = SimpleNamespace(samples=1)

        def start(self, threads: int) -> None:
            pass

        def ask(self, question: str) -> None:
            if question == "c":
                raise BackPressure("full")

        def close(self) -> DarkReport:
            return DarkReport(0, 0)

    with progress_bar.progress_bar("asked", 3, unit="lists") as bar:
        dark: Any = Launch()
        questions: Any = ["a", "b", "c"]
        assert dark_launch._run(dark, questions, 20.0, ManualClock(), bar) == DarkReport(0, 0)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" lists")[0] for line in lines[:3]] == [f"1 decided, asked: {n} of 3" for n in (1, 2, 3)]
    assert lines[3:] == ["1 lists were not asked for, as the database's cap was reached"]


def test_a_replay_on_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "_job", lambda *_: (SimpleNamespace(outputs={}), 0))

    def on_spark(*_: object, tell: Any, **__: object) -> JobReplay:
        for watermark in (-1, 1_793_577_600_000_000 + 15_000_000, 1 << 62):
            tell(watermark)
        return JobReplay(watermark=1_793_577_660_000_000)

    monkeypatch.setattr("include.local.eventtime_replay.replay_on_spark", on_spark)
    file = tmp_path / "elements"
    line = '{{"partition": 0, "offset": {}, "key": "a", "time": "{}", "value": {{}}}}'
    times = ("2026-11-02T00:00:00Z", "2026-11-02T00:01:00Z")
    file.write_text("\n".join(line.format(*each) for each in enumerate(times)))
    words = ("--job", "any", "--input", str(file), "--engine", "spark")
    first, last = run(replay.command, *words).stderr.splitlines()
    assert first.startswith("watermark 2026-11-02T00:00:15.000000Z: 15 of 60 seconds, ")
    assert ": 60 of 60 seconds, " in last
    shown = run(replay.command, *words, "--json")
    assert (json.loads(shown.stdout)["outputs"], shown.stderr) == ([], "")


def test_a_day_that_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "all.yaml").write_text("registry: {url: 'http://127.0.0.1:1'}\n")
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))

    def verified(_spark: object, _deployment: object, _name: object, _day: object, tell: Any, *_: object) -> Any:
        for watermark in (0, 31_000_000, 99_000_000):
            tell(1_000_000, watermark, 61_000_000)
        return SimpleNamespace(to_json=lambda _: {"first": None}, lines=lambda _: ["the same"], clean=True)

    monkeypatch.setattr("include.eventtime.rerun.rerun_spark.verify", verified)
    monkeypatch.setattr("include.eventtime.rerun.rerun_spark.shown_by", lambda _: None)
    monkeypatch.setattr("include.log.running.batches_spark.session", lambda _: SimpleNamespace(stop=lambda: None))
    words = ("job", "--day", "2026-11-02")
    shown = run(verify.command, *words)
    assert [line.partition(" seconds")[0] for line in shown.stderr.splitlines()] == [
        f"2026-11-02: {done} of 60" for done in (0, 30, 60)
    ]
    shown = run(verify.command, *words, "--json")
    assert (json.loads(shown.stdout), shown.stderr) == ({"first": None}, "")
