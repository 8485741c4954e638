"""A change of one row, in Debezium's shape: `before`, `after`, `source`, `op`, times, `transaction`.

Values of a row image are Avro's Python values by the table of `record.schema`: int, float, str, bytes, `Decimal`,
and integers for temporals (days, microseconds). A delete in the log is this envelope followed by a tombstone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

__all__ = ["Change", "Op", "RowImage", "SourceBlock", "TransactionBlock"]

Op = Literal["c", "u", "d", "r"]
"""c insert, u update, d delete, r read by a snapshot."""

RowImage = Mapping[str, Any]
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_ZERO: Final = _EPOCH.date()


@dataclass(frozen=True, slots=True)
class SourceBlock:
    """Where a change comes from. `row` counts rows within the source transaction from 0, before any filter."""

    version: str
    name: str
    db: str
    table: str
    server_id: int
    file: str
    pos: int
    row: int
    ts_us: int
    gtid: str | None = None
    snapshot: str | None = None
    thread: int | None = None
    query: str | None = None
    connector: str = "mysql"


@dataclass(frozen=True, slots=True)
class TransactionBlock:
    """The source transaction: its id, the change's place in it (from 1) and among its table's changes."""

    id: str
    total_order: int
    data_collection_order: int


@dataclass(frozen=True, slots=True)
class Change:
    """One row's change; `before` is None for c and r, `after` for d. `ts_us`: when capture made it."""

    op: Op
    before: RowImage | None
    after: RowImage | None
    source: SourceBlock
    ts_us: int
    transaction: TransactionBlock | None = None

    @property
    def row(self) -> RowImage:
        """The image that names the row: `after`, of a delete `before`."""
        image = self.after if self.after is not None else self.before
        if image is None:
            raise ValueError("a change has at least one image")
        return image

    def envelope(self) -> dict[str, Any]:
        """The value as `TableSchema.envelope_avro` describes it."""
        source = asdict(self.source)
        ts_us = source["ts_us"]
        source |= {"ts_ms": ts_us // 1000, "ts_ns": ts_us * 1000}
        return {
            "before": self.before,
            "after": self.after,
            "source": source,
            "op": self.op,
            "ts_ms": self.ts_us // 1000,
            "ts_us": self.ts_us,
            "ts_ns": self.ts_us * 1000,
            "transaction": asdict(self.transaction) if self.transaction else None,
        }

    @classmethod
    def from_envelope(cls, value: Mapping[str, Any]) -> Change:
        """Inverse of `envelope`, also for envelopes that Debezium wrote (fields that we lack are left out)."""
        source = value["source"]
        names = SourceBlock.__dataclass_fields__
        block = {name: source[name] for name in names if name in source}
        if block.get("ts_us") is None:
            block["ts_us"] = source["ts_ms"] * 1000
        ts_us = value.get("ts_us")
        transaction = value.get("transaction")
        return cls(
            op=value["op"],
            before=_counted(value["before"]),
            after=_counted(value["after"]),
            source=SourceBlock(**block),
            ts_us=ts_us if ts_us is not None else (value.get("ts_ms") or 0) * 1000,
            transaction=TransactionBlock(**transaction) if transaction else None,
        )


def _counted(row: RowImage | None) -> RowImage | None:
    """The row with temporals as days and microseconds again, which Avro readers make dates and times of."""
    return None if row is None else {name: _count(value) for name, value in row.items()}


def _count(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=value.tzinfo or dt.UTC) - _EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - _DAY_ZERO).days
    return value
