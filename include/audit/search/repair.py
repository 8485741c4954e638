"""Mends what an audit found: each document is written anew from its record in the topic.

Versions decide, so live writes may go on: `external_gte` writes the record's version over the same or an older one,
and a newer write wins. What no record speaks of gets a soft-delete tombstone. The order of the steps:

1. documents whose server version lies above their record's (an `_update` by hand raised it), and copies under a wrong
   routing are deleted, and the server's memory of their versions with them, as it would take no write of the right one,
2. documents are written from their records, tombstones over what should not be there,
3. those that are refused though they are not there were deleted by hand a moment ago: they are written once the server
   has forgotten that, too,
4. a refresh shows all that to searches: the next audit judges it.

A crash after any step leaves documents that the next audit finds and mends.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from include.audit.definition import SearchAuditSpec
from include.audit.search.bounds import AuditBounds
from include.audit.search.expected import ExpectedSide, RecordState
from include.audit.search.report import ASIDE, REFUSED
from include.audit.search.views.state_view import IndexState
from include.clock import Clock
from include.errors import InvalidRecord, Transient
from include.index.bulk.request import BulkLine, line_bytes
from include.index.bulk.routing import routing_of
from include.index.bulk.sender import Delivery
from include.index.metadata import Metadata
from include.index.server.port import SearchIndex
from include.index.states import States
from include.log.ports import LogReader

__all__ = ["RepairedDocuments", "Writing", "repair"]

Forget = Callable[[Sequence[IndexState]], AbstractContextManager[None]]
_PATIENCE_S: Final = 60.0
_TRIES: Final = 20
_PAUSE_S: Final = 0.25
_AT_ONCE: Final = 2_000


@dataclass
class RepairedDocuments:
    """How many documents were written from their records, and how many got a tombstone. `left` could not be mended."""

    rewritten: int = 0
    removed: int = 0
    overtaken: int = 0
    left: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "rewritten": self.rewritten,
            "removed": self.removed,
            "overtaken": self.overtaken,
            "left": dict(self.left),
        }


@dataclass(frozen=True)
class Writing:
    """What a repair writes with.

    `forget` deletes documents; within its context the server forgets their versions by and by, a refresh helping.
    """

    index: SearchIndex
    reader: LogReader
    clock: Clock
    states: States
    forget: Forget


def repair(
    name: str,
    spec: SearchAuditSpec,
    keys: Iterable[str],
    expected: ExpectedSide,
    copies: Mapping[str, list[IndexState]],
    bounds: AuditBounds,
    writing: Writing,
) -> RepairedDocuments:
    """Mend the documents `keys` of the concrete index `name`. May be run again.

    Args:
        name: the index.
        spec: the audit.
        keys: ids with a finding.
        expected: the topic's side of that audit.
        copies: what the index holds of each key now, under whatever routing.
        bounds: the audit's: what was written from above them is newer and stays.
        writing: servers.

    Raises:
        Transient: the index did not take all of it; running again goes on.
        Terminal: the index refuses this writer.
    """
    out = RepairedDocuments()
    held_from = writing.reader.begin_offsets(spec.topic)
    ordered = iter(keys)
    # Bodies are whole documents: only those of a share are in memory.
    while share := list(itertools.islice(ordered, _AT_ONCE)):
        _mend(name, spec, share, expected.of(share), copies, bounds.held_from(held_from), writing, out)
    writing.index.refresh(name)
    return out


def _mend(
    name: str,
    spec: SearchAuditSpec,
    keys: Sequence[str],
    want: Mapping[str, RecordState],
    copies: Mapping[str, list[IndexState]],
    bounds: AuditBounds,
    writing: Writing,
    out: RepairedDocuments,
) -> None:
    lines: list[tuple[str, BulkLine]] = []
    forgotten: list[IndexState] = []
    metadata = Metadata(writing.states.feed.origin)
    for doc_id in keys:
        there, record = copies.get(doc_id, []), want.get(doc_id)
        if record is None or record.kind == "deleted":
            living = (copy for copy in there if not copy.deleted and not bounds.above(copy))
            lines += [(doc_id, _tombstone(metadata, writing.states, copy, record)) for copy in living]
            continue
        if any(bounds.above(copy) for copy in there):
            out.overtaken += 1
            continue
        if record.offset < bounds.starts.get(record.partition, 0):
            out.left[doc_id] = "the log has let go its record since it was read"
            continue
        try:
            line, routing = _from_record(metadata, writing, spec, record)
        except InvalidRecord as error:
            out.left[doc_id] = f"{ASIDE}: {error.message}"
            continue
        lines.append((doc_id, line))
        # A copy under another routing may lie in the same shard: then it is the very document.
        forgotten += [copy for copy in there if copy.routing != routing or copy.stored_version > record.version]
    with writing.forget(forgotten) if forgotten else contextlib.nullcontext():
        refused = _send(name, spec, lines, writing, out)
        held = {copy.doc_id for copy in forgotten}
        waiting = _once_forgotten(name, spec, [each for each in refused if each[0] in held], writing, out)
    others = {writing.states.feed.index_id(each[0]): each for each in refused if each[0] not in held}
    present = writing.index.get_many(name, list(others)) if others else {}
    if gone := [each for index_id, each in others.items() if index_id not in present]:
        with writing.forget(()):
            waiting += _once_forgotten(name, spec, gone, writing, out)
    out.overtaken += len(waiting) + len(others) - len(gone)


def _once_forgotten(
    name: str, spec: SearchAuditSpec, waiting: list[tuple[str, BulkLine]], writing: Writing, out: RepairedDocuments
) -> list[tuple[str, BulkLine]]:
    """Send lines again within `forget`; gives those that the server still has a greater version for."""
    for _ in range(_TRIES):
        # The server forgets a delete at a refresh, and by a clock that it looks at a few times a second.
        if not waiting:
            break
        writing.clock.sleep(_PAUSE_S)
        writing.index.refresh(name)
        waiting = _send(name, spec, waiting, writing, out)
    return waiting


def _send(
    name: str, spec: SearchAuditSpec, lines: Sequence[tuple[str, BulkLine]], writing: Writing, out: RepairedDocuments
) -> list[tuple[str, BulkLine]]:
    """Send lines; gives those that a greater version is there for."""
    delivery = Delivery(
        lambda data: writing.index.bulk(name, data),
        writing.clock,
        index=name,
        bulk_bytes=spec.index.bulk_bytes,
        patience_s=_PATIENCE_S,
    )
    sent = delivery.deliver([BulkLine(n, line.data, line.deleted) for n, (_, line) in enumerate(lines)])
    removed = sum(line.deleted for line in sent.done)
    out.removed += removed
    out.rewritten += len(sent.done) - removed
    for line, answer in sent.dead:
        out.left[lines[line.ref][0]] = f"{REFUSED}: {answer.type} {answer.reason}"
    if sent.waiting:
        raise Transient(
            "the index did not take all repairs",
            system="elasticsearch",
            index=name,
            waiting=len(sent.waiting),
            reason=sent.reason,
            fix="Run the same command again.",
        )
    return [lines[line.ref] for line in sent.stale]


def _from_record(
    metadata: Metadata, writing: Writing, spec: SearchAuditSpec, record: RecordState
) -> tuple[BulkLine, str | None]:
    """The line of a document from the record that says what it should be, and its routing."""
    found = next(iter(writing.reader.read(spec.topic, record.partition, record.offset, record.offset + 1)), None)
    if found is None:
        # Compacted away since: a newer record of the key has come, and the application writes it.
        raise InvalidRecord("record is not in the topic any more", reason="compacted")
    body = writing.states.body(found.value)
    if body is None:
        raise InvalidRecord("record is a tombstone by now", reason="tombstone")
    said = metadata.living(record.partition, record.offset, record.doc_id, record.version, body)
    entity = orjson.dumps(spec.entity)
    routed = spec.index.topics[spec.topic].routing
    routing = None if routed is None else routing_of(body, routed)
    name = writing.states.feed.index_id(record.doc_id)
    return BulkLine(0, line_bytes(name, record.version, entity, body, said, routing=routing, same=True)), routing


def _tombstone(metadata: Metadata, states: States, copy: IndexState, record: RecordState | None) -> BulkLine:
    version = max(copy.version, copy.stored_version, record.version if record else 0)
    said = metadata.deleted(copy.partition, copy.offset, copy.doc_id, version)
    name = states.feed.index_id(copy.doc_id)
    return BulkLine(0, line_bytes(name, version, b"", None, said, routing=copy.routing, same=True), deleted=True)
