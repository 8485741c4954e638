"""Works off a task's share of a batch: reads, folds, sends, and says what became of every record.

A share may be worked off any number of times: what is in the index already comes back as stale. Nothing here knows of
Spark. Records come as plain tuples, as a task may see 50,000 of them a second.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import orjson

from include.errors import BackPressure, InvalidRecord, LyrebirdError, Terminal, Transient
from include.index.bulk.request import BulkLine, line_bytes
from include.index.bulk.routing import Copies, routing_of
from include.index.bulk.sender import Delivery, DeliveryResult
from include.index.metadata import Metadata
from include.index.outcome import SetAsideRecord, TaskOutcome
from include.index.states import States
from include.log.ports import Headers, Record
from include.record.version import epoch_of

__all__ = ["IndexTask", "Raw", "raw_of"]

Raw = tuple[str, int, int, bytes | None, bytes | None, Headers | None, int]
"""A record's topic, partition, offset, key, value, headers and timestamp in milliseconds."""

_Counts = dict[str, int]
_Entry = tuple[int, Raw, _Counts, bytes, bool]
_VERSION: Final = 0
_RAW: Final = 1
_COUNTS: Final = 2
_DATA: Final = 3
_DELETED: Final = 4
_NO_EPOCHS: Final[Mapping[tuple[str, int], int]] = {}
_HEAD: Final = 5
_AT_ONCE: Final = 1000


def raw_of(record: Record) -> Raw:
    """A record as a tuple."""
    at = (record.topic, record.partition, record.offset)
    return (*at, record.key, record.value, record.headers, record.timestamp_ms)


class IndexTask:
    """Indexes records of the topics in `states`; others are handed on.

    `epochs` are the greatest that the index has met in each partition: a lower one stops the stage. Of a key's states
    within `window_bytes` only the newest is sent. `copies` is needed where a body's field routes. `run` it once.
    """

    def __init__(
        self,
        *,
        states: Mapping[str, States],
        delivery: Delivery,
        window_bytes: int,
        epochs: Mapping[tuple[str, int], int] = _NO_EPOCHS,
        copies: Copies | None = None,
    ) -> None:
        self._copies = copies
        self._topics = {
            name: _Topic(of, {p: epoch for (topic, p), epoch in epochs.items() if topic == name})
            for name, of in states.items()
        }
        self._delivery = delivery
        self._window_bytes = window_bytes

    def run(self, records: Iterable[Raw]) -> TaskOutcome:
        """Work off `records`, in the order of the log. Blocks for the delivery's patience at most.

        `Transient` and `BackPressure` become `waiting`, `Terminal` becomes `fault`: neither is raised.
        """
        out = TaskOutcome()
        try:
            self._run(records, out)
        except (Transient, BackPressure) as error:
            # What was read and not settled is done again, with all that comes after it.
            out.waiting = True
            out.reason = str(error)
        except Terminal as error:
            out.fault = error
        for name, topic in self._topics.items():
            out.epochs |= {(name, p): epoch for p, epoch in topic.epochs.items()}
        return out

    def _run(self, records: Iterable[Raw], out: TaskOutcome) -> None:
        window, left = _Window(self._window_bytes), iter(records)
        while raws := list(islice(left, _AT_ONCE)):
            i = 0
            while i < len(raws):
                i += self._enter(raws, i, window, out)
        self._give(window, out)
        self._take(self._delivery.finish(), out)
        for topic in self._topics.values():
            if topic.routed:
                self._one_copy(topic)

    def _enter(self, raws: list[Raw], i: int, window: _Window, out: TaskOutcome) -> int:
        """Enter one record into the window, or many at once; gives how many."""
        raw = raws[i]
        topic = self._topics.get(raw[0])
        if topic is None:
            out.others.append(_record(raw))
            return 1
        counts = out.of(raw[0], raw[1])
        many = topic.enter(raws, i, window, counts)
        if many:
            return many
        counts["read"] += 1
        try:
            entry = topic.entry(raw, counts)
        except InvalidRecord as error:
            counts["dead"] += 1
            out.dead.append(SetAsideRecord(_record(raw), _why(error)))
            return 1
        if entry is not None and not window.takes(*entry):
            self._give(window, out)
            window.takes(*entry)
        return 1

    def _one_copy(self, topic: _Topic) -> None:
        if self._copies is None:
            raise Terminal("a routed topic needs to look for copies", topic=topic.feed.name)
        self._copies.settle(topic.feed, topic.routed)

    def _give(self, window: _Window, out: TaskOutcome) -> None:
        lines = [BulkLine(entry, entry[_DATA], entry[_DELETED]) for entry in window.entries.values()]
        window.entries, window.size = {}, 0
        if lines:
            self._take(self._delivery.give(lines), out)

    def _take(self, delivered: DeliveryResult, out: TaskOutcome) -> None:
        out.requests += delivered.requests
        out.retries += delivered.retries
        for line in delivered.done:
            line.ref[_COUNTS]["deleted" if line.deleted else "indexed"] += 1
        for line in delivered.stale:
            line.ref[_COUNTS]["stale"] += 1
        for line, answer in delivered.dead:
            text = json.dumps({"status": answer.status, "type": answer.type, "reason": answer.reason})
            line.ref[_COUNTS]["dead"] += 1
            out.dead.append(SetAsideRecord(_record(line.ref[_RAW]), f"refused by the index: {text}", refused=True))
        if delivered.waiting:
            raise Transient("index does not take documents", system="elasticsearch", reason=delivered.reason)


