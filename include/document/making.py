"""Documents of many keys, encoded: read a thousand keys at a time, each thousand in a snapshot of its own.

In this process, or by tasks on others (`made_by_task`), which read with connections of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from include.clock import SystemClock
from include.document.assembler import AssembledChunk, Assembler
from include.document.database import DatabaseAddress
from include.document.definition import DocumentDefinition
from include.document.reading.lookup import MissingRow
from include.document.reading.mysql import MysqlTables
from include.document.reading.read_throttle import Metered, ReadLoad
from include.document.reading.tables import SourceTables
from include.errors import InvalidRecord
from include.record.codec import Encoder
from include.record.position import SourcePosition

__all__ = [
    "CHUNK",
    "ChunkResult",
    "DocumentKey",
    "MakePlan",
    "MakeRest",
    "chunks_of",
    "encoded",
    "evenly",
    "made_by_task",
    "made_with",
]

DocumentKey = tuple[Any, ...]
CHUNK: Final = 1_000
"""Keys that are read in one snapshot."""


@dataclass
class ChunkResult:
    """What became of a chunk of keys.

    Args:
        documents: key → encoded body; None is a tombstone.
        unfit: bodies that the encoder at hand does not take: a column may have changed.
        skipped: how many keys have transient rows alone.
        lacking: keys with rows that are missing.
        failed: keys whose rows a hook cannot deal with, and why.
        load: rows and statements that a task has read for it, and seconds that its snapshot was open.
    """

    documents: dict[DocumentKey, bytes | None] = field(default_factory=dict)
    unfit: dict[DocumentKey, dict[str, Any]] = field(default_factory=dict)
    skipped: int = 0
    lacking: dict[DocumentKey, list[MissingRow]] = field(default_factory=dict)
    failed: dict[DocumentKey, str] = field(default_factory=dict)
    load: tuple[int, int, float] = (0, 0, 0.0)


@dataclass(frozen=True)
class MakePlan:
    """What a task needs: the definition and the schema of bodies with its id."""

    definition: DocumentDefinition
    schema_id: int
    schema: Mapping[str, Any]


MakeRest = Callable[[MakePlan, "SourcePosition | None", Sequence[DocumentKey]], Iterator[list[ChunkResult]]]
"""Has documents of keys made elsewhere, some at a time, in any order: between two lists one may wait."""


def chunks_of(keys: Sequence[DocumentKey]) -> list[Sequence[DocumentKey]]:
    """Equal parts, of no more than one snapshot reads each."""
    return evenly(keys, -(-len(keys) // CHUNK))


def evenly(keys: Sequence[DocumentKey], parts: int) -> list[Sequence[DocumentKey]]:
    """So many parts, in order, of the same size but for one key."""
    return [keys[len(keys) * n // parts : len(keys) * (n + 1) // parts] for n in range(parts)]


def encoded(found: AssembledChunk, encode: Callable[[dict[str, Any]], bytes]) -> ChunkResult:
    """What was assembled, as bytes."""
    out = ChunkResult(skipped=len(found.skipped), lacking=found.incomplete, failed=found.failed)
    for key, body in found.documents.items():
        if body is None:
            out.documents[key] = None
            continue
        try:
            out.documents[key] = encode(body)
        except InvalidRecord:
            out.unfit[key] = body
    return out


def made_with(
    tables: SourceTables, plan: MakePlan, position: SourcePosition | None, keys: Sequence[DocumentKey]
) -> list[ChunkResult]:
    """The documents of some keys, each chunk of a moment that has all transactions up to `position`.

    Rows are counted; who gives the keys out paces them. Raises as `tables` does.
    """
    out = []
    assembler, encode = Assembler(plan.definition), Encoder(plan.schema_id, plan.schema)
    for chunk in chunks_of(keys):
        load = ReadLoad(0, SystemClock())
        with Metered(tables, load).snapshot(position) as snapshot:
            found = assembler.assemble(snapshot, chunk)
        made = encoded(found, encode)
        made.load = load.rows, load.statements, load.snapshot_s
        out.append(made)
    return out


def made_by_task(
    server: DatabaseAddress, plan: MakePlan, position: SourcePosition | None, keys: Sequence[DocumentKey]
) -> list[ChunkResult]:
    """As `made_with`, in a worker, by a connection that is closed at the end."""
    tables = MysqlTables(server, plan.definition.database)
    try:
        return made_with(tables, plan, position, keys)
    finally:
        tables.close()
