"""The core of capture: source transactions in, groups of records for one Kafka transaction out. No I/O but encoders'.

Versions are a dense sequence over all rows, control and resolved records of the source, so after a crash the same
transactions from the last committed record give the same versions. A group is what one Kafka transaction carries;
its resolved record takes the last number. `source.row` counts the captured tables' rows in a source transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from include.clock import Clock
from include.errors import Terminal
from include.log.control import Control, ControlKind
from include.log.requests import Answer
from include.log.topics import control, source_answers
from include.record.change import Change, Op, SourceBlock, TransactionBlock
from include.record.position import BinlogPosition, SourcePosition
from include.record.schema import TableSchema
from include.record.version import pack
from include.source.ddl import Effect, effects
from include.source.decode import Image, RowDecoder
from include.source.definition import SourceDefinition
from include.source.encode import Encoders, TableEncoder
from include.source.events import Query, TableMap
from include.source.group import Group, Output
from include.source.state import CaptureState
from include.source.tables import Catalog
from include.source.transaction import Rows, SourceTransaction

__all__ = ["Replicator"]

_PRODUCT_VERSION: Final = "lyrebird-0.1"


class Replicator:
    """Gathers a group; `state` and `position` are those after everything taken in, committed or not.

    After an abort this object is of no use: begin a new one from the last committed record.
    """

    def __init__(
        self,
        name: str,
        source: SourceDefinition,
        catalog: Catalog,
        encoders: Encoders,
        clock: Clock,
        position: SourcePosition,
        state: CaptureState,
    ) -> None:
        self.name = name
        self.position = position
        self.state = state
        self._source = source
        self._catalog = catalog
        self._encoders = encoders
        self._clock = clock
        self._tables: dict[TableMap, tuple[RowDecoder, TableEncoder]] = {}
        self._outputs: list[Output] = []
        self._number = state.version
        self._rows = self._transactions = 0
        self.size_bytes = 0

    @property
    def pending(self) -> bool:
        """Whether something waits for `flush` (answers and a mere position too)."""
        return bool(self._outputs or self._transactions)

    def on_transaction(self, transaction: SourceTransaction) -> None:
        """Take a transaction into the open group."""
        gtids = self.position.gtids
        after = gtids.add(transaction.gtid)
        if after is gtids:
            raise Terminal(
                "the server sent a transaction that capture has already",
                gtid=transaction.gtid,
                position=str(gtids),
                fix="Was another server put in its place? Read it anew: `lyrebird capture run … --snapshot --anew`.",
            )
        row, counts = 0, dict[str, int]()
        for step in transaction.steps:
            if isinstance(step, Query):
                self._on_statement(step, transaction.gtid)
            else:
                row = self._on_rows(step, transaction, row, counts)
        self.position = SourcePosition(
            "mariadb", after, transaction.end, max(self.position.commit_us, transaction.commit_us)
        )
        self._transactions += 1
        self.size_bytes += transaction.size_bytes

    def on_idle(self, at: BinlogPosition, until_us: int) -> None:
        """The server has nothing after `at`; all that was committed before `until_us` is here."""
        if at < self.position.binlog:
            return
        self.position = replace(self.position, binlog=at, commit_us=max(self.position.commit_us, until_us))

    def on_snapshot_row(self, schema: TableSchema, image: Image, last: bool = False) -> None:
        """A row that a snapshot at the present position read."""
        encoder = self._encoder(schema)
        block = self._block(
            schema, 0, 0, self.position.binlog, self.position.commit_us, None, "last" if last else "true"
        )
        self._rows += 1
        self.size_bytes += self._put(encoder, "r", None, image, block, None)

    def on_answer(self, answer: Answer) -> None:
        """Say how far a request is, in the group's own transaction."""
        topic = source_answers(self.name)
        self._outputs.append(Output(topic, answer.key(), answer.value(), self._next()))

    def on_control(self, kind: ControlKind, table: str, gtid: str = "", floor: int | None = None) -> None:
        """Write a control record; `floor` defaults to its own version."""
        version = self._next()
        database, _, name = table.partition(".")
        record = Control(kind, database, name, version if floor is None else floor, gtid)
        self._outputs.append(Output(control(self.name), record.key(), record.value(), version))

    @property
    def floor(self) -> int:
        """The next version: all rows so far are below it."""
        return pack(self._source.epoch, self._number + 1)

    def take_up(self, schema: TableSchema) -> None:
        """Know the table from now on: make its topic, register its schemas."""
        self.state = self.state.with_table(schema.full_name, 0)
        self._encoder(schema)

    def flush(self, uncovered: Iterable[str] = ()) -> Group:
        """Close the group; what comes next belongs to another. `uncovered` is added to what the state says."""
        version = self._next()
        self.state = replace(self.state, version=self._number)
        group = Group(
            tuple(self._outputs),
            self.position,
            self.state,
            version,
            tuple(sorted({*uncovered, *self.state.uncovered})),
            self._rows,
            self._transactions,
        )
        self._outputs, self._rows, self._transactions, self.size_bytes = [], 0, 0, 0
        return group

    def _on_rows(self, step: Rows, transaction: SourceTransaction, row: int, counts: dict[str, int]) -> int:
        known = self._tables.get(step.table)
        if known is None:
            schema = self._catalog.schema(step.table)
            known = RowDecoder(step.table, schema.columns), self._encoder(schema)
            self._tables[step.table] = known
        decoder, encoder = known
        table = encoder.schema.full_name
        if table not in self.state.tables:
            # Nobody saw it come into being: what it held before is not in the log.
            self.state = self.state.with_table(table, encoder.key_id).with_gap(
                f"gap:{transaction.gtid}:{table}", [table]
            )
        for before, after in decoder.rows(step.op, step.body):
            block = self._block(
                encoder.schema,
                row,
                transaction.server_id,
                transaction.end,
                transaction.commit_us,
                transaction.gtid,
                None,
            )
            counts[table] = counts.get(table, 0) + 1
            place = TransactionBlock(transaction.gtid, row + 1, counts[table])
            self._change(encoder, before, after, block, place)
            row += 1
            self._rows += 1
        return row

    def _change(
        self,
        encoder: TableEncoder,
        before: Image | None,
        after: Image | None,
        block: SourceBlock,
        place: TransactionBlock,
    ) -> None:
        if before is not None and after is not None:
            if encoder.place(before) == encoder.place(after):
                self._put(encoder, "u", before, after, block, place)
            else:
                self._put(encoder, "d", before, None, block, place)
                self._put(encoder, "c", None, after, block, place)
        else:
            self._put(encoder, "c" if before is None else "d", before, after, block, place)

    def _put(
        self,
        encoder: TableEncoder,
        op: Op,
        before: Image | None,
        after: Image | None,
        block: SourceBlock,
        place: TransactionBlock | None,
    ) -> int:
        change = Change(op, before, after, block, self._clock.now_us(), place)
        image = after if after is not None else before or {}
        key, partition = encoder.address(image)
        value = encoder.value(change)
        version = self._next()
        self._outputs.append(Output(encoder.topic, key, value, version, partition))
        if op == "d":
            self._outputs.append(Output(encoder.topic, key, None, version, partition))
        return len(value)

    def _on_statement(self, query: Query, gtid: str) -> None:
        found = effects(query.text, query.database)
        mine = [effect for effect in found if self._concerns(effect)]
        if not found or mine:
            self._catalog.forget()
            self._tables.clear()
        taken_over = {effect.to for effect in mine if effect.kind == "rename"}
        for effect in mine:
            self._on_effect(effect, gtid, taken_over)

    def _concerns(self, effect: Effect) -> bool:
        if effect.kind == "drop_database":
            return effect.database in self._source.databases
        captured = self._source.captures(effect.database, effect.table)
        return captured or (effect.to is not None and self._source.captures(*effect.to))

    def _on_effect(self, effect: Effect, gtid: str, taken_over: set[tuple[str, str] | None]) -> None:
        table = f"{effect.database}.{effect.table}"
        if effect.kind == "drop_database":
            for name in [t for t in self.state.tables if t.startswith(f"{effect.database}.")]:
                self._drop(name, gtid)
        elif effect.kind == "drop":
            self._drop(table, gtid)
        elif effect.kind == "truncate":
            self.on_control("truncate", table, gtid)
        elif effect.kind == "create":
            if table not in self.state.tables:
                self.state = self.state.with_table(table, 0)
        elif effect.kind == "alter":
            self.on_control("schema", table, gtid, floor=0)
        elif effect.kind == "reread":
            self.state = self.state.with_gap(f"gap:{gtid}:{table}", [table])
        elif effect.to is not None:
            if (
                self._source.captures(effect.database, effect.table)
                and (effect.database, effect.table) not in taken_over
            ):
                self._drop(table, gtid)
            if self._source.captures(*effect.to):
                new = ".".join(effect.to)
                self.state = self.state.with_table(new, self.state.tables.get(new, 0))
                self.state = self.state.with_gap(f"gap:{gtid}:{new}", [new])

    def _drop(self, table: str, gtid: str) -> None:
        if table in self.state.tables:
            self.on_control("drop", table, gtid)
            self.state = self.state.without_table(table)

    def _encoder(self, schema: TableSchema) -> TableEncoder:
        table = schema.full_name
        encoder = self._encoders.of(schema, self.state.tables.get(table, 0))
        if table in self.state.tables:
            self.state = self.state.with_table(table, encoder.key_id)
        return encoder

    def _block(
        self,
        schema: TableSchema,
        row: int,
        server_id: int,
        at: BinlogPosition,
        commit_us: int,
        gtid: str | None,
        snapshot: str | None,
    ) -> SourceBlock:
        return SourceBlock(
            version=_PRODUCT_VERSION,
            name=self.name,
            db=schema.database,
            table=schema.table,
            server_id=server_id,
            file=at.file,
            pos=at.pos,
            row=row,
            ts_us=commit_us,
            gtid=gtid,
            snapshot=snapshot,
        )

    def _next(self) -> int:
        self._number += 1
        return pack(self._source.epoch, self._number)
