"""Tables in Spark: workers write buckets' files, the driver commits versions. One stream an entry of section `tables`.

Batches end at resolved records of their topics where these have any. Where reading starts follows from the tables' own
last versions; checkpoints are disposable. Topics that come to match an entry's patterns, and generations that somebody
asked for, are taken up within seconds: the stream then ends and begins again.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from include.clock import SystemClock
from include.incidents.stream import StreamIncidents
from include.lake.tables.columns import BUCKET
from include.lake.tables.definition import TableEntry, declared_tables, table_topics, tables_of_application
from include.lake.tables.delta_log import DeltaLog, storage_options
from include.lake.tables.incidents import LAG, REFUSED
from include.lake.tables.runner import TablesRunner
from include.lake.tables.spark_task import TablesPlan, apply, gather, read_files
from include.lake.tables.task import first_buckets
from include.lake.tables.versions import chosen, kept_table
from include.lake.tables.work import TableBucketResult, TableWork, arrow_bytes
from include.log import topics
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.planning.plan import BatchPlan
from include.log.planning.slices import cut_evenly, tasks_for
from include.log.ports import TopicSpec
from include.log.publishing.last_mark import newest_of
from include.log.publishing.letters import DeadLetterWriter
from include.log.registry.confluent import ConfluentRegistry
from include.log.running import batches_spark
from include.log.running.hosting import Host, host
from include.settings.connections import Kafka, Registry, StoreSettings
from include.settings.deployment import Deployment
from include.settings.secret import REVEALED
from include.store.s3 import store_of

__all__ = ["read_table", "run"]

_LOOK_S: Final = 10.0


def run(application: str, deployment: Deployment, *, keep_session: bool = False) -> None:
    """Keep the tables of `application` until it is asked to stop; returns after a clean end.

    Raises `SettingsError` for what the deployment files get wrong, `Fenced` when another process wrote one of the
    tables, and any other `LyrebirdError` that ended one of the streams: the others are stopped then.
    """
    entries = tables_of_application(deployment, application)
    works = {name: functools.partial(_run, deployment, name, entry) for name, entry in entries.items()}
    host(application, works, keep_session=keep_session)


def _run(deployment: Deployment, name: str, entry: TableEntry, hosted: Host) -> None:
    _Hosted(deployment, name, entry, hosted).run()


def read_table(
    spark: SparkSession,
    deployment: Deployment,
    topic: str,
    at: str = "",
    generation: int | None = None,
    each: Callable[[Iterable[Any]], Iterator[Any]] | None = None,
    shape: StructType | None = None,
) -> DataFrame:
    """A version of a topic's table as a DataFrame: tasks read its files with pyarrow, so Spark needs no jar for it.

    Columns are those of `columns`, or of `shape`.

    Args:
        spark: the session.
        deployment: has sections `store` and `tables`.
        topic: its name.
        at: "" for the newest version, else as of `versions.chosen`.
        generation: number of the one to read; None for the one that is read now.
        each: makes other Arrow batches of those that a task reads; None: they stay as they are.
        shape: what `each` gives.

    Raises:
        SettingsError: no entry keeps the topic, or `at` is neither a version, nor a time, nor a GTID set.
        Terminal: no version that is kept is that old, or there is none yet.
        Transient: the store does not answer.
    """
    import pyarrow.lib as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    connection, clock = deployment.one("store", StoreSettings), SystemClock()
    with closing(store_of(connection)) as store:
        entry, generations = kept_table(store, declared_tables(deployment).values(), topic)
        if generation is not None:
            generations = replace(generations, serving=generation)
        options = storage_options(connection)
        version = chosen(
            lambda folder: DeltaLog(f"s3://{connection.bucket}/{folder}", options, clock),
            entry,
            topic,
            generations,
            at,
            clock,
        )
    schema = pa.schema([*version.schema, pa.field(BUCKET, pa.int32())])
    rows = [(f"{version.folder}/{each.path}", each.bucket) for each in version.files]
    files = spark.createDataFrame(rows, "key string, bucket int").repartition(max(1, len(rows)))
    read = functools.partial(
        read_files, connection.model_dump_json(exclude_unset=True, context=REVEALED), arrow_bytes(version.schema)
    )
    if each is not None and shape is not None:
        return files.mapInArrow(functools.partial(_read_then, read, each), shape)
    return files.mapInArrow(read, from_arrow_schema(schema, prefer_timestamp_ntz=True))


def _read_then(
    read: Callable[[Iterable[Any]], Iterator[Any]],
    each: Callable[[Iterator[Any]], Iterator[Any]],
    batches: Iterable[Any],
) -> Iterator[Any]:
    return each(read(batches))


class _Again(threading.Event):
    """Ends a stream: for good when `asked` is set, which a signal's `set` does too; else to begin again."""

    def __init__(self, asked: threading.Event) -> None:
        super().__init__()
        self._asked = asked

    def set(self) -> None:
        self._asked.set()

    def is_set(self) -> bool:
        return super().is_set() or self._asked.is_set()

    def renew(self) -> None:
        """End the stream, to begin again."""
        super().set()


