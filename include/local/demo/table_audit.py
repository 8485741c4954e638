"""The proof at the demo's end: the shop's tables on the lake against its database, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from include.clock import Clock
from include.local.demo.told import Told

if TYPE_CHECKING:
    from include.audit.merkle.report import TableReport

__all__ = ["audited", "told_of"]


def audited(clock: Clock) -> Told:
    """Compare all tables of the sources that the lake keeps, as they are now; a `Closing`. Raises what servers do."""
    from include.audit.merkle.definition import table_audit
    from include.audit.merkle.run import TablesAudit
    from include.lake.tables.definition import declared_tables, table_topics
    from include.log.kafka import KafkaAdmin
    from include.log.stream import session
    from include.log.topics import TopicName
    from include.settings.connections import Kafka
    from include.settings.deployment import Deployment

    deployment = Deployment.load()
    kafka = deployment.one("kafka", Kafka)
    names = KafkaAdmin(kafka.bootstrap, kafka.options).names()
    kept = [topic for entry in declared_tables(deployment).values() for topic in table_topics(entry, names)]
    sources = {source for topic in kept if (source := TopicName.parse(topic).source)}
    spark = session("audit_tables")
    try:
        found = []
        for source in sorted(sources):
            audit = TablesAudit(spark, deployment, table_audit(deployment, source), clock)
            found += [audit.run(table) for table in audit.tables()]
    finally:
        spark.stop()
    return told_of(found)


def told_of(reports: Sequence[TableReport]) -> Told:
    """The verdict with the GTIDs that it is of, and what was found otherwise."""
    from include.audit.merkle.report import summary

    lines = [f"audit of {summary(reports)}"]
    lines += [f"  {line}" for each in reports if each.verdict != "clean" for line in each.lines()]
    rows = sum(each.rows for each in reports)
    positions = {each.source: each.position for each in reports}
    said = {
        "tables": len(reports),
        "rows": rows,
        "positions": positions,
        "findings": sum(each.findings for each in reports),
        "took_s": round(sum(each.took_s for each in reports), 1),
    }
    return Told(tuple(lines), {"table_audit": said}, bool(reports) and all(each.verdict == "clean" for each in reports))
