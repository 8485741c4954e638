"""Rows of a batch to records, and what became of them back to rows: the form in which Spark carries both.

Spark's tasks lose the type of an exception on the way to the driver, so an error travels as a row of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import include.errors
from include.errors import LyrebirdError, Terminal
from include.index.outcome import SetAside, TaskOutcome
from include.log.ports import Record

__all__ = ["OUTCOME_SCHEMA", "outcome_arrow", "outcome_of", "outcome_rows", "record_of"]

OUTCOME_SCHEMA: Final = (
    "kind string, topic string, partition int, offset long, timestamp_ms long, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>, text string"
)
"""One row `counts` for each task, then rows `refused`, `unread` and `other`, and `fault` when it has to stop."""

_PLAIN: Final = ("requests", "retries", "waiting", "reason")


def outcome_arrow() -> Any:
    """`OUTCOME_SCHEMA` as a pyarrow schema."""
    import pyarrow

    pa: Any = pyarrow
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    kinds = {
        "kind": pa.string(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp_ms": pa.int64(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(header),
        "text": pa.string(),
    }
    return pa.schema([pa.field(name, kind) for name, kind in kinds.items()])


def record_of(row: Mapping[str, Any]) -> Record:
    """The record in a row of the log's source or of an outcome."""
    return Record(
        row["topic"],
        row["partition"],
        row["offset"],
        _bytes(row["key"]),
        _bytes(row["value"]),
        tuple((header["key"], _bytes(header["value"])) for header in row["headers"] or ()),
        row["timestamp_ms"],
    )


def outcome_rows(outcome: TaskOutcome) -> Iterator[dict[str, Any]]:
    """The rows of one task's outcome."""
    said = {name: getattr(outcome, name) for name in _PLAIN}
    said["counts"] = [[*at, counts] for at, counts in outcome.counts.items()]
    said["epochs"] = [[*at, epoch] for at, epoch in outcome.epochs.items()]
    yield {"kind": "counts", "text": json.dumps(said)}
    for one in outcome.dead:
        yield {"kind": "refused" if one.refused else "unread", "text": one.reason, **_row(one.record)}
    for record in outcome.others:
        yield {"kind": "other", **_row(record)}
    if outcome.fault is not None:
        error = outcome.fault
        named = [type(error).__name__, error.message, error.fix, dict(error.details)]
        yield {"kind": "fault", "text": json.dumps(named, default=str)}


def outcome_of(rows: Iterable[Mapping[str, Any]]) -> TaskOutcome:
    """All tasks' outcomes together; inverse of `outcome_rows`."""
    out = TaskOutcome()
    for row in rows:
        kind = row["kind"]
        if kind == "counts":
            said = json.loads(row["text"])
            said["counts"] = {(topic, p): counts for topic, p, counts in said["counts"]}
            said["epochs"] = {(topic, p): epoch for topic, p, epoch in said["epochs"]}
            out.add(TaskOutcome(**said))
        elif kind in ("refused", "unread"):
            out.dead.append(SetAside(record_of(row), row["text"], refused=kind == "refused"))
        elif kind == "other":
            out.others.append(record_of(row))
        else:
            out.fault = out.fault or _error(*json.loads(row["text"]))
    return out


def _row(record: Record) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": record.key,
        "value": record.value,
        "headers": [{"key": name, "value": value} for name, value in record.headers],
    }


def _bytes(value: bytes | bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def _error(name: str, message: str, fix: str, details: Mapping[str, Any]) -> LyrebirdError:
    kind = getattr(include.errors, name, Terminal)
    error: LyrebirdError = kind(message, fix=fix, **details)
    return error
