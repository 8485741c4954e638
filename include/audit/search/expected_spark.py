"""The expected side of a search audit folded by Spark: for topics whose keys one process should not hold.

Tasks make states of records, Spark keeps the newest of each key on disk. Sums are added up there: only 2^k rows for
each view reach the driver, then the few documents that differ. For counts by range, keys are ranked there as well
(`ranks`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Unpack

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, functions
from typing_extensions import override

from include.audit.definition import SearchAuditSpec
from include.audit.nothing import NothingJudged
from include.audit.search.audit import SearchAuditSettings, judged_or_nothing
from include.audit.search.bounds import NO_LOWS, AuditBounds, Window
from include.audit.search.cut import AuditCut
from include.audit.search.expected import ExpectedSide, RecordState, reading_of
from include.audit.search.iblt import Histogram
from include.audit.search.platform import server_sides
from include.audit.search.report import SearchReport
from include.audit.search.views.key_list import SortedKeys
from include.audit.search.views.key_ranks_spark import SparkKeys
from include.errors import InvalidRecord
from include.index.digest import BUCKET_BITS, VIEWS, bucket, limbs, of_limbs
from include.index.feed import Feed
from include.index.states import States
from include.log.planning.slices import cached_consumer, slices_in
from include.log.ports import Record
from include.log.registry.confluent import ConfluentRegistry
from include.log.running.batches_spark import read_batch, session
from include.settings.connections import Kafka, Registry
from include.settings.deployment import Deployment

__all__ = [
    "NEWEST_SCHEMA",
    "SparkExpected",
    "StatesPlan",
    "audit_by_spark",
    "audits_in",
    "expected_by_spark",
    "states",
]

_BUCKETS: Final = tuple(f"s{view}" for view in range(len(VIEWS)))
_STATE: Final = "doc_id string, version long, partition int, offset long, kind string, d0 long, d1 long, " + ", ".join(
    f"{name} int" for name in _BUCKETS
)
_NEWEST: Final = ("version", "offset", "partition", "kind", "d0", "d1", *_BUCKETS)
_ROWS: Final = 5_000
_RECORDS_A_TASK: Final = 200_000
_TASKS: Final = 2
NEWEST_SCHEMA: Final = (
    "doc_id string, records long, version long, offset long, partition int, kind string, d0 long, d1 long, "
    + ", ".join(f"{name} int" for name in _BUCKETS)
)
"""A key's newest record and how many it has; a null key for those that cannot be read."""


def audit_by_spark(
    deployment: Deployment,
    specs: Sequence[SearchAuditSpec],
    *,
    repair: bool = False,
    then: Callable[[SparkSession, list[SearchReport | NothingJudged]], None] = lambda _spark, _reports: None,
    **how: Unpack[SearchAuditSettings],
) -> list[SearchReport | NothingJudged]:
    """The search audits of `specs`, one after the other, in one session; raises what `audit_search` raises.

    `then` is called with that session and the reports.
    """
    spark = session("audit_search")
    try:
        reports = audits_in(spark, deployment, specs, repair=repair, **how)
        then(spark, reports)
        return reports
    finally:
        spark.stop()


def audits_in(
    spark: SparkSession,
    deployment: Deployment,
    specs: Sequence[SearchAuditSpec],
    *,
    repair: bool = False,
    **how: Unpack[SearchAuditSettings],
) -> list[SearchReport | NothingJudged]:
    """`audit_by_spark` in a session that stays; what it keeps on disk is freed after each audit."""
    kept: list[SparkExpected] = []

    def folding(spec: SearchAuditSpec, feed: Feed, at: AuditCut) -> SparkExpected:
        earlier = kept[-1] if kept else None
        kept.append(expected_by_spark(spark, deployment, spec, feed, at, earlier))
        return kept[-1]

    reports: list[SearchReport | NothingJudged] = []
    with server_sides(deployment, folding) as sides:
        for spec in specs:
            try:
                reports.append(judged_or_nothing(spec, sides, repair=repair, **how))
            finally:
                while kept:
                    kept.pop().forget()
    return reports


@dataclass(frozen=True)
class StatesPlan:
    """What a worker needs to make states of records; plain values, as it travels."""

    feed: Feed
    bootstrap: str
    options: Mapping[str, Any] = field(repr=False)
    registry: Registry


