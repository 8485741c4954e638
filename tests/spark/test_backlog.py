"""A backlog of hours in the log: worked off in batches of bounded size by many tasks, with word of it in between."""

from __future__ import annotations

import functools
import tracemalloc
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from include.document import assembler_spark as assembling
from include.document.signals import Inputs, Signals
from include.document.task import fold
from include.log.kafka.log import KafkaAdmin, KafkaWriter
from include.log.planning.plan import BatchPlan
from include.log.planning.slices import slices_of
from include.log.registry.confluent import ConfluentRegistry
from include.log.running import batches_spark
from include.settings.connections import Registry
from tests.spark.conftest import Runner
from tests.support.documents.order_harness import DEFINITION, SCHEMAS
from tests.support.source.captured_changes import CapturedChanges

ORDERS = 1_000
ROWS, COMMIT = 150_000, 500
LIMIT = 10_000
MOST_MB = 64


@pytest.fixture
def inputs(unique: str) -> Inputs:
    return Inputs(f"{unique}_order", DEFINITION.model_copy(update={"source": unique}))


@pytest.fixture
def capture(kafka: str, registry_url: str, unique: str) -> Iterator[CapturedChanges]:
    """What capture wrote while nobody read: some changes of each of a thousand orders, all in one partition."""
    admin, writer = KafkaAdmin(kafka), KafkaWriter(kafka, f"capture-{unique}")
    made = CapturedChanges(writer, admin, ConfluentRegistry(registry_url), SCHEMAS, source=unique, partitions=1)
    row = {"id": 1, "state": "completed", "partner_id": 1, "policy_id": None}
    for start in range(0, ROWS, COMMIT):
        rows = ({**row, "order_id": number % ORDERS} for number in range(start, start + COMMIT))
        made.commit(*(("u", "orders", each, each) for each in rows))
    yield made
    writer.close()
    for name in admin.names():
        if unique in name:
            admin.delete(name)


@pytest.mark.timeout(600)
def test_a_backlog_is_read_in_steps_by_several_tasks_and_in_little_memory(
    capture: CapturedChanges,
    inputs: Inputs,
    kafka: str,
    registry_url: str,
    spark: SparkSession,
    run_stream: Runner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(assembling, "_OFFSETS_A_SHARE", 2_000)
    monkeypatch.setattr(assembling, "_SHARES_A_CORE", 1)
    task = functools.partial(fold, inputs, kafka, {}, Registry(url=registry_url))
    found: list[Signals] = []
    sizes: list[int] = []
    told: list[int] = []

    def on_batch(_: DataFrame, plan: BatchPlan) -> None:
        slices = slices_of(plan.start, plan.ends, plan.topic_ids)
        assert plan.cut is not None
        sizes.append(sum(each.size for each in slices))
        found.append(assembling.gathered(spark, task, slices, lambda: told.append(len(sizes))))

    rows = batches_spark.read_stream(
        spark, bootstrap=kafka, topics=[inputs.fact, inputs.control], cut_at=(inputs.cut_at,), cut_limit=LIMIT
    )
    tracemalloc.start()
    run_stream(rows, on_batch, lambda: sum(each.counts["read"] for each in found) == ROWS)
    peak_mb = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    assert max(sizes[1:]) <= LIMIT
    assert len(sizes) >= ROWS // LIMIT
    assert len(told) > 2 * len(sizes), "several jobs a batch"
    assert set(found[0].keys) == {(number,) for number in range(ORDERS)}
    assert max(found[-1].keys.values()) == capture.version - 1
    assert peak_mb < MOST_MB
