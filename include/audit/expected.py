"""What an index should hold: the newest record of each key below a cut, tombstones out.

Compaction may have taken older records of a key, never the newest, so the result is the same before and after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from include.audit.range_count import Window
from include.errors import InvalidRecord
from include.index.identity import identify
from include.log.ports import LogReader, Record
from include.record.codec import Decoder

__all__ = ["Expected", "fold", "records_below", "state_of"]


@dataclass
class Expected:
    """Sorted ids that should be living; `unreadable` records could not be told a key or version."""

    keys: list[str] = field(default_factory=list)
    unreadable: int = 0


def state_of(record: Record, decode: Decoder) -> tuple[str, int, bool] | None:
    """Id, version and whether it is a tombstone; None for a record that is set aside for its key or version."""
    try:
        identity = identify(record, decode)
    except InvalidRecord:
        return None
    return identity.doc_id, identity.version, record.value is None


def fold(records: Iterable[Record], decode: Decoder) -> Expected:
    """The expected ids of `records`, which may come in any order of partitions."""
    newest: dict[str, tuple[int, bool]] = {}
    out = Expected()
    for record in records:
        state = state_of(record, decode)
        if state is None:
            out.unreadable += 1
            continue
        doc_id, version, deleted = state
        if doc_id not in newest or newest[doc_id][0] <= version:
            newest[doc_id] = (version, deleted)
    out.keys = sorted(doc_id for doc_id, (_, deleted) in newest.items() if not deleted)
    return out


def records_below(reader: LogReader, topic: str, window: Window) -> Iterator[Record]:
    """All records of `topic` below the cut."""
    for partition, begin in reader.begin_offsets(topic).items():
        yield from reader.read(topic, partition, begin, max(begin, window.get(partition, 0)))