@dataclass
class _Window:
    """The newest state of each document among the last records, `size` bytes of at most `most` together."""

    most: int
    entries: dict[str, _Entry] = field(default_factory=dict)
    size: int = 0

    def takes(self, name: str, entry: _Entry) -> bool:
        """Enter a state, unless a newer one is there; False where there is no room. An empty window takes any."""
        there = self.entries.get(name)
        if there is not None and there[_VERSION] > entry[_VERSION]:
            entry[_COUNTS]["folded"] += 1
            return True
        size = self.size + len(entry[_DATA]) - (len(there[_DATA]) if there is not None else 0)
        if size > self.most and self.entries:
            return False
        if there is not None:
            there[_COUNTS]["folded"] += 1
        self.entries[name] = entry
        self.size = size
        return True


class _Topic:
    """One feed's records into bulk lines."""

    def __init__(self, states: States, epochs: dict[int, int]) -> None:
        self.epochs = epochs
        self._states = states
        self._metadata = Metadata(states.feed.origin)
        self._entity = orjson.dumps(states.feed.topic.entity)
        self._floor = states.feed.floor
        self.feed = states.feed
        self.routed: set[str] = set()
        self._met: set[bytes] = set()

    def enter(self, raws: list[Raw], begin: int, window: _Window, counts: _Counts) -> int:
        """Enter records from `begin` on, as long as they can be taken many at once; gives how many."""
        lines = self._states.lines
        if lines is None:
            return 0
        epoch, room = self.epochs.get(raws[begin][1], 0), window.most - window.size
        stop, more = lines.enter(raws, begin, window.entries, counts, self._met, epoch, self._floor, room)
        counts["read"] += stop - begin
        window.size += more
        return stop - begin

    def entry(self, raw: Raw, counts: _Counts) -> tuple[str, _Entry] | None:
        """`_id` and line of the state that a record tells; None, and counted, where it tells none."""
        _, partition, offset, key, value, headers, _ = raw
        states = self._states
        if not states.makes_document(value):
            counts["filtered"] += 1
            return None
        doc_id, version = states.identity(partition, offset, key, headers)
        if not self._counts(version, raw, counts):
            return None
        body = states.body(value)
        if value is not None and body is not None:
            self._met.add(value[:_HEAD])
        name = states.feed.index_id(doc_id)
        if body is None:
            metadata = self._metadata.deleted(partition, offset, doc_id, version)
        else:
            metadata = self._metadata.living(partition, offset, doc_id, version, body)
        field, routing = self.feed.topic.routing, None
        if field is not None:
            self.routed.add(doc_id)
            routing = None if body is None else routing_of(body, field)
        data = line_bytes(name, version, self._entity, body, metadata, routing=routing)
        return name, (version, raw, counts, data, body is None)

    def _counts(self, version: int, raw: Raw, counts: _Counts) -> bool:
        """Whether a state of that version is to be sent; else it is counted."""
        if epoch_of(version) != self.epochs.get(raw[1], 0):
            self._follow(epoch_of(version), raw)
        if version < self._floor:
            counts["stale"] += 1
            return False
        return True

    def _follow(self, epoch: int, raw: Raw) -> None:
        newest = self.epochs.get(raw[1], 0)
        if epoch < newest:
            raise Terminal(
                "record is of an older lineage than the index",
                topic=raw[0],
                partition=raw[1],
                offset=raw[2],
                epoch=epoch,
                index_epoch=newest,
                fix="End whoever still writes the older lineage; then make the topic anew and raise its generation in "
                "the deployment file.",
            )
        self.epochs[raw[1]] = epoch


def _record(raw: Raw) -> Record:
    topic, partition, offset, key, value, headers, timestamp_ms = raw
    return Record(topic, partition, offset, key, value, tuple(headers or ()), timestamp_ms)


def _why(error: LyrebirdError) -> str:
    return f"{error.message}: {error.details.get('reason', '')}"
