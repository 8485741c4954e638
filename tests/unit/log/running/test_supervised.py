"""What a guardian hears of a running query, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from include.clock import ManualClock
from include.errors import Fenced, LyrebirdError, Terminal, Transient
from include.log.planning.plan import BatchPlan, Cut, StreamOffset
from include.log.running.failure import first_line, lyrebird_error
from include.log.running.spark_settings import driver_options, settings
from include.log.running.supervised import (
    ApplicationEnding,
    SupervisedRun,
    lag_by_topic,
    pause_s,
    run_beside,
    stop_signal,
)
from include.metrics.exporter import Metrics
from include.metrics.progress import RunFolder
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition

PLAN = BatchPlan({}, {}, {})
WORKER = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "include/log/planning/planner.py", line 100, in _look
    raise Terminal(
include.errors.Terminal: topic was made anew (topic='t', had_id='1', has_id='2'). Rebuild the copy.

\tat org.apache.spark.sql.execution.python.Runner.java:1
"""


class Run:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.metrics = Metrics("app")
        self.supervised = SupervisedRun("app", RunFolder(folder, ManualClock(5)), self.metrics, ManualClock(5))

    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "progress.json").read_text())
        return found


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def report(rows: int, latest: Mapping[str, Any] | None = None) -> dict[str, Any]:
    end = StreamOffset(ends={("t", 0): 5, ("t", 1): 5}).to_json()
    source = {"endOffset": end, "latestOffset": latest}
    return {"batchId": 7, "sources": [source], "numInputRows": rows, "durationMs": {"triggerExecution": 1500}}


def test_a_batch_shows_in_progress_and_metrics(run: Run) -> None:
    run.supervised.batch(7, PLAN, lambda: {"documents": 3})
    run.supervised.heard(report(11, StreamOffset(ends={("t", 0): 9, ("t", 1): 5}).to_json()))
    told = run.told()
    assert (told["batch"], told["rows"], told["documents"], told["lag_records"]) == (7, 11, 3, 4)
    # 11 rows in 1.5 s; 4 wait.
    assert (told["rows_per_s"], told["eta_s"]) == (7.3, 0.5)
    text = run.metrics.text()
    assert 'lyrebird_lag_records{application="app",kind="t"} 4.0' in text
    assert 'lyrebird_batch_seconds{application="app",kind=""} 1.5' in text


@pytest.mark.parametrize(
    ("took_s", "records", "paused_s"),
    [(0.1, 20, 0.2), (0.4, 99, 0.8), (5.0, 20, 1.0), (0.4, 100, 0.0), (0.4, 0, 0.8)],
)
def test_behind_few_records_a_stream_pauses_for_twice_as_long_as_they_took_a_second_at_most(
    took_s: float, records: int, paused_s: float
) -> None:
    assert pause_s(took_s, records) == paused_s


def paused_s(run: Run, plan: BatchPlan = PLAN, latest: int = 5, **told: int) -> float:
    """Behind a second batch, of 0.35 s, by what the report on it takes off."""
    ends = threading.Event()
    ends.set()
    for _ in range(2):
        run.supervised.batch(7, plan, lambda: told)
        run.supervised.pause(0.35, plan, ends)
        run.supervised.heard(report(11, StreamOffset(ends={("t", 0): latest}).to_json()))
    return round(1.5 - float(run.told()["batch_s"]), 3)


def test_a_pause_is_no_part_of_the_seconds_of_its_batch_and_ends_with_the_application(run: Run) -> None:
    assert paused_s(run) == 0.7


def test_nothing_pauses_while_many_records_or_requests_wait(run: Run) -> None:
    assert paused_s(run, BatchPlan({("t", 0): 0}, {("t", 0): 100}, {})) == 0.0
    assert paused_s(run, latest=105) == 0.0
    assert paused_s(run, requests=1) == 0.0
    assert paused_s(run, requests=0, latest=104) == 0.7


def cut(source: str, number: int) -> Cut:
    at = SourcePosition("mariadb", MariadbGtidSet({0: (1, number)}), BinlogPosition("bin.000001", 4), number)
    return Cut(source, number, number, at, (), number)


