"""The lines of a bulk request, and what each answer asks for. Pure: who sends them is `delivery`'s business.

HTTP 200 says nothing about the items, so each is classified by (status, type), exactly, never by a part of a text.
Answers and their reasons: Elasticsearch 8.19, seen on a real node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

import orjson

from include.index.identity import DocumentIdentity
from include.index.server.port import BulkAnswer

__all__ = [
    "BulkLine",
    "ItemClass",
    "WholeClass",
    "action_of",
    "bytes_of",
    "classify_item",
    "classify_request",
    "data_of",
    "document_line",
    "groups_of",
    "line_bytes",
    "probe_of",
]

ItemClass = Literal["done", "stale", "retry", "slow", "broken", "alone", "dead", "index_fault"]
"""done: written. stale: a newer or the same state is there. retry: soon again, this item only. slow: again, but it may
take hours (disk, write block, closed index). broken: again; the fault is the server's, or it breaks at this document.
alone: the fault may be a sibling's, so send it alone; then it is dead. dead: the document is refused for what it is.
index_fault: the index is not there or not ours to write."""
WholeClass = Literal["items", "retry", "slow", "split", "halve", "index_fault"]
"""items: look at each. retry: unknown what was written, versions make sending again safe. split: too large; a single
document is dead. halve: one line spoils all; halve until it is alone, then it is dead."""

_DEAD_TYPES: Final = frozenset(
    {
        "document_parsing_exception",
        "illegal_argument_exception",
        "mapper_parsing_exception",
        "strict_dynamic_mapping_exception",
    }
)
_LINE: Final = b'{"index":{"_id":%b,"version":%d,"version_type":"%b"}}\n{%b:%b,"metadata":%b}\n'
_DELETED_LINE: Final = b'{"index":{"_id":%b,"version":%d,"version_type":"%b"}}\n{"metadata":%b}\n'
_DATA: Final = itemgetter(1)
# Too many requests, a shard or a node that is not there.
_AWAY: Final = frozenset({429, 502, 503, 504})
# Of one document beside others that are taken: its new fields wait for a master that is away.
_AWAY_TYPES: Final = frozenset({"mapper_exception", "timeout_exception"})
_PROBE: Final = b'{"delete":{"_id":%b,"version":0,"version_type":"external"%b}}\n'
_SLOW: Final = frozenset({(403, "cluster_block_exception"), (400, "index_closed_exception")})


class BulkLine(NamedTuple):
    """One document on its way. `ref` is what its sender knows it by."""

    ref: Any
    data: bytes
    deleted: bool = False


def document_line(ref: int, identity: DocumentIdentity, entity: str, body: bytes | None, metadata: bytes) -> BulkLine:
    """`line_bytes` of a document whose `_id` is its id."""
    data = line_bytes(identity.doc_id, identity.version, orjson.dumps(entity), body, metadata)
    return BulkLine(ref, data, deleted=body is None)


def line_bytes(
    index_id: str,
    version: int,
    entity: bytes,
    body: bytes | None,
    metadata: bytes,
    *,
    routing: str | None = None,
    same: bool = False,
) -> bytes:
    """Encodes action and document, to be written only over an older version.

    Without `body` the document is a soft-delete tombstone: it keeps its version for ever, where Elasticsearch forgets
    that of a real delete after a minute.

    Args:
        index_id: the document's `_id`.
        version: external version of its state.
        entity: name of the body's field, as JSON.
        body: JSON; None: a tombstone.
        metadata: JSON.
        routing: chooses the shard; None: by `_id`.
        same: write also over a document of the same version.
    """
    name = orjson.dumps(index_id)
    kind = b"external_gte" if same else b"external"
    if routing is not None:
        kind += b'","routing":%b' % orjson.dumps(routing)[:-1]
    if body is None:
        return _DELETED_LINE % (name, version, kind, metadata)
    return _LINE % (name, version, kind, entity, body, metadata)


def probe_of(line: BulkLine) -> BulkLine:
    """What tells whether the shard of that document works, and changes nothing: a delete older than any state of it.

    A shard that works finds a newer state (409) or none (404). Ingest pipelines see no deletes.
    """
    action = action_of(line)
    routing = b',"routing":%b' % orjson.dumps(action["routing"]) if "routing" in action else b""
    return BulkLine(None, _PROBE % (orjson.dumps(action["_id"]), routing))


def action_of(line: BulkLine) -> dict[str, Any]:
    """What the line says of its document: `_id`, `version`, `routing` if it has one."""
    action: dict[str, Any] = orjson.loads(line.data[: line.data.index(b"\n")])["index"]
    return action


def data_of(lines: Iterable[BulkLine]) -> Iterator[bytes]:
    """The bytes of each."""
    return map(_DATA, lines)


def bytes_of(lines: Iterable[BulkLine]) -> int:
    """How many bytes they have together."""
    return sum(map(len, map(_DATA, lines)))


def groups_of(lines: Sequence[BulkLine], most_bytes: int) -> list[list[BulkLine]]:
    """Requests of at most `most_bytes`, in order; a line that is larger goes alone."""
    if lines and bytes_of(lines) <= most_bytes:
        return [list(lines)]
    groups: list[list[BulkLine]] = []
    size = most_bytes
    for line in lines:
        if size + len(line.data) > most_bytes:
            groups.append([])
            size = 0
        groups[-1].append(line)
        size += len(line.data)
    return groups


def classify_item(status: int, kind: str) -> ItemClass:  # noqa: PLR0911, RUF100 - a table
    """What to do with an item that was answered so."""
    if status in (200, 201):
        return "done"
    if status == 409:
        return "stale"
    if (status, kind) in _SLOW or (status == 429 and kind == "cluster_block_exception"):
        return "slow"
    if status in _AWAY or kind in _AWAY_TYPES:
        return "retry"
    if status >= 500:
        return "broken"
    if status in (401, 403, 404) or kind == "invalid_index_name_exception":
        return "index_fault"
    return "dead" if status == 400 and kind in _DEAD_TYPES else "alone"


def classify_request(answer: BulkAnswer, sent: int) -> WholeClass:
    """What to do with a request of `sent` documents that was answered so."""
    status = answer.status
    if status == 200:
        return "items" if answer.items is not None and len(answer.items) == sent else "retry"
    if status in (429, 403) and answer.type == "cluster_block_exception":
        return "slow"
    if status == 413:
        return "split"
    if status in (401, 403, 404) or answer.type == "invalid_index_name_exception":
        return "index_fault"
    return "halve" if status == 400 else "retry"
