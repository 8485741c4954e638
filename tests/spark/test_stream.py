"""The log in Spark, against a real broker."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from include.clock import SystemClock
from include.errors import Fenced, SettingsError, Terminal, Transient
from include.log.planning.slices import Slice, cached_consumer
from include.log.planning.survey import KafkaSurvey
from include.log.running.batches_spark import BatchPlan, newest_cut, read_batch, read_stream, run, warm, work_off
from include.metrics.exporter import Metrics
from include.metrics.progress import RunFolder


class Batches:
    """Takes batches as an application would, and remembers them."""

    def __init__(self) -> None:
        self.plans: list[BatchPlan] = []
        self.rows: list[list[Row]] = []

    def __call__(self, df: DataFrame, plan: BatchPlan) -> dict[str, Any]:
        self.rows.append(df.collect())
        self.plans.append(plan)
        return {"documents": len(self.rows[-1])}

    def all(self) -> list[Row]:
        return [row for rows in self.rows for row in rows]

    def values(self) -> list[bytes]:
        return sorted(row.value for row in self.all())

    def have(self, count: int) -> Callable[[], bool]:
        return lambda: len(self.all()) >= count


def numbers(start: int, stop: int) -> list[bytes]:
    return [b"%04d" % n for n in range(start, stop)]


def assert_plans_tell_what_was_read(batches: Batches) -> None:
    for plan, rows in zip(batches.plans, batches.rows, strict=True):
        for row in rows:
            at = (row.topic, row.partition)
            assert plan.start[at] <= row.offset < plan.ends[at]
            assert plan.topic_ids[row.topic] == row.topic_id
    for before, after in zip(batches.plans, batches.plans[1:], strict=False):
        assert {at: after.start[at] for at in before.ends} == before.ends


def test_all_kinds_of_records_arrive_as_they_were_written(
    spark: SparkSession, log: Any, unique: str, run_stream: Any
) -> None:
    topic = log.topic(unique, 2)
    log.write(topic, b"value", partition=1, headers=[("version", b"7"), ("empty", b""), ("null", None)])
    log.write(topic, None, b"", key=b"")
    log.write(topic, b"x", key=None)
    batches = Batches()
    run_stream(read_stream(spark, bootstrap=log.bootstrap, topics=[topic]), batches, batches.have(4))
    rows = {(row.partition, row.offset): row for row in batches.all()}
    assert [tuple(header) for header in rows[1, 0].headers] == [("version", b"7"), ("empty", b""), ("null", None)]
    assert (rows[1, 0].key, rows[1, 0].value) == (b"k", b"value")
    assert (rows[0, 0].key, rows[0, 0].value, rows[0, 0].headers) == (b"", None, [])
    assert rows[0, 1].value == b""
    assert rows[0, 3].key is None
    assert {row.topic_id for row in rows.values()} == {log.admin.describe(topic).topic_id}
    assert all(row.timestamp_ms > 1_700_000_000_000 for row in rows.values())


def test_a_restart_goes_on_from_the_start_that_it_is_given(
    spark: SparkSession, log: Any, unique: str, run_stream: Any
) -> None:
    topic = log.topic(unique, 2)
    log.write(topic, *numbers(0, 10))
    log.write(topic, *numbers(10, 12), partition=1)
    first = Batches()
    run_stream(read_stream(spark, bootstrap=log.bootstrap, topics=[topic]), first, first.have(12))
    log.write(topic, *numbers(12, 20))
    start: dict[str, dict[int, int]] = {topic: {p: end for (_, p), end in first.plans[-1].ends.items()}}
    second = Batches()
    df = read_stream(spark, bootstrap=log.bootstrap, topics=[topic], start=start, topic_ids=first.plans[-1].topic_ids)
    run_stream(df, second, second.have(8))
    assert second.values() == numbers(12, 20)
    assert second.plans[0].start == first.plans[-1].ends
    assert_plans_tell_what_was_read(second)


def test_every_batch_ends_at_a_resolved_record_and_tells_which(
    spark: SparkSession, log: Any, unique: str, run_stream: Any
) -> None:
    resolved, orders = log.topic(f"cdc.{unique}.resolved"), log.topic(f"cdc.{unique}.shop.orders", 2)
    told: dict[int, int] = {}

    def write(batch: int, *, full: bool = False) -> None:
        ends = log.write(orders, *numbers(batch * 10, batch * 10 + 5), partition=batch % 2)
        sequence = log.resolve(resolved, ends, full=full)
        told[sequence] = ends[orders, batch % 2]
        log.write(orders, b"beyond", partition=batch % 2)

    write(0, full=True)
    batches = Batches()

    def on_batch(df: DataFrame, plan: BatchPlan) -> dict[str, Any]:
        if len(batches.plans) < 4:
            write(len(batches.plans) + 1)
        return batches(df, plan)

    df = read_stream(spark, bootstrap=log.bootstrap, topics=[orders], cut_at=(resolved,))
    run_stream(df, on_batch, lambda: len(batches.plans) >= 5)
    for plan in batches.plans:
        assert plan.cut is not None
        partition = (plan.cut.sequence - 1) % 2
        assert plan.ends[orders, partition] == told[plan.cut.sequence]
    sequences = [plan.cut.sequence for plan in batches.plans if plan.cut]
    assert sequences == sorted(set(sequences))
    assert_plans_tell_what_was_read(batches)
    cut, ends = newest_cut(log.bootstrap, resolved)
    assert (cut.sequence, ends[orders, 0]) == (5, told[5])


def test_a_stream_that_is_cut_waits_for_the_topics_of_a_source_that_has_not_begun(
    spark: SparkSession, log: Any, unique: str
) -> None:
    resolved, orders = f"cdc.{unique}.resolved", f"cdc.{unique}.shop.orders"
    other = log.topic(unique)
    log.write(other, b"not a change")
    df = read_stream(spark, bootstrap=log.bootstrap, topics=[orders, other], cut_at=(resolved,))
    query = df.writeStream.format("memory").queryName(f"m_{unique}").start()
    try:
        query.awaitTermination(2)
        assert query.isActive
        assert spark.table(f"m_{unique}").count() == 0
        log.topic(orders)
        log.topic(resolved)
        log.resolve(resolved, log.write(orders, b"a change"), full=True)
        while spark.table(f"m_{unique}").count() < 2:
            query.awaitTermination(1)
    finally:
        query.stop()
    assert sorted(row.value for row in spark.table(f"m_{unique}").collect()) == [b"a change", b"not a change"]


def test_slices_stand_for_the_records_that_they_hold(spark: SparkSession, log: Any, unique: str) -> None:
    topic = log.topic(unique, 2)
    log.write(topic, *numbers(0, 25))
    log.write(topic, *numbers(25, 30), partition=1)
    rows = read_batch(spark, bootstrap=log.bootstrap, topics=[topic], slices=True).collect()
    slices = [Slice(row.topic, row.partition, row.start, row.end) for row in rows]
    with cached_consumer(log.bootstrap) as consumer:
        values = [m.value() for each in slices for messages in consumer.read([each]) for m in messages]
    assert sorted(values) == numbers(0, 30)
    assert sum(each.size for each in slices) >= 30
    assert len({row.topic_id for row in rows}) == 1


def test_a_limit_bounds_each_partition_of_each_batch(
    spark: SparkSession, log: Any, unique: str, run_stream: Any
) -> None:
    topic, small = log.topic(unique, 2), log.topic(f"{unique}.small")
    log.write(topic, *numbers(0, 25))
    log.write(topic, *numbers(25, 30), partition=1)
    log.write(small, *numbers(30, 35))
    batches = Batches()
    df = read_stream(spark, bootstrap=log.bootstrap, topics=[topic, small], limit=10, limits={small: 3})
    run_stream(df, batches, batches.have(35))
    for plan in batches.plans:
        assert all(end - plan.start[at] <= (3 if at[0] == small else 10) for at, end in plan.ends.items())
    assert batches.values() == numbers(0, 35)
    assert_plans_tell_what_was_read(batches)


def test_aborted_transactions_are_gaps(spark: SparkSession, log: Any, unique: str, run_stream: Any) -> None:
    topic = log.topic(unique)
    log.write(topic, *numbers(0, 3))
    for _ in range(3):
        log.write(topic, *numbers(90, 95), commit=False)
    log.write(topic, *numbers(3, 6))
    log.write(topic, *numbers(90, 95), commit=False)
    batches = Batches()
    df = read_stream(spark, bootstrap=log.bootstrap, topics=[topic], limit=2)
    run_stream(df, batches, lambda: batches.plans[-1].ends[topic, 0] >= 32)
    assert batches.values() == numbers(0, 6)
    assert [] in batches.rows


def test_a_topic_that_is_made_anew_ends_the_query_with_a_reason(
    spark: SparkSession, log: Any, unique: str, run_stream: Any
) -> None:
    topic = log.topic(unique)
    log.write(topic, b"old")

    def on_batch(df: DataFrame, plan: BatchPlan) -> None:
        assert [row.value for row in df.collect()] == [b"old"]
        log.admin.delete(topic)
        log.topic(topic)
        log.write(topic, *numbers(0, 9))

    with pytest.raises(Terminal, match="made anew") as caught:
        run_stream(read_stream(spark, bootstrap=log.bootstrap, topics=[topic]), on_batch, lambda: False)
    assert "\n" not in str(caught.value)
    assert unique in str(caught.value)
    assert "Rebuild" in str(caught.value)


def test_a_partition_that_is_added_is_read_from_its_beginning(
    spark: SparkSession, log: Any, unique: str, run_stream: Any
) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    topic = log.topic(unique)
    log.write(topic, *numbers(0, 3))
    batches = Batches()

    def on_batch(df: DataFrame, plan: BatchPlan) -> None:
        batches(df, plan)
        if len(batches.plans) == 1:
            admin = AdminClient({"bootstrap.servers": log.bootstrap})
            for future in admin.create_partitions([NewPartitions(topic, 2)]).values():
                future.result(10)
            log.writer.close()
            log.writer = type(log.writer)(log.bootstrap, f"second-{unique}")
            log.write(topic, *numbers(3, 6), partition=1)

    run_stream(read_stream(spark, bootstrap=log.bootstrap, topics=[topic]), on_batch, batches.have(6))
    assert batches.values() == numbers(0, 6)
    assert batches.plans[-1].start[topic, 1] == 0


def test_an_error_of_a_batch_keeps_its_class(spark: SparkSession, log: Any, unique: str, run_stream: Any) -> None:
    topic = log.topic(unique)
    log.write(topic, b"x")

    def on_batch(df: DataFrame, plan: BatchPlan) -> None:
        raise Fenced("another process has taken over", topic=topic, fix="This one ends.")

    with pytest.raises(Fenced, match="another process has taken over") as caught:
        run_stream(read_stream(spark, bootstrap=log.bootstrap, topics=[topic]), on_batch, lambda: False)
    assert caught.value.details == {"topic": topic}


def test_an_error_in_a_task_keeps_its_class(spark: SparkSession, log: Any, unique: str, run_stream: Any) -> None:
    topic = log.topic(unique)
    log.write(topic, b"x")

    def on_batch(df: DataFrame, plan: BatchPlan) -> None:
        def refuse(batches: Any) -> Any:
            for batch in batches:
                if batch.num_rows:
                    raise SettingsError("this is wrong", path="a.b", fix="Mend it.")
                yield batch

        df.mapInArrow(refuse, df.schema).collect()

    with pytest.raises(SettingsError) as caught:
        run_stream(read_stream(spark, bootstrap=log.bootstrap, topics=[topic]), on_batch, lambda: False)
    assert str(caught.value) == "this is wrong (path='a.b'). Mend it."


def test_tasks_that_read_for_themselves_give_their_results_in_order(spark: SparkSession) -> None:
    shares = [[Slice("t", number, 0, 1)] for number in range(5)]
    assert list(work_off(spark, lambda share: share[0].partition, shares)) == [0, 1, 2, 3, 4]
    assert list(work_off(spark, len, [])) == []


def test_an_error_in_a_task_that_reads_for_itself_keeps_its_class(spark: SparkSession) -> None:
    def refuse(share: Any) -> None:
        raise Transient("no answer from the registry", system="registry")

    def fail(share: Any) -> None:
        raise KeyError(share)

    with pytest.raises(Transient, match=r"^no answer from the registry \(system='registry'\)$"):
        work_off(spark, refuse, [[Slice("t", 0, 0, 1)]])
    with pytest.raises(PySparkException, match="KeyError"):
        work_off(spark, fail, [[Slice("t", 0, 0, 1)]])
    with pytest.raises(Transient, match="no answer from the registry"):
        warm(spark, refuse)


def test_progress_tells_batch_rows_and_lag(spark: SparkSession, log: Any, unique: str, run_stream: Any) -> None:
    topic = log.topic(unique)
    log.write(topic, *numbers(0, 30))
    batches = Batches()
    df = read_stream(spark, bootstrap=log.bootstrap, topics=[topic], limit=10)
    folder = run_stream(df, batches, batches.have(30))
    told = json.loads((folder / "progress.json").read_text())
    assert told["application"] == "tests"
    assert told["batch"] >= 1
    assert told["documents"] <= 10
    assert "lag_records" in told


def test_an_unfinished_batch_is_run_again_with_the_same_plan(
    spark: SparkSession, log: Any, unique: str, run_stream: Any, tmp_path: Path
) -> None:
    topic = log.topic(unique)
    log.write(topic, *numbers(0, 3))
    seen: list[BatchPlan] = []

    def crash(df: DataFrame, plan: BatchPlan) -> None:
        seen.append(plan)
        log.write(topic, *numbers(3, 6))
        raise Terminal("crash")

    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(Terminal, match="crash"):
        run_stream(
            read_stream(spark, bootstrap=log.bootstrap, topics=[topic]), crash, lambda: False, checkpoint=checkpoint
        )
    again = Batches()
    run_stream(read_stream(spark, bootstrap=log.bootstrap, topics=[topic]), again, again.have(6), checkpoint=checkpoint)
    assert again.plans[0] == seen[0]
    assert sorted(row.value for row in again.rows[0]) == numbers(0, 3)
    assert again.values() == numbers(0, 6)


def test_available_now_takes_all_in_steps_of_the_limit(
    spark: SparkSession, log: Any, unique: str, tmp_path: Path
) -> None:
    topic = log.topic(unique)
    log.write(topic, *numbers(0, 25))
    sizes: list[int] = []
    df = read_stream(spark, bootstrap=log.bootstrap, topics=[topic], limit=10)
    writer = df.writeStream.foreachBatch(lambda rows, _: sizes.append(rows.count()))
    query = writer.trigger(availableNow=True).option("checkpointLocation", str(tmp_path)).start()
    assert query.awaitTermination(60)
    assert sum(sizes) == 25
    assert max(sizes) == 10


def test_a_bounded_read_has_the_same_rows_at_every_action(spark: SparkSession, log: Any, unique: str) -> None:
    topic, empty = log.topic(unique, 3), log.topic(f"{unique}.empty")
    log.write(topic, *numbers(0, 5))
    log.write(topic, *numbers(5, 8), partition=2)
    log.write(topic, b"aborted", commit=False)
    df = read_batch(spark, bootstrap=log.bootstrap, topics=[topic, empty])
    log.write(topic, b"later")
    assert sorted(row.value for row in df.collect()) == numbers(0, 8)
    assert df.count() == 8
    part = read_batch(spark, bootstrap=log.bootstrap, topics=[topic], start={topic: {0: 2}}, end={topic: {0: 4, 2: 0}})
    assert sorted(row.value for row in part.collect()) == numbers(2, 4)
    assert read_batch(spark, bootstrap=log.bootstrap, topics=[empty]).collect() == []
    with pytest.raises(Terminal, match="topic does not exist"):
        read_batch(spark, bootstrap=log.bootstrap, topics=[f"{unique}.none"])


def test_each_read_has_its_own_options_of_clients_in_planner_and_workers(
    spark: SparkSession, log: Any, unique: str, run_stream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads of one session, each made before one is acted on; the driver alone could go by what it has."""
    topic, refused = log.topic(unique), {"security.protocol": "nonsense"}
    log.write(topic, b"value")
    # Begins when the former transaction has ended in the partition, too.
    log.write(topic, b"aborted", commit=False)
    read = {"spark": spark, "bootstrap": log.bootstrap, "topics": [topic]}
    with pytest.raises(Terminal, match="Kafka refuses this"):
        read_batch(**read, options=refused)
    monkeypatch.setattr(
        "include.log.running.batches_spark.KafkaSurvey", lambda bootstrap, _options: KafkaSurvey(bootstrap)
    )
    batches = Batches()

    def on_batch(df: DataFrame, plan: BatchPlan) -> None:
        raise AssertionError("planned without its options")

    right, wrong = read_batch(**read), read_batch(**read, options=refused)
    stream, unplanned = read_stream(**read), read_stream(**read, options=refused)
    with pytest.raises(PySparkException, match="Kafka refuses this"):
        wrong.collect()
    assert [row.value for row in right.collect()] == [b"value"]
    with pytest.raises(Terminal, match="Kafka refuses this"):
        run_stream(unplanned, on_batch, lambda: False)
    run_stream(stream, batches, batches.have(1))
    assert batches.values() == [b"value"]


def test_workers_are_kept_while_nothing_comes(
    spark: SparkSession, log: Any, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark ends its workers after a minute without a task, which is not waited for here."""
    monkeypatch.setattr("include.log.running.batches_spark._WARM_S", 0.2)
    topic, folder = log.topic(unique, 1), tmp_path / "run"
    folder.mkdir()
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))

    def look() -> None:
        end_s = time.monotonic() + 30
        while len(set(tracker.getJobIdsForGroup(None)) - before) < 3 and time.monotonic() < end_s:
            time.sleep(0.1)
        (folder / "stop").touch()

    looking = threading.Thread(target=look)
    looking.start()
    run(
        read_stream(spark, bootstrap=log.bootstrap, topics=[topic]),
        lambda *_: None,
        application="tests",
        run_folder=RunFolder(folder, SystemClock()),
        metrics=Metrics("tests"),
        keep_session=True,
    )
    looking.join()
    assert len(set(tracker.getJobIdsForGroup(None)) - before) >= 3
