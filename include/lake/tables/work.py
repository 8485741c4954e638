"""Definitions of a batch's work on tables: plain values between the driver and tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from include.lake.tables.delta_log import DataFile
from include.lake.tables.rows import RefusedRow
from include.log.planning.slices import Slice

__all__ = ["CarryOutTables", "TableBucketResult", "TableWork", "arrow_bytes", "arrow_schema"]


@dataclass(frozen=True)
class TableWork:
    """The work of a batch on one table.

    Args:
        topic: its name.
        change: its values are change envelopes.
        buckets: parts of the table.
        folder: key of its generation's folder.
        token: names the batch's files, none of which exists yet.
        schema: Arrow's, of the table without the bucket column, as `arrow_bytes` gives it.
        files: of each bucket.
        floor: no row with a version below it lives.
        slices: what is read.
        whole: all buckets are written anew, whatever changed.
    """

    topic: str
    change: bool
    buckets: int
    folder: str
    token: str
    schema: bytes
    files: Mapping[int, Sequence[DataFile]]
    floor: int
    slices: Sequence[Slice]
    whole: bool = False


@dataclass(frozen=True)
class TableBucketResult:
    """The result of a batch for one bucket of a table.

    Args:
        bucket: its number.
        added: its new file, which is in the store; None: it has no rows.
        removed: its files of before, which are the table's no longer.
        schema: the table's columns with those that rows of this batch brought.
        wider: columns that became wider by them: nothing was written, as all buckets have to be.
        refused: records that cannot be rows.
        counts: as of `TaskRows` and `RewrittenBucket`.
    """

    bucket: int
    added: DataFile | None
    removed: Sequence[DataFile]
    schema: bytes
    wider: tuple[str, ...] = ()
    refused: Sequence[RefusedRow] = ()
    counts: Counter[str] = field(default_factory=Counter)


CarryOutTables = Callable[[Sequence[TableWork]], Mapping[str, Sequence[TableBucketResult]]]
"""Does the work of several tables, on Spark's workers or in this process: topic → what became of touched buckets."""


def arrow_bytes(schema: Any) -> bytes:
    """An Arrow schema as bytes."""
    return bytes(schema.serialize())


def arrow_schema(data: bytes) -> Any:
    """Inverse of `arrow_bytes`."""
    import pyarrow.lib as pa

    return pa.read_schema(pa.BufferReader(data))
