"""The core of capture: source transactions in, groups of records for one Kafka transaction out. No I/O but encoders'.

Versions are a dense sequence over all rows, control and resolved records of the source, so after a crash the same
transactions from the last committed record give the same versions. A group is what one Kafka transaction carries;
its resolved record takes the last number. `source.row` counts the captured tables' rows in a source transaction. A
table whose rows cannot be read is set aside, or stops the source.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from include.clock import Clock
from include.errors import Terminal
from include.log.control import ControlKind, ControlRecord
from include.log.requests.records import Answer
from include.log.topics import LARGEST_RECORD, control, source_answers
from include.record.gtid import GtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.record.schema import TableSchema
from include.record.version import pack
from include.source.binlog.events import QueryEvent, TableMap
from include.source.binlog.step import PlainRun
from include.source.binlog.transaction import RowsEvent, SourceTransaction
from include.source.catalog.catalog import TableCatalog
from include.source.definition import SourceDefinition
from include.source.ports import Group, OutgoingRecord
from include.source.rows.encode import Stamp, TableEncoder, TableEncoders
from include.source.rows.group_rows import outputs_of, run_outputs
from include.source.rows.records import Encoded, EncodedRecords, RowRecords
from include.source.rows.shape import EncodedImage
from include.source.snapshot.watermark_window import WatermarkWindow
from include.source.state.capture_state import CaptureState, TableSetAside
from include.source.statements import Statements

__all__ = ["Replicator"]

log = logging.getLogger(__name__)


class Replicator:
    """Gathers a group; `state` and `position` are those after everything taken in, committed or not.

    `window` is told of what changes while a snapshot is under way. (It is set from outside, for the snapshot's length.)
    After an abort this object is of no use: begin a new one from the last committed record.

    Args:
        name: the source's.
        source: as it is declared.
        catalog: tells what tables are.
        encoders: make records of rows.
        clock: says when records were made.
        position: that the stream goes on from.
        state: of capture at that position.
        drain: takes the records of a group that is not complete yet, whenever they come to `group_bytes`. They belong
            to the group all the same: so one huge transaction passes without lying in memory. None: they are kept.
        server_now_us: the server's own clock, µs UTC.
    """

    def __init__(
        self,
        name: str,
        source: SourceDefinition,
        catalog: TableCatalog,
        encoders: TableEncoders,
        clock: Clock,
        position: SourcePosition,
        state: CaptureState,
        drain: Callable[[Sequence[OutgoingRecord]], None] | None = None,
        server_now_us: Callable[[], int] = lambda: 0,
    ) -> None:
        self.name = name
        self.position = position
        self.state = state
        self._source = source
        self._catalog = catalog
        self._encoders = encoders
        self._clock = clock
        self._tables: dict[TableMap, RowRecords] = {}
        self._outputs: list[OutgoingRecord] = []
        self._number = state.version
        self._ops, self._skipped = Counter[str](), Counter[str]()
        self._transactions = self._past = self.texts_passed = 0
        self._drain = drain
        self._server_now_us = server_now_us
        self._snapshot_stamp: tuple[SourcePosition, Stamp] | None = None
        self.window: WatermarkWindow | None = None
        self._statements = Statements(self, source, catalog)
        self.size_bytes = 0

    @property
    def pending(self) -> bool:
        """Whether something waits for `flush` (answers and a mere position too)."""
        return bool(self._outputs or self._transactions)

    def on_transaction(self, transaction: SourceTransaction) -> None:
        """Take a transaction into the open group."""
        gtids, after = self.position.gtids, self.position.gtids
        if transaction.gtid:
            after = gtids.add(transaction.gtid)
        if after is gtids and (transaction.gtid or transaction.end <= self.position.binlog):
            raise Terminal(
                "the server sent a transaction that capture has already",
                gtid=transaction.gtid,
                end=str(transaction.end),
                position=str(gtids) or str(self.position.binlog),
                fix="Was another server put in its place? Read it anew: `lyrebird capture run … --snapshot --anew`.",
            )
        if self.window is not None:
            self.window.on_transaction(transaction.gtid, transaction.end)
        # Without GTIDs a transaction is known by where it ends.
        name = transaction.gtid or str(transaction.end)
        row, counts = 0, dict[str, int]()
        stamp = Stamp(
            server_id=transaction.server_id,
            file=transaction.end.file,
            pos=transaction.end.pos,
            commit_us=transaction.commit_us,
            made_us=self._clock.now_us(),
            gtid=name,
            thread=transaction.thread,
        )
        for step in transaction.steps:
            if isinstance(step, QueryEvent):
                self._forget(self._statements.on_statement(step, name, transaction.commit_us))
            else:
                row = self._on_rows(step, transaction, stamp, row, counts)
        for orphan in transaction.orphans:
            self._on_orphan(orphan, transaction)
        self.position = SourcePosition(
            self.position.flavour, after, transaction.end, max(self.position.commit_us, transaction.commit_us)
        )
        self._transactions += 1

    def on_run(self, run: PlainRun) -> None:
        """Take transactions into the open group as `on_transaction` takes each, at once where they need no look."""
        after, encoded_run = self._following(run), self._run_of(run)
        if after is None or encoded_run is None:
            for transaction in run.transactions():
                self.on_transaction(transaction)
            return
        outputs, size, rows = encoded_run
        self._put(outputs, size)
        self._ops.update({op: many for op, many in zip("cud", rows, strict=True) if many})
        self.position = SourcePosition(
            self.position.flavour, after, run.end, max(self.position.commit_us, run.commit_us)
        )
        self._transactions += run.count

    def _following(self, run: PlainRun) -> GtidSet | None:
        """The GTID set after a run; None where capture may have any of it already."""
        gtids = self.position.gtids
        if run.prefix:
            return gtids.follow(run.prefix[:-1], run.first, run.first + run.count - 1)
        return gtids if run.start >= self.position.binlog else None

    def _run_of(self, run: PlainRun) -> tuple[list[OutgoingRecord], int, tuple[int, int, int]] | None:
        """A run's outputs, bytes of their values, rows by op; None where each transaction needs a look of its own."""
        targets, most = [], LARGEST_RECORD
        for table in run.tables:
            name = f"{table.database}.{table.table}"
            records = self._tables.get(table)
            known = name in self.state.tables and name not in self.state.aside
            if self.window is not None or not known or records is None or records.target is None:
                return None
            targets.append(records.target)
            most = min(most, records.encoder.most)
        version = pack(self._source.epoch, self._number)
        made = run_outputs(
            run.prefix,
            run.first,
            run.end.file,
            run.parts,
            tuple(targets),
            self._clock.now_us(),
            version,
            OutgoingRecord,
        )
        if made is None:
            return None
        outputs, size, largest, rows = made
        return (outputs, size, rows) if largest <= most else None

    def on_idle(self, at: BinlogPosition, until_us: int) -> None:
        """The server has nothing after `at`; all that was committed before `until_us` is here."""
        if at < self.position.binlog:
            return
        self.position = replace(self.position, binlog=at, commit_us=max(self.position.commit_us, until_us))

    def on_snapshot_rows(self, schema: TableSchema, images: list[EncodedImage]) -> None:
        """Rows that a snapshot read, as they are at the present position."""
        encoder = self._encoder(schema)
        outputs, size = self._made(encoder, encoder.snapshot(images, self._stamp_here()))
        self._ops["r"] += len(images)
        self._put(outputs, size)

    def on_absent_rows(self, schema: TableSchema, images: list[EncodedImage]) -> None:
        """Keys that have no row at the present position: each is deleted, whether or not the log has it."""
        encoder, stamp = self._encoder(schema), self._stamp_here()
        records: list[Encoded] = [
            ("d", encoder.key(each), encoder.partition(each), encoder.value("d", each, None, stamp)) for each in images
        ]
        self._ops["d"] += len(images)
        self._put(*self._made(encoder, records))

    def _stamp_here(self) -> Stamp:
        position = self.position
        if self._snapshot_stamp is None or self._snapshot_stamp[0] is not position:
            stamp = Stamp(
                server_id=0,
                file=position.binlog.file,
                pos=position.binlog.pos,
                commit_us=position.commit_us,
                made_us=self._clock.now_us(),
                snapshot="true",
            )
            self._snapshot_stamp = position, stamp
        return self._snapshot_stamp[1]

    def on_answer(self, answer: Answer) -> None:
        """Say how far a request is, in the group's own transaction."""
        topic = source_answers(self.name)
        self._outputs.append(OutgoingRecord(topic, answer.key(), answer.value(), self._next()))

    def on_control(self, kind: ControlKind, table: str, gtid: str = "", floor: int | None = None) -> None:
        """Write a control record; `floor` defaults to its own version."""
        version = self._next()
        database, _, name = table.partition(".")
        record = ControlRecord(kind, database, name, version if floor is None else floor, gtid)
        self._outputs.append(OutgoingRecord(control(self.name), record.key(), record.value(), version))

    @property
    def floor(self) -> int:
        """The next version: all rows so far are below it."""
        return pack(self._source.epoch, self._number + 1)

    def renew(self, schema: TableSchema) -> None:
        """The table's topic was made anew: from now on its keys are those of `schema`."""
        self._tables.clear()
        self.state = self.state.with_table(schema.full_name, 0)
        self._encoder(schema)

    def set_aside(self, table: str, error: Terminal, transaction: SourceTransaction | None = None) -> None:
        """A table that cannot be read is left out from here on, or stops the source, as declared.

        `transaction` is the one whose rows could not be read, None where a snapshot could not.
        """
        gtid = transaction.gtid if transaction else ""
        position = str(transaction.end if transaction else self.position.binlog)
        if self._source.unreadable == "source":
            place = {"table": table, "gtid": gtid, "position": position}
            raise Terminal(error.message, fix=error.fix, **{**error.details, **place}) from error
        log.error("table %s is set aside at %s: %s", table, position, error)
        self.state = self.state.with_aside(table, TableSetAside(gtid, position, str(error), self._clock.now_us()))

    def flush(self) -> Group:
        """Close the group; what comes next belongs to another."""
        version = self._next()
        self.state = replace(self.state, version=self._number)
        group = Group(
            tuple(self._outputs),
            self.position,
            self.state,
            version,
            self.state.uncovered,
            self._ops.total(),
            self._transactions,
            self._ops,
            self._skipped,
            self._past,
            self.texts_passed,
        )
        self._outputs, self._transactions, self.size_bytes = [], 0, 0
        self._ops, self._skipped, self._past, self.texts_passed = Counter(), Counter(), 0, 0
        return group

    def _on_rows(
        self, step: RowsEvent, transaction: SourceTransaction, stamp: Stamp, row: int, counts: dict[str, int]
    ) -> int:
        table = f"{step.table.database}.{step.table.table}"
        if table in self.state.aside:
            self._skipped[step.op] += 1
            return row
        try:
            records = self._tables.get(step.table) or self._known(step.table)
            of_table = counts.get(table, 0)
            encoded, many = records.of(step, stamp, row, of_table + 1)
            outputs, size = self._made(records.encoder, encoded)
        except Terminal as error:
            self.set_aside(table, error, transaction)
            self._skipped[step.op] += 1
            return row
        encoder = records.encoder
        if table not in self.state.tables:
            # Nobody saw it come into being: what it held before is not in the log.
            self.state = self.state.with_table(table, encoder.key_id).with_gap(
                f"gap:{transaction.gtid or transaction.end}:{table}", [table]
            )
        self._put(outputs, size)
        window = self.window
        if window is not None and table in window.tables:
            for _, key, _, _ in encoded:
                window.on_key(table, key)
        counts[table] = of_table + many
        self._ops[step.op] += many
        self._past += records.past
        return row + many

    def _made(self, encoder: TableEncoder, records: EncodedRecords) -> tuple[list[OutgoingRecord], int]:
        """Outputs under the next numbers, and bytes of all values; `Terminal` for a record too large."""
        outputs, _, size = outputs_of(records, encoder.topic, pack(self._source.epoch, self._number), OutgoingRecord)
        if 2 * size > encoder.most:
            self._encoders.require_room(encoder, max(len(record[-3]) + len(record[-1]) for record in records))
        return outputs, size

    def _put(self, outputs: list[OutgoingRecord], size: int) -> None:
        """Into the open group; the way of every row."""
        if outputs:
            self._number += outputs[-1].version - pack(self._source.epoch, self._number)
            # Raises when the numbers are at their end.
            pack(self._source.epoch, self._number)
            self._outputs += outputs
            self._count(size)

    def _count(self, size: int) -> None:
        """So many bytes more wait; hand all over when that is a commit's share."""
        self.size_bytes += size
        if self._drain is not None and self.size_bytes >= self._source.group_bytes:
            self._drain(self._outputs)
            self._outputs, self.size_bytes = [], 0

    def _known(self, table: TableMap) -> RowRecords:
        layout = self._catalog.layout(table)
        if not table.names:
            self.state = self.state.with_nameless(".".join(table.name), self._server_now_us())
        found = self._tables[table] = RowRecords(layout, self._encoder(layout.shape.schema), self._source.queries)
        return found

    def _on_orphan(self, name: tuple[str, str], transaction: SourceTransaction) -> None:
        """A map without rows: of a trigger that did nothing, unless a key cascades into the table."""
        table = ".".join(name)
        known = table not in self.state.tables or table in self.state.uncovered
        if known or not self._catalog.cascades_into(name):
            return
        cause = "a foreign key changed rows by cascade, which the server does not log"
        log.error("table %s may have missed changes at %s: %s", table, transaction.end, cause)
        noted = TableSetAside(transaction.gtid, str(transaction.end), cause, self._clock.now_us())
        self.state = self.state.with_orphan(table, noted)

    def note_orphan(self, table: str, gtid: str, cause: str) -> None:
        """The table may lack rows from that transaction on, until somebody asks for them again."""
        noted = TableSetAside(gtid, str(self.position.binlog), cause, self._clock.now_us())
        self.state = self.state.with_orphan(table, noted)

    def _forget(self, names: Collection[tuple[str, str]] | None) -> None:
        if names is None:
            self._tables.clear()
        elif names:
            self._tables = {each: known for each, known in self._tables.items() if each.name not in names}

    def _encoder(self, schema: TableSchema) -> TableEncoder:
        table = schema.full_name
        encoder = self._encoders.of(schema, self.state.tables.get(table, 0))
        if table in self.state.tables:
            self.state = self.state.with_table(table, encoder.key_id)
        return encoder

    def _next(self) -> int:
        self._number += 1
        return pack(self._source.epoch, self._number)
