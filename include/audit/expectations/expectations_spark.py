"""A topic's documents as a DataFrame cut at an audit's position, and the expectations of an audit run on it.

Tasks read ids and versions, Spark keeps the newest record of each key on disk, tasks decode what is living to typed
columns, kept on disk as well: expectations look at them many times.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from include.audit.expectations.columns import Body, body_of
from include.audit.expectations.definition import KEY, TopicExpectations, expectations_of_audit, expectations_of_table
from include.audit.expectations.feeds import feeds_of
from include.audit.expectations.great import validated
from include.audit.expectations.job import windows_of
from include.audit.expectations.report import ExpectationResult, ExpectationsReport, TopicFigures
from include.audit.expectations.work import NEWEST, UNREADABLE, decoded, identified
from include.audit.nothing import NothingJudged
from include.audit.search.bounds import Window
from include.audit.search.report import SearchReport, together
from include.clock import Clock, iso
from include.errors import InvalidRecord, LyrebirdError, SettingsError, Terminal
from include.index.feed import Feed
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.states import States
from include.lake.tables.columns import OWN
from include.lake.tables.tables_spark import read_table
from include.log.registry.confluent import ConfluentRegistry
from include.log.running.batches_spark import read_batch, session
from include.metrics.exporter import write_atomically
from include.settings.connections import Elasticsearch, Kafka, Registry
from include.settings.deployment import Deployment

__all__ = ["Documents", "documents", "expectations_after", "expectations_by_spark", "look", "look_at_table"]

LOGGER: Final = logging.getLogger("lyrebird.audit")


@dataclass
class Documents:
    """The living documents of a topic; `rows` has `doc_id` and the fields of the body. `forget` frees what it keeps."""

    rows: DataFrame
    figures: TopicFigures
    kept: Sequence[DataFrame]

    def forget(self) -> None:
        """Call it when all is looked at."""
        for each in self.kept:
            each.unpersist()


def expectations_by_spark(
    deployment: Deployment, audit: str, windows: Mapping[str, Window], clock: Clock
) -> ExpectationsReport:
    """All expectations of `audit`'s topics, each below the offsets of its window.

    Raises:
        SettingsError: the audit declares none, or no window of a topic is given, or a computed column is no SQL that
            fits the documents.
        Terminal: a topic's values have no named fields, or its index does not say how it was filled.
        Transient: a server did not answer.
    """
    feeds = _feeds(deployment, audit, windows)
    spark = session("audit_expectations")
    try:
        return look(spark, deployment, audit, windows, feeds, clock)
    finally:
        spark.stop()


def expectations_after(
    deployment: Deployment, report: Path | None, results: Mapping[str, Path], clock: Clock
) -> Callable[[SparkSession, Sequence[SearchReport | NothingJudged]], None]:
    """What to do after search audits in their session: their report to its file, then each audit's expectations.

    A result goes to its file in `results` as soon as it is there. What servers and deployment files make impossible
    is logged and leaves no file: the report holds all the same, and who misses a result asks for it again.
    """

    def then(spark: SparkSession, reports: Sequence[SearchReport | NothingJudged]) -> None:
        merged = together(reports)
        if report is not None:
            write_atomically(report, json.dumps(merged))
        for audit, file in results.items():
            windows = windows_of(merged, audit)
            try:
                result = look(spark, deployment, audit, windows, _feeds(deployment, audit, windows), clock)
            except (LyrebirdError, PySparkException, Py4JError) as error:
                LOGGER.warning("expectations of %s are not known: %s", audit, str(error).partition("\n")[0])
            else:
                write_atomically(file, json.dumps(result.to_json()))

    return then


def _feeds(deployment: Deployment, audit: str, windows: Mapping[str, Window]) -> dict[str, Feed]:
    """As `feeds_of`; where nothing is indexed yet there may be no index to ask."""
    if not any(windows.values()):
        return {}
    with closing(ElasticsearchIndex(deployment.one("elasticsearch", Elasticsearch))) as index:
        return feeds_of(deployment, audit, index)


def look(
    spark: SparkSession,
    deployment: Deployment,
    audit: str,
    windows: Mapping[str, Window],
    feeds: Mapping[str, Feed],
    clock: Clock,
) -> ExpectationsReport:
    """`expectations_by_spark` in a session that stays, of topics whose feeds are known.

    Args:
        spark: made by `log.running.batches_spark.session`.
        deployment: the deployment files.
        audit: name of the search audit.
        windows: topic → the offsets below which it is looked at; of a topic without any nothing is looked at.
        feeds: topic → how its records become documents.
        clock: for the report's time.

    Raises:
        SettingsError: no window of a topic is given, or a computed column is no SQL that fits the documents.
        Terminal: a topic does not exist, or its values have no fields that could be columns.
        Transient: a server did not answer.
    """
    entries = expectations_of_audit(deployment, audit)
    if absent := sorted(entries.keys() - windows.keys()):
        raise SettingsError("the audit's report does not say where to cut", topics=absent, fix="Run the audit again.")
    figures: list[TopicFigures] = []
    results: list[ExpectationResult] = []
    nothing = tuple(topic for topic in entries if not windows[topic])
    for topic, entry in entries.items():
        if topic in nothing:
            continue
        newest = documents(spark, deployment, feeds[topic], windows[topic])
        try:
            judged = _results(deployment, topic, entry, newest)
            results += [each.without(entry.hidden).doubted(newest.figures.unreadable) for each in judged]
        finally:
            newest.forget()
        figures.append(newest.figures)
    return ExpectationsReport(audit, iso(clock.now_us()), tuple(figures), tuple(results), nothing)


def look_at_table(
    spark: SparkSession, deployment: Deployment, topic: str, version: int, generation: int, key: Sequence[str]
) -> list[ExpectationResult]:
    """Check the expectations of a topic on the rows of a version of its lake table; [] where it declares none.

    Args:
        spark: made by `log.running.batches_spark.session`.
        deployment: the deployment files.
        topic: whose table it is.
        version: of the table.
        generation: of the table.
        key: columns that name a row.

    Raises:
        SettingsError: as `declared_expectations`, or a computed column is no SQL that fits the rows.
        Terminal: the table does not keep that version any more.
    """
    entry = expectations_of_table(deployment, topic)
    if entry is None:
        return []
    rows = read_table(spark, deployment, topic, str(version), generation).drop(*OWN)
    named = functions.concat_ws(", ", *(functions.concat(functions.lit(f"{each} "), f"`{each}`") for each in key))
    kept = _computed(deployment, topic, entry, rows.withColumn(KEY, named)).persist(StorageLevel.DISK_ONLY)
    try:
        return [each.without(entry.hidden) for each in validated(kept, entry.declared(topic), KEY)]
    finally:
        kept.unpersist()


def _results(deployment: Deployment, topic: str, entry: TopicExpectations, found: Documents) -> list[ExpectationResult]:
    declared = entry.declared(topic)
    if len(found.rows.columns) > 1:
        return validated(_computed(deployment, topic, entry, found.rows), declared, KEY)
    # A topic that nobody has written to has no schema: only of how many rows it has can anything be said.
    counting = [each for each in declared if each.kind.startswith("ExpectTableRowCount")]
    judged = {each.name: each for each in (validated(found.rows, counting, KEY) if counting else ())}
    return [judged.get(each.name) or ExpectationResult.of_nothing(each) for each in declared]


def documents(spark: SparkSession, deployment: Deployment, feed: Feed, window: Window) -> Documents:
    """The newest document of each key below `window`, in columns by the newest schema that any was written with.

    Raises:
        Terminal: its values have no fields that could be columns.
    """
    kafka, registry = deployment.one("kafka", Kafka), deployment.one("registry", Registry)
    end = {feed.name: dict(window)}
    rows = read_batch(spark, bootstrap=kafka.bootstrap, topics=[feed.name], end=end, options=kafka.options)
    read = rows.mapInArrow(functools.partial(_identified, feed, registry), NEWEST)
    newest = read.groupBy("doc_id").agg(
        functions.max(functions.struct("version", "offset", "value")).alias("newest"),
        functions.count("*").alias("records"),
        functions.max("schema_id").alias("schema_id"),
    )
    newest = newest.select("doc_id", "records", "schema_id", "newest.value").persist(StorageLevel.DISK_ONLY)
    try:
        return _decoded(feed, registry, window, newest)
    except BaseException:
        newest.unpersist()
        raise


def _decoded(feed: Feed, registry: Registry, window: Window, newest: DataFrame) -> Documents:
    body = _body(feed, registry, newest.agg(functions.max("schema_id")).collect()[0][0])
    fields, left_out = _typed(body)
    schema = StructType().add(KEY, "string").add(UNREADABLE, "long")
    for each in fields:
        schema = schema.add(each)
    decode = functools.partial(
        decoded, body, to_arrow_schema(schema, timezone="UTC"), functools.partial(ConfluentRegistry, registry)
    )
    living = newest.where("doc_id is null or value is not null")
    frame = living.mapInArrow(decode, schema).persist(StorageLevel.DISK_ONLY)
    try:
        counted = frame.agg(functions.count("doc_id"), functions.sum(UNREADABLE)).collect()[0]
    except BaseException:
        frame.unpersist()
        raise
    figures = TopicFigures(feed.name, window, counted[0], counted[1] or 0, left_out)
    return Documents(frame.where("doc_id is not null").drop(UNREADABLE), figures, (newest, frame))


def _identified(feed: Feed, registry: Registry, batches: Iterable[Any]) -> Iterator[Any]:
    return identified(States(feed, ConfluentRegistry(registry)), batches)


def _body(feed: Feed, registry: Registry, schema_id: int | None) -> Body:
    """How the documents' fields become columns; none where nothing was ever written."""
    if schema_id is None:
        return Body({"type": "record", "name": "Nothing", "fields": []}, ())
    asked = ConfluentRegistry(registry)
    try:
        return body_of(asked.schema(schema_id), feed.topic.value, asked.language(schema_id))
    except InvalidRecord as error:
        raise Terminal(
            "the topic's documents have no columns",
            topic=feed.name,
            schema_id=schema_id,
            reason=error.message,
            fix="Expectations are for records and objects of named fields: take the topic out of `expectations`; what "
            "the index holds of it is audited all the same.",
        ) from error
    finally:
        asked.close()


def _typed(body: Body) -> tuple[list[StructField], tuple[str, ...]]:
    """Spark's fields, and names of those that it has no type for."""
    import pyarrow

    pa: Any = pyarrow
    fields: list[StructField] = []
    left_out: list[str] = []
    for field in body.fields:
        try:
            fields += from_arrow_schema(pa.schema([field]), prefer_timestamp_ntz=True).fields
        except PySparkException:
            left_out.append(field.name)
    return fields, tuple(left_out)


def _computed(deployment: Deployment, topic: str, entry: TopicExpectations, rows: DataFrame) -> DataFrame:
    for name, sql in entry.columns.items():
        path = ("expectations", topic, "columns", name)
        if name in rows.columns:
            raise deployment.error(path, "the documents have a field of this name", fix="Choose another name.")
        try:
            rows = rows.withColumn(name, functions.expr(sql))
        except PySparkException as error:
            reason = str(error).strip().splitlines()[0]
            raise deployment.error(path, "this is no SQL that fits the documents", got=sql, reason=reason) from error
    return rows
