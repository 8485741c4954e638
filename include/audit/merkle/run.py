"""The audit of a source's tables: one after the other, each at moments of its own, the copy as of these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

from include.audit.begun import await_begun
from include.audit.expectations.expectations_spark import look_at_table
from include.audit.merkle.bases import Base, lake_base, topic_base
from include.audit.merkle.compare import ComparisonResult, Say, compared
from include.audit.merkle.condition_sql import spark_condition
from include.audit.merkle.database import AuditLoad, DatabaseSide
from include.audit.merkle.definition import Against, Of, TableAudit, server_of, tables_meant
from include.audit.merkle.merkle_spark import CopySide
from include.audit.merkle.repair import Repair, RepairedRows
from include.audit.merkle.report import RowFinding, TableAuditReport
from include.audit.merkle.sides import LeadingSide, SnapshotSide
from include.audit.merkle.tree import Tree
from include.clock import Clock, iso
from include.errors import LyrebirdError, NothingToJudge, SettingsError, Terminal, Transient
from include.lake.tables.definition import TableEntry, declared_tables, table_topics
from include.lake.tables.delta_log import DeltaLog, storage_options
from include.lake.tables.generation import Generations, generation_folder
from include.lake.tables.versions import kept_tables
from include.log import topics
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.record.schema import avro_name
from include.settings.connections import Kafka, StoreSettings
from include.settings.deployment import Deployment
from include.source.definition import SourceDefinition, load_source
from include.source.hashes.columns import ComparedRows, Incomparable
from include.source.hashes.sums import bits_for
from include.source.log.checkpoint import newest
from include.source.snapshot.condition import Condition
from include.source.snapshot.plan import captured_tables
from include.source.state.capture_state import CaptureState
from include.store.s3 import store_of

__all__ = ["TablesAudit"]

_AGAIN_S: Final = 2.0


@dataclass(frozen=True)
class TablesAudit:
    """An audit of tables of one source.

    Args:
        spark: made by `log.running.batches_spark.session`.
        deployment: the deployment files.
        audit: what is declared.
        clock: for moments and reports.
        against: what is compared, instead of the declared.
        of: what it is compared with; the topic tells of a lake table alone, and the server is asked for no row.
        where: a condition on the rows that are compared (`snapshot.condition`); "": all.
        say: hears how far it is.
        repair: mends what is found, before it is looked at again; None: nothing is.
    """

    spark: Any
    deployment: Deployment
    audit: TableAudit
    clock: Clock
    against: Against | None = None
    of: Of = "database"
    where: str = ""
    say: Say = lambda _text: None
    repair: Repair | None = None

    def tables(self, named: Sequence[str] = ()) -> list[str]:
        """Tables that are meant, `database.table`: those of the audit, or `named`.

        Raises `SettingsError` for one that is not captured, and as the server's connection does.
        """
        captured = captured_tables(self._server, self.clock)
        if not named:
            return tables_meant(self.audit, captured)
        matching = [each for name in named for each in captured if name in (each, each.partition(".")[2])]
        unknown = [name for name in named if not any(name in (each, each.partition(".")[2]) for each in captured)]
        if unknown:
            raise SettingsError(
                "no table of this name is captured", table=unknown, source=self.audit.source, allowed=captured[:50]
            )
        return sorted(set(matching))

    def gone(self, told: Mapping[str, bool]) -> list[TableAuditReport]:
        """A report on each table that the server does not show any more, though it is meant still.

        One whose drop capture has recorded is told once. Raises as the log does.

        Args:
            told: `database.table` of what it does not show, and whether that was told before.
        """
        source, name = self._source, self.audit.source
        meant = tables_meant(self.audit, told)
        meant = [t for t in meant if t.partition(".")[0] in source.databases and source.captures(*t.split(".", 1))]
        captured = self._captured() if meant else None
        reports = []
        for table in meant:
            dropped = captured is not None and table not in captured
            why = "the table was dropped, as capture has recorded: this is told once"
            if not dropped:
                why = "the server does not show the table any more, and capture has recorded no drop of it"
            if not (dropped and told[table]):
                at = iso(self.clock.now_us())
                reports.append(TableAuditReport(name, table, "", at, error=why, nothing=True))
        return reports

    def _captured(self) -> Collection[str] | None:
        """Tables that capture knows, by what it has said last; None: it has said nothing."""
        kafka, topic = self.deployment.one("kafka", Kafka), topics.source_resolved(self.audit.source)
        if KafkaAdmin(kafka.bootstrap, kafka.options).describe(topic) is None:
            return None
        with closing(KafkaReader(kafka.bootstrap, kafka.options)) as reader:
            last = newest(reader, topic)
        return None if last is None else CaptureState.from_json(last.state).tables

    def run(self, table: str, before: Mapping[str, Any] | None = None) -> TableAuditReport:
        """Compare one table; what hinders it is in the report.

        Args:
            table: `database.table`.
            before: the report on it of the run before, as JSON.
        """
        begin_s = self.clock.monotonic_s()
        report = self._compared(table, before, self.repair)
        if (repaired := report.repaired) and (
            repaired["whole"] or (self.audit.read_from and not repaired.get("error"))
        ):
            # Its copies begin anew: so does the comparison, once they have. And what capture has read at its own server
            # says nothing of where a replica is, so that it counts from a new beginning only.
            until_s = self.clock.monotonic_s() + self.audit.patience_s
            report = self._compared(table, before, None)
            while report.transient and self.clock.monotonic_s() < until_s:
                self.clock.sleep(_AGAIN_S)
                report = self._compared(table, before, None)
            report = replace(report, repaired=repaired)
        return replace(report, took_s=round(self.clock.monotonic_s() - begin_s, 2))

    def _compared(self, table: str, before: Mapping[str, Any] | None, repair: Repair | None) -> TableAuditReport:
        database, _, name = table.partition(".")
        against, begun_at = "the topic", iso(self.clock.now_us())
        try:
            topic = topics.change(self.audit.source, database, name)
            base = self._base(topic)
            right = self._topic_base(topic) if self.of == "topic" else None
            if self.audit.read_from is not None and not str(base.position.gtids):
                raise Terminal(
                    "a table cannot be compared with a replica, as the source's transactions carry no GTIDs",
                    source=self.audit.source,
                    fix="Switch GTIDs on (`gtid_mode`), or take `read_from` out of the audit.",
                )
            if base.version is not None:
                against = f"version {base.version} of the lake table and what came since"
                against += ", by the topic" if right else ""
            load = AuditLoad(
                self.clock,
                connections=self.audit.connections,
                rows_per_s=self.audit.rows_per_s,
                busy_threads=self.audit.busy_threads,
            )
            with closing(self._side(database, name, load, base)) as side:
                copy = self._copy(topic, base, side)
                leads: LeadingSide = (
                    side if right is None else SnapshotSide(self._copy(topic, right, side), right.position)
                )
                bits, columns = bits_for(side.part_rows), side.rows.columns
                result = compared(leads, copy, side.parts, bits, columns, self.say)
                left, repaired = result, None
                if repair and (result.found or result.left_out or result.unexplained):
                    repaired = self._mended(table, result, side.rows, repair)
                    if not (repaired.whole or repaired.error):
                        left = compared(leads, copy, result.parts, bits, columns, self.say)
                uncovered = set(base.uncovered) | set(copy.newest.uncovered if copy.newest else ())
                report = TableAuditReport(
                    self.audit.source,
                    table,
                    against,
                    begun_at,
                    str(left.spans[-1].low.gtids) or str(left.spans[-1].low.binlog),
                    result.rows,
                    len(side.parts),
                    len(result.tree.leaves),
                    left.differing,
                    left.left_out,
                    left.unexplained,
                    [RowFinding.of(each, side.rows) for each in left.found],
                    len(left.unsure),
                    dict(side.rows.not_compared),
                    table in uncovered,
                    copy.unreadable,
                    paused_s=round(load.paused_s, 1),
                    repaired=repaired.to_json() if repaired else None,
                    expected=self._expected(topic, base, side.rows),
                    where=self.where,
                    changed=_changed(result, before, self.where),
                    wrong=result.leaves,
                    tree=result.tree.to_json(),
                    topic=topic if right else "",
                )
                return report.judging(sum(base.ends.values()))
        except LyrebirdError as error:
            return TableAuditReport(
                self.audit.source,
                table,
                against,
                begun_at,
                error=str(error),
                transient=isinstance(error, Transient),
                incomparable=isinstance(error, Incomparable),
                nothing=isinstance(error, NothingToJudge),
                where=self.where,
            )

    def _expected(self, topic: str, base: Base, rows: ComparedRows) -> list[dict[str, Any]]:
        if base.version is None or base.generation is None:
            return []
        key = [avro_name(each.column.name) for each in rows.key]
        found = look_at_table(self.spark, self.deployment, topic, base.version, base.generation, key)
        return [each.to_json() for each in found]

    def _mended(self, table: str, found: ComparisonResult, rows: ComparedRows, repair: Repair) -> RepairedRows:
        findings = [RowFinding.of(row, rows) for row in found.found]
        counts = Counter(finding.kind for finding in findings)
        if found.left_out:
            counts["leaves more"] = found.left_out
        # A row whose partition is another: its old record stays where it is, for which only a new beginning helps.
        placing = set(self._source.policy.partition_columns(*table.partition(".")[::2]))
        moved = any(placing & set(finding.columns) for finding in findings)
        whole = bool(found.left_out or found.unexplained or moved)
        self.say(f"{table}: capture reads again what is wrong")
        try:
            return repair.mend(table, findings, whole=whole, counts=dict(counts))
        except LyrebirdError as error:
            # What was found is worth more than that nobody has mended it.
            return RepairedRows(found=dict(counts), error=str(error))

    @property
    def _source(self) -> SourceDefinition:
        return load_source(self.deployment, self.audit.source)

    @property
    def _server(self) -> SourceDefinition:
        return server_of(self._source, self.audit)

    def _side(self, database: str, table: str, load: AuditLoad, base: Base) -> DatabaseSide:
        return DatabaseSide(
            self._server,
            database,
            table,
            load,
            self.clock,
            beyond=base.position,
            where=self.where,
            range_rows=self.audit.range_rows,
            whole_rows=self.audit.whole_rows,
        )

    def _copy(self, topic: str, base: Base, side: DatabaseSide) -> CopySide:
        return CopySide(
            self.spark,
            self.deployment,
            topic,
            base,
            side.rows,
            side.parts,
            where=spark_condition(Condition.parse(self.where), side.rows),
            clock=self.clock,
            patience_s=self.audit.patience_s,
        )

    def _topic_base(self, topic: str) -> Base:
        kafka = self.deployment.one("kafka", Kafka)
        with closing(KafkaReader(kafka.bootstrap, kafka.options)) as reader:
            return topic_base(reader, topic)

    def _base(self, topic: str) -> Base:
        against = self.against or self.audit.against
        declared = () if against == "topic" else self._declared(topic)
        # What no entry keeps is told before the log is asked: no capture mends that.
        if not declared:
            self._require_topic_suffices(against, topic)
        kafka = self.deployment.one("kafka", Kafka)
        admin = KafkaAdmin(kafka.bootstrap, kafka.options)
        with closing(KafkaReader(kafka.bootstrap, kafka.options)) as reader:
            await_begun(
                topic,
                reader,
                admin,
                self.clock,
                start="Is capture running? `lyrebird capture status`",
                mend=f"Start capture: it makes the topic anew. `lyrebird capture status --source {self.audit.source}` "
                "tells whether it reads all rows of the table into it.",
            )
        table = self._table(topic, declared)
        if table is not None:
            log, generations = table
            return lake_base(
                log, generations.read, topic, self.audit.source, serves=generations.read == generations.serving
            )
        self._require_topic_suffices(against, topic)
        return self._topic_base(topic)

    def _require_topic_suffices(self, against: Against | None, topic: str) -> None:
        """Raises where a table without a lake table cannot be compared as it was asked for."""
        if against == "lake":
            raise SettingsError(
                "no lake table of this topic is kept",
                topic=topic,
                fix="Declare one in `tables`, or use --against topic.",
            )
        if self.of == "topic":
            raise Incomparable(
                "the table has no lake table that could be compared with its topic",
                topic=topic,
                fix="Declare one in `tables`, or leave --of out.",
            )

    def _declared(self, topic: str) -> list[TableEntry]:
        """The entries of `tables` that keep a topic."""
        if not self.deployment.has("tables"):
            return []
        return [entry for entry in declared_tables(self.deployment).values() if table_topics(entry, [topic])]

    def _table(self, topic: str, declared: Sequence[TableEntry]) -> tuple[DeltaLog, Generations] | None:
        """The lake table of a topic: the log of the generation that is read, and the numbers of all."""
        if not declared:
            return None
        connection = self.deployment.one("store", StoreSettings)
        with closing(store_of(connection)) as store:
            for entry in declared:
                for generations in kept_tables(store, entry, [topic]).values():
                    folder = generation_folder(entry.prefix, topic, generations.read)
                    options = storage_options(connection)
                    return DeltaLog(f"s3://{connection.bucket}/{folder}", options, self.clock), generations
        return None


def _changed(found: ComparisonResult, before: Mapping[str, Any] | None, where: str) -> list[int] | None:
    """Leaves that are not what they were; None where nothing tells."""
    if not before or not before.get("tree") or before.get("where", "") != where:
        return None
    tree = Tree.from_json(before["tree"])
    return tree.differing(found.tree) if tree.bits == found.tree.bits else None