def test_of_one_source_its_position_is_told_of_several_all_and_the_age_of_the_last_one_behind(run: Run) -> None:
    shop = {("cdc.shop.resolved", "shop"): cut("shop", 4)}
    run.supervised.batch(7, BatchPlan({}, {}, {}, shop), lambda: None)
    run.supervised.heard(report(0))
    assert {name: run.told()[name] for name in ("position", "commit_us", "sequence")} == {
        "position": "0-1-4",
        "commit_us": 4,
        "sequence": 4,
    }
    both = shop | {("cdc.depot.resolved", "depot"): cut("depot", 2), ("joined.resolved", "shop"): cut("shop", 3)}
    run.supervised.batch(8, BatchPlan({}, {}, {}, both), lambda: None)
    run.supervised.heard(report(0))
    assert (run.told()["positions"], run.told()["commit_us"]) == ({"shop": "0-1-3", "depot": "0-1-2"}, 2)
    assert "position" not in run.told()
    assert 'lyrebird_position_commit_seconds{application="app",kind=""} 2e-06' in run.metrics.text()


def test_work_that_says_how_many_records_it_read_is_believed(run: Run) -> None:
    run.supervised.batch(7, PLAN, lambda: {"read": 500})
    run.supervised.heard(report(2))
    assert run.told()["rows"] == 500


def test_an_idle_query_makes_progress_too(run: Run) -> None:
    run.supervised.idle()
    assert run.told()["idle_at_us"] == 5


def test_no_batch_begins_once_it_drains(run: Run) -> None:
    run.supervised.drain()
    with pytest.raises(ApplicationEnding):
        run.supervised.batch(1, PLAN, lambda: None)
    assert run.supervised.failure is None


def test_an_error_of_ours_keeps_its_class_and_parameters(run: Run) -> None:
    fenced = Fenced("another process has taken over", topic="t")

    def work() -> None:
        raise fenced

    with pytest.raises(Fenced):
        run.supervised.batch(1, PLAN, work)
    assert run.supervised.error(RuntimeError("py4j says something long")) is fenced


def test_an_error_of_a_task_is_found_in_what_spark_says(run: Run) -> None:
    def work() -> None:
        raise RuntimeError(WORKER)

    with pytest.raises(RuntimeError):
        run.supervised.batch(1, PLAN, work)
    found = run.supervised.error(RuntimeError("[STREAM_FAILED] …"))
    assert type(found) is Terminal
    assert str(found) == "topic was made anew (topic='t', had_id='1', has_id='2'). Rebuild the copy."


def test_any_other_error_becomes_one_line_with_its_cause(run: Run) -> None:
    failed = RuntimeError("Traceback (most recent call last):\n  File …\nKeyError: 'price'\n\tat java")
    found = run.supervised.error(failed)
    assert isinstance(found, Transient)
    assert "KeyError: 'price'" in str(found)
    assert "\n" not in str(found)


def test_texts_without_an_error_of_ours_have_none() -> None:
    assert lyrebird_error("ValueError: include.errors is fine") is None
    assert lyrebird_error("include.errors.NoSuchError: x") is None
    assert first_line(ValueError("a\nb")) == "ValueError: a"


def test_every_error_of_ours_is_found_by_its_name() -> None:
    for kind in (LyrebirdError, Terminal, Fenced, Transient):
        found = lyrebird_error(f"Traceback:\n{kind.__module__}.{kind.__name__}: text. Fix.")
        assert type(found) is kind


def test_lag_counts_only_what_is_behind_the_end() -> None:
    latest = StreamOffset(ends={("a", 0): 5, ("a", 1): 9, ("b", 0): 3}).to_json()
    end = StreamOffset(ends={("a", 0): 7, ("a", 1): 4}).to_json()
    assert lag_by_topic(latest, end) == {"a": 5, "b": 0}
    assert lag_by_topic(json.dumps(latest), json.dumps(end)) == {"a": 5, "b": 0}
    assert lag_by_topic(None, end) == {}