def states(plan: StatesPlan, batches: Iterable[Any]) -> Iterator[Any]:
    """One task: what each record in its slices makes of its document; all null for an unreadable one."""
    import pyarrow

    pa: Any = pyarrow
    reading = reading_of(States(plan.feed, ConfluentRegistry(plan.registry)))
    kinds = {"doc_id": pa.string(), "version": pa.int64(), "partition": pa.int32(), "offset": pa.int64()}
    kinds |= {"kind": pa.string(), "d0": pa.int64(), "d1": pa.int64(), **dict.fromkeys(_BUCKETS, pa.int32())}
    schema = pa.schema(list(kinds.items()))
    rows: list[tuple[Any, ...]] = []
    for record in _records(plan, batches):
        try:
            state = reading(record)
        except InvalidRecord:
            rows.append((None,) * len(kinds))
        else:
            if state is None:
                continue
            known = state.doc_id, state.version, state.partition, state.offset, state.kind
            rows.append((*known, *limbs(state.state), *(bucket(state.state, view) for view in range(len(VIEWS)))))
        if len(rows) == _ROWS:
            yield pa.RecordBatch.from_arrays(list(map(list, zip(*rows, strict=True))), schema=schema)
            rows = []
    if rows:
        yield pa.RecordBatch.from_arrays(list(map(list, zip(*rows, strict=True))), schema=schema)


def _records(plan: StatesPlan, batches: Iterable[Any]) -> Iterator[Record]:
    slices = slices_in(batches)
    if slices:
        with cached_consumer(plan.bootstrap, plan.options) as consumer:
            for messages in consumer.read(slices):
                for m in messages:
                    headers = tuple(m.headers() or ())
                    yield Record(m.topic(), m.partition(), m.offset(), m.key(), m.value(), headers, m.timestamp()[1])