@dataclass
class _Hosted:
    """One entry of an application."""

    deployment: Deployment
    name: str
    entry: TableEntry
    host: Host
    _anew: bool = False

    def run(self) -> None:
        """Until a stop is asked for."""
        kafka = self.deployment.one("kafka", Kafka)
        options, clock = dict(kafka.options), SystemClock()
        connection = self.deployment.one("store", StoreSettings)
        admin = KafkaAdmin(kafka.bootstrap, options)
        dead = f"{self.host.application}.{self.name}.dead"
        with (
            closing(KafkaReader(kafka.bootstrap, options)) as reader,
            closing(store_of(connection)) as store,
            closing(KafkaWriter(kafka.bootstrap, dead, options)) as writer,
        ):

            def runner() -> TablesRunner:
                return TablesRunner(
                    self.name,
                    self.entry,
                    store=store,
                    log_of=lambda folder: DeltaLog(
                        f"s3://{connection.bucket}/{folder}", storage_options(connection), clock
                    ),
                    registry=ConfluentRegistry(self.deployment.one("registry", Registry)),
                    reader=reader,
                    letters=DeadLetterWriter(writer, reader),
                    deletions_kept_ms=admin.deletions_kept_ms,
                    clock=clock,
                    carry_out=self._carry_out,
                )

            while True:
                opened = self.host.once_there(lambda: self._open(runner(), admin, reader), _NotThereError)
                if opened is None:
                    return
                tables, cut_at, ids = opened
                self._stream(tables, cut_at, ids, admin, kafka)
                if not self._anew:
                    return

    def _open(
        self, runner: TablesRunner, admin: KafkaAdmin, reader: KafkaReader
    ) -> tuple[TablesRunner, tuple[str, ...], dict[str, str]]:
        """The runner with its tables; resolved topics to cut at; ids of the topics. Raises `_NotThere`."""
        names = admin.names()
        wanted = table_topics(self.entry, names)
        cut_at, sources = dict[str, None](), dict[str, None]()
        for resolved in {topics.resolved_of(topic) for topic in wanted} & set(names):
            said = newest_of(reader, resolved)[0].sources()
            if not said:
                raise _NotThereError(f"nothing is resolved yet in {resolved}")
            cut_at[resolved] = None
            sources |= dict.fromkeys(said)
        infos = [info for topic in wanted if (info := admin.describe(topic)) is not None]
        opened = runner.open(infos, tuple(sources), tuple(cut_at))
        if not opened:
            raise _NotThereError(f"no topic with a schema is there yet that matches {', '.join(self.entry.topics)}")
        for topic in opened:
            name = topics.dead(topic, self.host.application)
            admin.ensure(TopicSpec(name, 1, topics.policy(name)))
        return runner, tuple(cut_at), {info.name: info.topic_id for info in infos if info.name in opened}

    def _stream(
        self,
        runner: TablesRunner,
        cut_at: tuple[str, ...],
        ids: Mapping[str, str],
        admin: KafkaAdmin,
        kafka: Kafka,
    ) -> None:
        clock, again = SystemClock(), _Again(self.host.asked)
        incidents = StreamIncidents(self.name, f"the tables of {self.name}", self.host.run_folder, clock)
        looked_s = clock.monotonic_s()
        self._anew = False
        rows = batches_spark.read_stream(
            self.host.spark,
            bootstrap=kafka.bootstrap,
            topics=[*runner.controls(), *sorted(ids)],
            start=runner.start(),
            cut_at=cut_at,
            total_limit=self.entry.records_per_batch,
            topic_ids=ids,
            options=dict(kafka.options),
        )

        def on_batch(_: DataFrame, plan: BatchPlan) -> Mapping[str, Any]:
            nonlocal looked_s
            counts = runner.run(plan)
            self._count(counts, runner)
            for topic in ids:
                dead = topics.dead(topic, self.host.application)
                incidents.refused(REFUSED, counts[f"refused {topic}"], topic, dead)
            commits = [cut.position.commit_us for cut in plan.cuts.values()]
            incidents.lag(LAG, min(commits, default=None), self.entry.lag_alarm_s)
            if clock.monotonic_s() - looked_s >= _LOOK_S:
                looked_s = clock.monotonic_s()
                if set(table_topics(self.entry, admin.names())) - ids.keys() or runner.asked_anew():
                    self._anew = True
                    again.renew()
            told = {name: counts[name] for name in ("read", "written", "deleted", "stale")}
            versions = {topic: each.version for topic, each in sorted(runner.states.items())}
            return {**told, "tables": versions, "incidents": incidents.open()}

        self.host.run(rows, on_batch, asked=again, every_s=self.entry.every_s)
        if self.host.asked.is_set() or self.host.run_folder.stop_requested():
            self._anew = False

    def _count(self, counts: Mapping[str, int], runner: TablesRunner) -> None:
        count = self.host.metrics.count
        count("lyrebird_documents_total", counts.get("written", 0), "put")
        count("lyrebird_documents_total", counts.get("deleted", 0), "tombstone")
        count("lyrebird_superseded_total", counts.get("stale", 0) + counts.get("superseded", 0))
        count("lyrebird_filtered_total", counts.get("below_floor", 0), "below the floor")
        count("lyrebird_set_aside_total", counts.get("refused", 0), self.name)
        for topic, state in runner.states.items():
            rows = sum(each.rows for files in state.files.values() for each in files)
            self.host.metrics.set("lyrebird_state_rows", rows, f"{self.name} {topic}")

    def _carry_out(self, works: Sequence[TableWork]) -> Mapping[str, Sequence[TableBucketResult]]:
        """A batch's work on Spark's workers."""
        plan = TablesPlan.of(
            self.deployment.one("kafka", Kafka),
            self.deployment.one("registry", Registry),
            self.deployment.one("store", StoreSettings),
        )
        slices = sorted(each for work in works for each in work.slices)
        cores = self.host.spark.sparkContext.defaultParallelism
        shares = cut_evenly(slices, tasks_for(slices, cores)) if slices else []
        if any(work.whole or work.floor for work in works):
            shares.append([])
        first, buckets = first_buckets(works)
        results: dict[str, list[TableBucketResult]] = {work.topic: [] for work in works}
        by_first = sorted(((bucket, topic) for topic, bucket in first.items()), reverse=True)
        for number, result in batches_spark.exchange(
            self.host.spark,
            functools.partial(gather, plan, works),
            shares,
            functools.partial(apply, plan, works),
            buckets=buckets,
            tasks=min(cores, buckets),
        ):
            results[next(topic for bucket, topic in by_first if bucket <= number)].append(result)
        return results


class _NotThereError(Exception):
    """What is read has not been made yet: wait."""