def test_sigterm_asks_for_the_end_and_nothing_more() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_signal() as asked:
        assert not asked.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked.wait(5)
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_spark_submit_was_given_wins(tmp_path: Path) -> None:
    found = settings(
        "app",
        given={"spark.sql.shuffle.partitions": "3", "spark.ui.enabled": "true"},
        outside={"spark.sql.shuffle.partitions": "4", "spark.master": "spark://host:7077"},
        master="local[2]",
        root=tmp_path,
    )
    assert (found["spark.sql.shuffle.partitions"], found["spark.ui.enabled"]) == ("4", "true")
    assert found["spark.executorEnv.PYTHONPATH"] == str(tmp_path)
    assert "spark.driver.host" not in found
    # There the master has to have the same secret.
    assert "spark.authenticate" not in found


def test_a_local_session_listens_on_this_machine_only(tmp_path: Path) -> None:
    found = settings("app", given={}, outside={}, master="local[2]", root=tmp_path / "gone")
    assert found["spark.driver.bindAddress"] == found["spark.driver.host"] == "127.0.0.1"
    assert found["spark.authenticate"] == "true"
    assert "Shared" not in found["spark.driver.extraJavaOptions"]
    # For this one Spark makes no secret, and would not start.
    cluster = settings("app", given={}, outside={}, master="local-cluster[1,1,1024]", root=tmp_path / "gone")
    assert "spark.authenticate" not in cluster
    assert "spark.executorEnv.PYTHONPATH" not in found


def test_a_driver_on_this_machine_maps_the_archive_of_sparks_classes(tmp_path: Path) -> None:
    def options(master: str) -> str | None:
        found = settings("app", given={}, outside={}, master=master, root=tmp_path, classes="/a cache/classes.jsa")
        return found.get("spark.driver.extraJavaOptions")

    assert options("local[2]") == driver_options("/a cache/classes.jsa")
    assert options("spark://host:7077") is None


def test_streams_of_one_application_run_beside_each_other_until_all_have_ended() -> None:
    asked, meet = threading.Event(), threading.Barrier(2)
    ended: list[int] = []

    def one(number: int) -> None:
        meet.wait(60)
        ended.append(number)

    run_beside([lambda: one(1), lambda: one(2)], asked)
    assert sorted(ended) == [1, 2]


def test_a_stream_that_fails_asks_the_others_to_end_and_is_told_of() -> None:
    asked = threading.Event()
    ended: list[bool] = []

    def fails() -> None:
        raise Terminal("no index serves this alias")

    with pytest.raises(Terminal, match="no index"):
        run_beside([lambda: ended.append(asked.wait(60)), fails], asked)
    assert ended == [True]


def test_one_stream_alone_keeps_the_main_thread_which_hears_of_signals() -> None:
    threads: list[threading.Thread] = []
    run_beside([lambda: threads.append(threading.current_thread())], threading.Event())
    assert threads == [threading.current_thread()]


def test_a_signal_asks_all_streams_of_an_application() -> None:
    asked = threading.Event()

    def kills() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked.wait(60)

    run_beside([kills, lambda: assert_asked(asked)], asked)
    assert asked.is_set()


def assert_asked(asked: threading.Event) -> None:
    assert asked.wait(60)


class Starting:
    """A query that ends after it was asked so often whether it runs."""

    def __init__(self, asked: int) -> None:
        self.left = asked

    @property
    def isActive(self) -> bool:
        self.left -= 1
        return self.left > 0


def test_a_stream_has_begun_with_its_first_batch_or_when_there_is_none_or_when_it_ended(run: Run) -> None:
    ends = Starting(3)
    run.supervised.started()
    run.supervised.await_begun(ends)  # type: ignore[arg-type]
    assert ends.left == 0
    run.supervised.batch(1, PLAN, lambda: None)
    untouched = Starting(1)
    run.supervised.await_begun(untouched)  # type: ignore[arg-type]
    assert untouched.left == 1
    idle = Run(run.folder)
    idle.supervised.idle()
    idle.supervised.await_begun(untouched)  # type: ignore[arg-type]
    assert untouched.left == 1