def expected_by_spark(
    spark: SparkSession,
    deployment: Deployment,
    spec: SearchAuditSpec,
    feed: Feed,
    at: AuditCut,
    earlier: SparkExpected | None = None,
) -> SparkExpected:
    """The expected side of `spec` below the cut; read on from an `earlier` one of the same feed, which is kept.

    Args:
        spark: made by `log.running.batches_spark.session`.
        deployment: the deployment files.
        spec: the audit.
        feed: how records of its topic become documents.
        at: the audit's cut.
        earlier: what was folded before; not used where it is of another feed or from beyond the cut.

    Raises:
        Terminal: the topic does not exist, or the log has let go what comes after `earlier`.
        Transient: the log does not answer.
    """
    kafka, registry = deployment.one("kafka", Kafka), deployment.one("registry", Registry)
    end, options = {spec.topic: dict(at.window)}, dict(kafka.options)
    # Another floor or number of partitions judges earlier records anew.
    known = earlier if earlier is not None and earlier.feed == feed and earlier.is_below(at.window) else None
    start = {spec.topic: dict(known.window)} if known else None
    # Tasks are as many as the records ask for: one that sorts millions of keys takes all memory that Spark shares out,
    # and a small heap has too little beside that.
    first = known.window if known else at.bounds.starts
    records = sum(last - first.get(partition, 0) for partition, last in at.window.items())
    tasks = max(_TASKS, records // _RECORDS_A_TASK)
    spark.conf.set("spark.sql.shuffle.partitions", tasks)
    rows = read_batch(
        spark,
        bootstrap=kafka.bootstrap,
        topics=[spec.topic],
        start=start,
        end=end,
        tasks=tasks,
        slices=True,
        options=options,
    )
    plan = StatesPlan(feed, kafka.bootstrap, options, registry)
    state_rows = rows.mapInArrow(functools.partial(states, plan), _STATE).withColumn(
        "records", functions.lit(1).cast("long")
    )
    if known is not None:
        state_rows = state_rows.unionByName(known.newest)
    newest = state_rows.groupBy("doc_id").agg(
        functions.max(functions.struct(*_NEWEST)).alias("newest"), functions.sum("records").alias("records")
    )
    return SparkExpected(spark, newest.select("doc_id", "records", "newest.*"), feed, at.window)


class SparkExpected(ExpectedSide):
    """`ExpectedSide` in a frame, for topics that no single process should fold."""

    def __init__(self, spark: SparkSession, newest: DataFrame, feed: Feed, window: Window) -> None:
        self.feed, self.window = feed, dict(window)
        self._spark = spark
        self._ranked: list[SparkKeys] = []
        self.newest = newest.persist(StorageLevel.DISK_ONLY)
        self._known = self.newest.where("doc_id is not null")
        self._held = self._known
        self._living = self._known.where("kind = 'living'")
        counts = {
            row["kind"]: (row["keys"], row["records"])
            for row in self.newest.groupBy("kind")
            .agg(functions.count("*").alias("keys"), functions.sum("records").alias("records"))
            .collect()
        }
        self._known_living: int = counts.get("living", (0, 0))[0]
        self._living_count: int = self._known_living
        self.unreadable: int = counts.get(None, (0, 0))[1]

    def is_below(self, window: Window) -> bool:
        """Whether it was folded below offsets that are not beyond these, of the same partitions."""
        return self.window.keys() == window.keys() and all(window[p] >= last for p, last in self.window.items())

    @override
    def narrow(self, bounds: AuditBounds) -> None:
        self._held = _from(self._known, bounds.starts)
        if bounds.part is not None:
            within = functions.col("partition").isin(sorted(bounds.part.partitions))
            self._held = self._held.where(within if bounds.part.inside else ~within)
        self._living = self._held.where("kind = 'living'")
        narrowed = bounds.starts or bounds.part is not None
        self._living_count = self._living.count() if narrowed else self._known_living

    @property
    @override
    def living(self) -> int:
        return self._living_count

    @override
    def deleted(self) -> Iterator[str]:
        rows = self._held.where("kind = 'deleted'").select("doc_id").toLocalIterator()
        return (row["doc_id"] for row in rows)

    @override
    def histograms(self, bits: int) -> tuple[Histogram, ...]:
        out = []
        for view in range(len(VIEWS)):
            place = functions.shiftright(f"s{view}", BUCKET_BITS - bits).alias("place")
            # Sums of 32-bit limbs as 64-bit integers: exact for 2^31 documents.
            sums = (functions.count("*").alias("n"), functions.sum("d0").alias("d0"), functions.sum("d1").alias("d1"))
            rows = self._living.groupBy(place).agg(*sums).collect()
            out.append({row["place"]: (row["n"], of_limbs(row["d0"], row["d1"])) for row in rows})
        return tuple(out)

    @override
    def find(self, states: Collection[int]) -> list[RecordState]:
        wanted = [limbs(state) for state in states]
        return self._joined(self._living, wanted, "d0 long, d1 long", ["d0", "d1"])

    @override
    def of(self, doc_ids: Collection[str]) -> dict[str, RecordState]:
        found = self._joined(self._known, [(doc_id,) for doc_id in doc_ids], "doc_id string", ["doc_id"])
        return {record.doc_id: record for record in found}

    @override
    def in_buckets(self, bits: int, places: Collection[int]) -> list[RecordState]:
        rows = self._living.withColumn("place", functions.shiftright("s0", BUCKET_BITS - bits))
        return self._joined(rows, [(place,) for place in places], "place int", ["place"])

    @override
    def spoilt(self) -> list[RecordState]:
        return [_record(row) for row in self._held.where("kind = 'spoilt'").collect()]

    @override
    def keys(self, lows: Window = NO_LOWS) -> SortedKeys:
        self._ranked.append(SparkKeys(_from(self._held.where("kind != 'deleted'"), lows).select("doc_id")))
        return self._ranked[-1]

    def forget(self) -> None:
        """Free what is kept on disk; nothing can be asked afterwards."""
        while self._ranked:
            self._ranked.pop().forget()
        self.newest.unpersist()

    def _joined(self, rows: DataFrame, wanted: list[Any], schema: str, by: list[str]) -> list[RecordState]:
        if not wanted:
            return []
        small = functions.broadcast(self._spark.createDataFrame(wanted, schema))
        return [_record(row) for row in rows.join(small, by).collect()]


def _from(rows: DataFrame, lows: Window) -> DataFrame:
    for partition, low in lows.items():
        rows = rows.where(f"not (partition = {int(partition)} and offset < {int(low)})")
    return rows


def _record(row: Any) -> RecordState:
    known = row["doc_id"], row["version"], row["partition"], row["offset"], row["kind"]
    return RecordState(*known, of_limbs(row["d0"], row["d1"]))
