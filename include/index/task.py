"""What one task does with its share of a batch: decode, fold, send, and say what became of every record.

Conservation: read = indexed + deleted + stale + folded + dead + waiting. A share may be worked off any number of
times: what is in the index already comes back as stale. Nothing here knows of Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson

from include.errors import BackPressure, InvalidRecord, LyrebirdError, Terminal, Transient
from include.index.body import body_json
from include.index.bulk import Line, document_line
from include.index.delivery import Delivery
from include.index.identity import Identity, identify
from include.index.metadata import Origin
from include.log.ports import Record
from include.log.topics import resolved
from include.record.codec import Decoder
from include.record.version import epoch_of

__all__ = ["COUNTS", "IndexTask", "SetAside", "TaskOutcome"]

COUNTS: Final = ("read", "indexed", "deleted", "stale", "folded", "dead", "waiting", "requests", "retries")


@dataclass(frozen=True, slots=True)
class SetAside:
    """A record that cannot be indexed, and why: in words, or the server's answer as JSON."""

    record: Record
    reason: str


@dataclass
class TaskOutcome:
    """What became of a share, or of several together. `resolved` are records of `<topic>.resolved`, unread.

    With `waiting` records the share is to be worked off again, as the server did not take them, for `reason`.
    """

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    dead: list[SetAside] = field(default_factory=list)
    resolved: list[Record] = field(default_factory=list)
    epoch: int = 0
    reason: str = ""
    fault: LyrebirdError | None = None

    def add(self, other: TaskOutcome) -> None:
        """Take in what became of another share."""
        for name, count in other.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count
        self.dead += other.dead
        self.resolved += other.resolved
        self.epoch = max(self.epoch, other.epoch)
        self.reason = self.reason or other.reason
        self.fault = self.fault or other.fault


@dataclass(frozen=True, slots=True)
class _Candidate:
    record: Record
    identity: Identity
    line: Line


class IndexTask:
    """Indexes records of one topic. `epoch` is the greatest that the index has met: a lower one stops the stage."""

    def __init__(
        self, *, origin: Origin, entity: str, decode: Decoder, delivery: Delivery, window_bytes: int, epoch: int = 0
    ) -> None:
        self._origin = origin
        self._entity = entity
        self._decode = decode
        self._delivery = delivery
        self._window_bytes = window_bytes
        self._epoch = epoch
        self._resolved_topic = resolved(origin.topic)

    def run(self, records: Iterable[Record]) -> TaskOutcome:
        """Work off `records`, in the order of the log. Blocks for the delivery's patience at most.

        `Transient` and `BackPressure` become `waiting`, `Terminal` becomes `fault`: neither is raised.
        """
        out = TaskOutcome(epoch=self._epoch)
        window: dict[str, _Candidate] = {}
        size = 0
        rows = iter(records)
        try:
            for record in rows:
                if record.topic == self._resolved_topic:
                    out.resolved.append(record)
                    continue
                out.counts["read"] += 1
                candidate = self._candidate(record, out)
                if candidate is None:
                    continue
                size += self._fold(window, candidate, out)
                if size >= self._window_bytes:
                    self._flush(window, out)
                    window, size = {}, 0
            self._flush(window, out)
        except (Transient, BackPressure) as error:
            # What was read and not settled is done again, with all that comes after it.
            settled = sum(out.counts[name] for name in ("indexed", "deleted", "stale", "folded", "dead"))
            out.counts["waiting"] = out.counts["read"] - settled
            out.reason = str(error)
        except Terminal as error:
            out.fault = error
        return out

    def _candidate(self, record: Record, out: TaskOutcome) -> _Candidate | None:
        try:
            identity = identify(record, self._decode)
            body = None if record.value is None else body_json(self._decode(record.value))
        except InvalidRecord as error:
            out.counts["dead"] += 1
            out.dead.append(SetAside(record, f"{error.message}: {error.details.get('reason', '')}"))
            return None
        epoch = epoch_of(identity.version)
        if epoch < self._epoch:
            raise Terminal(
                "record is of an older lineage than the index",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                epoch=epoch,
                index_epoch=self._epoch,
                fix="Raise `generation` of the index in the deployment file, create it, and start again.",
            )
        out.epoch = self._epoch = max(self._epoch, epoch)
        metadata = orjson.dumps(self._origin.metadata(record, identity))
        return _Candidate(record, identity, document_line(record.offset, identity, self._entity, body, metadata))

    @staticmethod
    def _fold(window: dict[str, _Candidate], candidate: _Candidate, out: TaskOutcome) -> int:
        """Keep the newest state of each document; gives how many bytes the window grew by."""
        there = window.get(candidate.identity.doc_id)
        if there is not None:
            out.counts["folded"] += 1
            if there.identity.version > candidate.identity.version:
                return 0
        window[candidate.identity.doc_id] = candidate
        return len(candidate.line.data) - (len(there.line.data) if there else 0)

    def _flush(self, window: Mapping[str, _Candidate], out: TaskOutcome) -> None:
        if not window:
            return
        candidates = list(window.values())
        lines = [Line(n, candidate.line.data, candidate.line.deleted) for n, candidate in enumerate(candidates)]
        delivered = self._delivery.deliver(lines)
        deleted = sum(line.deleted for line in delivered.done)
        out.counts["deleted"] += deleted
        out.counts["indexed"] += len(delivered.done) - deleted
        out.counts["stale"] += len(delivered.stale)
        out.counts["dead"] += len(delivered.dead)
        out.counts["requests"] += delivered.requests
        out.counts["retries"] += delivered.retries
        for line, answer in delivered.dead:
            text = json.dumps({"status": answer.status, "type": answer.type, "reason": answer.reason})
            out.dead.append(SetAside(candidates[line.ref].record, f"refused by the index: {text}"))
        if delivered.waiting:
            raise Transient("index does not take documents", system="elasticsearch", reason=delivered.reason)
