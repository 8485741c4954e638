"""Keeps an index's progress in one small document per (index uuid, topic), beside the index itself.

It is written after the documents of a batch are acknowledged, over the last version of itself only. So it never says
more than the index holds, a restart needs nothing else, and a second writer is found out at its first write. It goes
by the index's uuid: an index made anew under an old name starts from the beginning.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from include.clock import Clock, iso
from include.errors import Fenced, InvalidRecord, Terminal
from include.index.feed import PartitionNumber
from include.index.server.port import IndexInfo, IndexNote, SearchIndex
from include.log.resolved import ResolvedRecord
from include.record.position import SourcePosition

__all__ = [
    "NOTES",
    "IndexProgress",
    "OffsetVector",
    "ProgressKeeper",
    "ensure_notes",
    "note_id",
    "read_progress",
]

NOTES: Final = "lyrebird-progress"
"""The index that holds the progress documents of all indexes."""

OffsetVector = Mapping[int, int]


@dataclass(frozen=True)
class IndexProgress:
    """The progress of an index in one topic.

    `acked` is the next offset of each partition of the topic: every record below it is settled (written, stale or set
    aside). `searchable` is what `acked` was at the last refresh: searches see all below it. `resolved_acked` is the
    next offset of `<topic>.resolved`, `newest` what was last read there, as a full map. `generation` is the topic's
    that these offsets belong to (0: not known yet), `cluster` the topic's, as `<name>/<type>` (empty: not known).
    `complete` is the source position that the index is whole to, `visible` the one that searches are whole to. `epochs`
    has for each partition the greatest epoch of its versions: only within a partition an older lineage lies before a
    newer one. `floors` says for each table (`database.table`) below which version none of its rows lives,
    `control_acked` the next offset of its source's control topic. `partitions` tells how many partitions the topic has
    had. `counts` says for each partition what became of the records below `acked`: read = indexed + deleted + stale +
    folded + filtered + dead.
    """

    topic: str
    generation: int = 0
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    acked: OffsetVector = field(default_factory=dict)
    searchable: OffsetVector = field(default_factory=dict)
    resolved_acked: OffsetVector = field(default_factory=dict)
    newest: ResolvedRecord | None = None
    complete: SourcePosition | None = None
    visible: SourcePosition | None = None
    uncovered: tuple[str, ...] = ()
    epochs: OffsetVector = field(default_factory=dict)
    floors: Mapping[str, int] = field(default_factory=dict)
    control_acked: OffsetVector = field(default_factory=dict)
    partitions: tuple[PartitionNumber, ...] = ()
    cluster: str = ""
    counts: Mapping[int, Mapping[str, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "topic": self.topic,
            "topic_generation": self.generation,
            "topic_ids": dict(self.topic_ids),
            "acked": _texts(self.acked),
            "searchable": _texts(self.searchable),
            "resolved_acked": _texts(self.resolved_acked),
            "newest": json.loads(self.newest.value()) if self.newest else None,
            "complete": self.complete.to_json() if self.complete else None,
            "visible": self.visible.to_json() if self.visible else None,
            "uncovered": list(self.uncovered),
            "epochs": _texts(self.epochs),
            "floors": dict(self.floors),
            "control_acked": _texts(self.control_acked),
            "partitions": [
                {"number": each.number, "until": None if each.until is None else _texts(each.until)}
                for each in self.partitions
            ],
            "cluster": self.cluster,
            "counts": {str(p): dict(counts) for p, counts in sorted(self.counts.items())},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> IndexProgress:
        """Inverse of `to_json`; raises `Terminal` for a document of another form."""
        try:
            newest, complete, visible = value["newest"], value["complete"], value["visible"]
            return cls(
                topic=value["topic"],
                generation=value["topic_generation"],
                topic_ids=dict(value["topic_ids"]),
                acked=_vector(value["acked"]),
                searchable=_vector(value["searchable"]),
                resolved_acked=_vector(value["resolved_acked"]),
                newest=ResolvedRecord.parse(json.dumps(newest).encode()) if newest else None,
                complete=SourcePosition.from_json(complete) if complete else None,
                visible=SourcePosition.from_json(visible) if visible else None,
                uncovered=tuple(value["uncovered"]),
                epochs=_vector(value.get("epochs", {})),
                floors={table: int(floor) for table, floor in value["floors"].items()},
                control_acked=_vector(value["control_acked"]),
                partitions=tuple(
                    PartitionNumber(p["number"], None if p["until"] is None else _vector(p["until"]))
                    for p in value["partitions"]
                ),
                # Older documents do not know it.
                cluster=str(value.get("cluster", "")),
                counts={int(p): dict(counts) for p, counts in value["counts"].items()},
            )
        except (KeyError, TypeError, ValueError, InvalidRecord) as error:
            raise Terminal(
                "progress document cannot be read",
                index=NOTES,
                reason=repr(error),
                fix="Delete that document: the index is then read again from the topic's beginning.",
            ) from error


def note_id(info: IndexInfo, topic: str) -> str:
    """Id of the progress document."""
    return f"{info.uuid}.{topic}"


def ensure_notes(index: SearchIndex) -> None:
    """Make the index of progress documents unless it is there."""
    index.create(
        NOTES,
        {
            # A second copy as soon as there is a second node: without it no index goes on.
            "settings": {"number_of_shards": 1, "auto_expand_replicas": "0-1"},
            "mappings": {"dynamic": False, "properties": {"topic": {"type": "keyword"}, "index": {"type": "keyword"}}},
        },
    )


def read_progress(index: SearchIndex, info: IndexInfo, topic: str) -> IndexProgress | None:
    """Reads what `info` is complete to, for readers; None when nothing has been indexed yet."""
    found = index.note(NOTES, note_id(info, topic))
    return IndexProgress.from_json(found.source) if found else None


class ProgressKeeper:
    """The one writer of a progress document. `owner` is a name that no other process has."""

    def __init__(self, index: SearchIndex, info: IndexInfo, topic: str, owner: str, clock: Clock) -> None:
        self._index = index
        self._info = info
        self._id = note_id(info, topic)
        self._topic = topic
        self._owner = owner
        self._clock = clock
        self._last: IndexNote | None = None
        self._writes = 0
        self.written_us: int | None = None
        """When the document that was claimed was written last (UTC); None where that is not known."""

    def claim(self, resume: Callable[[IndexProgress], IndexProgress] | None = None) -> IndexProgress:
        """Read the document and put the owner's name on it, which fences every older writer.

        Gives an empty progress for an index that has none: reading starts at the beginning. `resume` may change or
        refuse what was found, before anything is written. May be called again.
        """
        ensure_notes(self._index)
        self._last = self._index.note(NOTES, self._id)
        progress = IndexProgress.from_json(self._last.source) if self._last else IndexProgress(self._topic)
        self.written_us = self._last.source.get("at_us") if self._last else None
        progress = resume(progress) if resume else progress
        self.save(progress)
        return progress

    def save(self, progress: IndexProgress) -> None:
        """Replace the document; raises `Fenced` when another process has written it since.

        May be called again after `Transient`: a write whose answer was lost is recognised as this writer's.
        """
        self._writes += 1
        now_us = self._clock.now_us()
        source = {
            **progress.to_json(),
            "index": self._info.name,
            "index_uuid": self._info.uuid,
            "owner": self._owner,
            "writes": self._writes,
            "at": iso(now_us),
            "at_us": now_us,
        }
        written = self._index.write_note(NOTES, self._id, source, self._last)
        if written is None:
            written = self._index.note(NOTES, self._id)
            if written is None or written.source.get("owner") != self._owner:
                raise Fenced(
                    "another process writes this index",
                    index=self._info.name,
                    topic=self._topic,
                    owner=written.source.get("owner") if written else None,
                    fix="End this one; exactly one indexing application may run for an index.",
                )
            # Ours, with its answer lost: write over it, as it may hold an earlier state.
            written = self._index.write_note(NOTES, self._id, source, written)
            if written is None:
                raise Fenced("another process writes this index", index=self._info.name, topic=self._topic)
        self._last = written


def _texts(vector: OffsetVector) -> dict[str, int]:
    return {str(p): offset for p, offset in sorted(vector.items())}


def _vector(texts: Mapping[str, int]) -> dict[int, int]:
    return {int(p): int(offset) for p, offset in texts.items()}
