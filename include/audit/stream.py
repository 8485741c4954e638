"""The expected side of a search audit folded by Spark: for topics whose keys one process should not hold as records.

Tasks read keys and versions alone, Spark folds to the newest of each key, and only living ids reach the driver.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession, functions

from include.audit.definition import SearchAuditSpec
from include.audit.expected import Expected, state_of
from include.audit.platform import audit_on_servers
from include.audit.range_count import Window
from include.audit.report import SearchReport
from include.index.arrow import record_of
from include.log.registry import ConfluentRegistry
from include.log.stream import read_batch, session
from include.record.codec import Decoder
from include.settings.connections import Kafka, Registry
from include.settings.deployment import Deployment

__all__ = ["audit_by_spark", "expected_by_spark", "states"]

_STATE = "doc_id string, version long, deleted boolean"


def audit_by_spark(deployment: Deployment, specs: Sequence[SearchAuditSpec]) -> list[SearchReport]:
    """The search audits of `specs`, one after the other, in one session; raises what `audit_search` raises."""
    kafka, registry = deployment.one("kafka", Kafka), deployment.one("registry", Registry)
    spark = session("audit_search")

    def expected(topic: str, window: Window) -> Expected:
        return expected_by_spark(spark, kafka.bootstrap, registry.url, topic, window, kafka.options)

    try:
        return [audit_on_servers(deployment, spec, functools.partial(expected, spec.index.topic)) for spec in specs]
    finally:
        spark.stop()


def states(registry_url: str, batches: Iterable[Any]) -> Iterator[Any]:
    """One task: id, version and whether a tombstone of each record; all null for an unreadable one."""
    import pyarrow

    pa: Any = pyarrow
    decode = Decoder(ConfluentRegistry(registry_url).schema)
    schema = pa.schema([("doc_id", pa.string()), ("version", pa.int64()), ("deleted", pa.bool_())])
    for batch in batches:
        found = [state_of(record_of(row), decode) or (None, None, None) for row in batch.to_pylist()]
        rows = [{"doc_id": i, "version": version, "deleted": deleted} for i, version, deleted in found]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def expected_by_spark(
    spark: SparkSession, bootstrap: str, registry_url: str, topic: str, window: Window, options: Mapping[str, Any]
) -> Expected:
    """The ids that should be living below the cut; memory of the driver holds them all."""
    rows = read_batch(spark, bootstrap=bootstrap, topics=[topic], end={topic: dict(window)}, options=options)
    states_of = rows.mapInArrow(functools.partial(states, registry_url), _STATE)
    newest = states_of.groupBy("doc_id").agg(
        functions.max(functions.struct("version", "deleted")).alias("newest"), functions.count("*").alias("records")
    )
    out = Expected()
    for row in newest.filter(functions.col("doc_id").isNull() | ~functions.col("newest.deleted")).collect():
        if row["doc_id"] is None:
            out.unreadable = row["records"]
        else:
            out.keys.append(row["doc_id"])
    out.keys.sort()
    return out
