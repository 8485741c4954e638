"""Soft-delete tombstones that no older state can come after any more are deleted for good, without a rebuild.

A tombstone stands in the index to refuse older states of its document. Within a partition of the log they lie before
it, and compaction and retention take them before they take it; so whoever reads the partition again meets the deletion
as well. A tombstone is past its use when all of these hold:

* its offset lies below what searches of this index saw at a mark that is older than the topic keeps deletions (a day at
  least), and still do: no writer that was taken for dead holds its records any more;
* the topic is the one that the index has read since, and has not grown, as else older states lie in other partitions;
* it is older than the mark, too, where a floor wrote it over a document of an older offset;
* no dead letter is of its document, as `index replay-dead` brings an older state; of a letter whose key nobody can
  read all that comes behind it in its partition stays.

The order of the steps, each of which may be the last before a crash:

1. a mark is noted beside the index: the time, and where its searches stand;
2. tombstones are deleted page by page, each in the version that was seen: one that lives again, or was deleted anew, is
   newer and stays. What a page leaves the next run finds, and what is gone is passed over. For `index.gc_deletes` (a
   minute) the server remembers the version, and refuses the tombstone itself as well as what is older.

Audits are as right after it as before: of a deleted key they ask that it does not live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from include.clock import Clock, iso
from include.errors import BackPressure, InvalidRecord, Terminal, Transient
from include.index.progress.document import NOTES, IndexProgress, OffsetVector, note_id, read_progress
from include.index.server.port import IndexedDocument, IndexInfo, SearchIndex
from include.index.server_wait import ServerRetry
from include.index.states import States
from include.log.ports import Record
from include.pace import TokenBucket

__all__ = ["ProtectedDocuments", "Purge", "PurgeResult", "SearchMark", "delete_line", "horizon_ms", "protected"]

_DAY_MS: Final = 86_400_000
_KEPT_MS: Final = 7 * _DAY_MS
_MARKS: Final = 8
_PAGE: Final = 1000
_PATIENCE_S: Final = 60.0
_DELETE: Final = b'{"delete":{"_id":%b,"version":%d,"version_type":"external_gte"%b}}\n'


def horizon_ms(kept_ms: int | None) -> int:
    """How old a mark has to be for a topic that keeps deletions for `kept_ms`; None: that is not known."""
    return max(_KEPT_MS if kept_ms is None else kept_ms, _DAY_MS)


@dataclass(frozen=True, slots=True)
class SearchMark:
    """Where the searches of an index stood at a moment. `floor`: the greatest that was known."""

    at_us: int
    searchable: OffsetVector
    floor: int
    topic_ids: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        searchable = {str(p): offset for p, offset in sorted(self.searchable.items())}
        return {"at_us": self.at_us, "searchable": searchable, "floor": self.floor, "topic_ids": dict(self.topic_ids)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SearchMark:
        """Inverse of `to_json`."""
        searchable = {int(p): int(offset) for p, offset in value["searchable"].items()}
        return cls(int(value["at_us"]), searchable, int(value["floor"]), dict(value["topic_ids"]))


@dataclass(frozen=True, slots=True)
class ProtectedDocuments:
    """What dead letters keep: documents by id, and by partition the first offset behind which all stays."""

    doc_ids: frozenset[str] = frozenset()
    behind: OffsetVector = field(default_factory=dict)


@dataclass
class PurgeResult:
    """What became of the tombstones of one topic in one index that are past the mark of `since` (UTC; None: no mark).

    `past_use` were found, of which `purged` are gone, `kept` are protected, and `changed` were written anew meanwhile.
    In a dry run none is purged. `why`: what there is to know when none was looked for.
    """

    index: str
    topic: str
    since: str | None = None
    past_use: int = 0
    purged: int = 0
    kept: int = 0
    changed: int = 0
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        counts = {"past_use": self.past_use, "purged": self.purged, "kept": self.kept, "changed": self.changed}
        return {"index": self.index, "topic": self.topic, "since": self.since, **counts, "why": self.why}


def protected(letters: Iterable[Record], states: States) -> ProtectedDocuments:
    """What the dead letters of a topic keep."""
    doc_ids, behind = set[str](), dict[int, int]()
    for record in letters:
        try:
            doc_id, _ = states.identity(record.partition, record.offset, record.key, record.headers)
            doc_ids.add(doc_id)
        except InvalidRecord:
            behind[record.partition] = min(behind.get(record.partition, record.offset), record.offset)
    return ProtectedDocuments(frozenset(doc_ids), behind)


class Purge:
    """Purges one topic's tombstones from one generation. `per_second` tombstones are deleted at most."""

    def __init__(self, index: SearchIndex, info: IndexInfo, topic: str, clock: Clock, *, per_second: int) -> None:
        self._index = index
        self._info = info
        self._topic = topic
        self._clock = clock
        self._rate = TokenBucket(per_second, clock)
        self._patience = ServerRetry(clock, longest_s=_PATIENCE_S, on_wait=lambda _, __: None, stopped=lambda: False)
        self._note_id = f"{note_id(info, topic)}.purge"

    def run(
        self,
        horizon_ms: int,
        *,
        keeps: Callable[[], ProtectedDocuments],
        on_progress: Callable[[PurgeResult], None],
        dry_run: bool,
    ) -> PurgeResult:
        """Steps 1 and 2; a dry run takes neither. May be run again, and beside the application.

        Args:
            horizon_ms: how old the mark has to be.
            keeps: what may not go, asked once there is something to do.
            on_progress: hears after each page.
            dry_run: only count.

        Raises `Terminal` for a topic that has grown or an index that was made anew, `Transient` when the index does
        not answer or begins its topic anew; what was purged until then is gone, rightly.
        """
        out = PurgeResult(self._info.name, self._topic)
        progress = self._progress(None)
        if progress is None:
            out.why = "nothing was indexed yet"
            return out
        marks = self._marked(progress, horizon_ms, dry_run=dry_run)
        old = [mark for mark in marks if self._clock.now_us() - mark.at_us >= horizon_ms * 1000]
        if not old:
            first = iso(marks[0].at_us + horizon_ms * 1000) if marks else "a first run that is not dry"
            out.why = f"no mark is old enough; tombstones of now go from {first} on"
            return out
        mark = old[-1]
        out.since = iso(mark.at_us)
        kept = keeps()
        self._index.refresh(self._info.name)
        for partition, below in sorted(mark.searchable.items()):
            bound = min(below, kept.behind.get(partition, below))
            self._partition(partition, bound, mark, kept, out, on_progress, dry_run=dry_run)
        return out

    def _partition(
        self,
        partition: int,
        below: int,
        mark: SearchMark,
        kept: ProtectedDocuments,
        out: PurgeResult,
        on_progress: Callable[[PurgeResult], None],
        *,
        dry_run: bool,
    ) -> None:
        after = 0, ""
        while page := self._page(partition, below, after):
            last = page[-1].source["metadata"]
            after = last["offset"], last["doc_id"]
            floor = self._floor(self._progress(mark))
            past = [each for each in page if not mark.floor <= each.version < floor]
            lines = [delete_line(each) for each in past if each.source["metadata"]["doc_id"] not in kept.doc_ids]
            out.past_use += len(past)
            out.kept += len(past) - len(lines)
            if lines and not dry_run:
                paid_s = self._rate.take(len(lines))
                gone = self._patience.call(lambda lines=lines: self._delete(lines))  # type: ignore[misc]
                out.purged += gone
                out.changed += len(lines) - gone
                self._rate.wait(paid_s)
            on_progress(out)

    def _page(self, partition: int, below: int, after: tuple[int, str]) -> list[IndexedDocument]:
        return self._patience.call(
            lambda: self._index.tombstones(self._info.name, self._topic, partition, below, after, _PAGE)
        )

    def _progress(self, mark: SearchMark | None) -> IndexProgress | None:
        """What the index has by now; raises when it is not the one that was marked, or reads its topic anew."""
        there = self._index.describe(self._info.name)
        if there is None or there.uuid != self._info.uuid:
            raise Terminal("index was made anew", index=self._info.name, fix="Run it again.")
        progress = read_progress(self._index, self._info, self._topic)
        if progress is not None and len(progress.partitions) > 1:
            raise Terminal(
                "topic has grown: older states of deleted documents lie in the partitions that they lay in before",
                index=self._info.name,
                topic=self._topic,
                fix="Its tombstones have to stay: rebuild the index from a topic that was made anew.",
            )
        if mark is not None and (
            progress is None
            or progress.topic_ids.get(self._topic) != mark.topic_ids.get(self._topic)
            or any(progress.searchable.get(p, 0) < offset for p, offset in mark.searchable.items())
        ):
            raise Transient("index reads its topic anew", index=self._info.name, topic=self._topic)
        return progress

    def _floor(self, progress: IndexProgress | None) -> int:
        return max(progress.floors.values(), default=0) if progress else 0

    def _marked(self, progress: IndexProgress, horizon_ms: int, *, dry_run: bool) -> list[SearchMark]:
        """The marks of this topic as it is, the oldest first, with one of now where the last is not of late."""
        last = self._index.note(NOTES, self._note_id)
        every = [SearchMark.from_json(each) for each in last.source["marks"]] if last else []
        marks = [mark for mark in every if mark.topic_ids.get(self._topic) == progress.topic_ids.get(self._topic)]
        now_us, horizon_us = self._clock.now_us(), horizon_ms * 1000
        if dry_run or (marks and now_us - marks[-1].at_us < horizon_us // _MARKS):
            return marks
        # Of those that are old enough the newest does.
        young = [mark for mark in marks if now_us - mark.at_us < horizon_us]
        marks = [*marks[: len(marks) - len(young)][-1:], *young]
        marks.append(SearchMark(now_us, progress.searchable, self._floor(progress), progress.topic_ids))
        source = {"index": self._info.name, "topic": self._topic, "marks": [mark.to_json() for mark in marks]}
        if self._index.write_note(NOTES, self._note_id, source, last) is None:
            raise Transient("another purge runs", index=self._info.name, topic=self._topic)
        return marks

    def _delete(self, lines: list[bytes]) -> int:
        """Delete those that are as they were seen; gives how many are gone. May be done again."""
        answer = self._index.bulk(self._info.name, b"".join(lines))
        items = answer.items or ()
        if answer.status != 200 or len(items) != len(lines):
            details: dict[str, Any] = {
                "index": self._info.name,
                "status": answer.status,
                "reason": answer.reason or answer.type,
            }
            if answer.status == 429:
                raise BackPressure("index is full", system="elasticsearch", **details)
            raise Transient("index takes no deletions", system="elasticsearch", **details)
        for item in items:
            if item.status in (401, 403) or item.type == "index_not_found_exception":
                raise Terminal(
                    "index refuses a deletion",
                    index=self._info.name,
                    status=item.status,
                    reason=item.reason or item.type,
                )
            if item.status not in (200, 404, 409):
                raise Transient(
                    "index takes no deletions", system="elasticsearch", index=self._info.name, status=item.status
                )
        return sum(item.status != 409 for item in items)


def delete_line(found: IndexedDocument) -> bytes:
    """Line of a bulk request that deletes a document unless a newer state of it is there.

    Its version stays the document's: with the server's own, one more, the next state could be refused.
    """
    routing = b',"routing":%b' % orjson.dumps(found.routing) if found.routing is not None else b""
    return _DELETE % (orjson.dumps(found.doc_id), found.version, routing)
