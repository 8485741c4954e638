"""What one task does with its share of a batch: read, fold, send, and say what became of every record.

A share may be worked off any number of times: what is in the index already comes back as stale. Nothing here knows of
Spark. Records come as plain tuples, as a task may see 50,000 of them a second.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

import orjson

from include.errors import BackPressure, InvalidRecord, LyrebirdError, Terminal, Transient
from include.index.bulk import Line, line_bytes
from include.index.delivery import Delivered, Delivery
from include.index.metadata import Metadata
from include.index.outcome import SetAside, TaskOutcome
from include.index.routing import Copies, routing_of
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
        self._under_way: dict[int, _Entry] = {}
        self._given = 0

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
        window: dict[str, _Entry] = {}
        size = 0
        at: tuple[str, int] | None = None
        topic: _Topic | None = None
        counts: _Counts = {}
        for raw in records:
            if at != (raw[0], raw[1]):
                at = (raw[0], raw[1])
                topic = self._topics.get(raw[0])
                if topic is not None:
                    counts = out.of(*at)
                    topic.enter(raw[1])
            if topic is None:
                out.others.append(_record(raw))
                continue
            counts["read"] += 1
            try:
                found = topic.entry(raw, counts)
            except InvalidRecord as error:
                counts["dead"] += 1
                out.dead.append(SetAside(_record(raw), _why(error)))
                continue
            if found is None:
                continue
            name, entry = found
            there = window.get(name)
            if there is None:
                size += len(entry[_DATA])
            elif there[_VERSION] > entry[_VERSION]:
                counts["folded"] += 1
                continue
            else:
                there[_COUNTS]["folded"] += 1
                size += len(entry[_DATA]) - len(there[_DATA])
            window[name] = entry
            if size >= self._window_bytes:
                self._give(window, out)
                window, size = {}, 0
        self._give(window, out)
        self._take(self._delivery.finish(), out)
        for topic in self._topics.values():
            if topic.routed:
                self._one_copy(topic)

    def _one_copy(self, topic: _Topic) -> None:
        if self._copies is None:
            raise Terminal("a routed topic needs to look for copies", topic=topic.feed.name)
        self._copies.settle(topic.feed, topic.routed)

    def _give(self, window: Mapping[str, _Entry], out: TaskOutcome) -> None:
        lines = []
        for entry in window.values():
            self._given += 1
            self._under_way[self._given] = entry
            lines.append(Line(self._given, entry[_DATA], entry[_DELETED]))
        if lines:
            self._take(self._delivery.give(lines), out)

    def _take(self, delivered: Delivered, out: TaskOutcome) -> None:
        entries = self._under_way
        out.requests += delivered.requests
        out.retries += delivered.retries
        for line in delivered.done:
            entries.pop(line.ref)[_COUNTS]["deleted" if line.deleted else "indexed"] += 1
        for line in delivered.stale:
            entries.pop(line.ref)[_COUNTS]["stale"] += 1
        for line, answer in delivered.dead:
            text = json.dumps({"status": answer.status, "type": answer.type, "reason": answer.reason})
            entry = entries.pop(line.ref)
            entry[_COUNTS]["dead"] += 1
            out.dead.append(SetAside(_record(entry[_RAW]), f"refused by the index: {text}", refused=True))
        if delivered.waiting:
            raise Transient("index does not take documents", system="elasticsearch", reason=delivered.reason)


class _Topic:
    """One feed's records into bulk lines."""

    def __init__(self, states: States, epochs: dict[int, int]) -> None:
        self.epochs = epochs
        self._partition = -1
        self._epoch = 0
        self._states = states
        self._metadata = Metadata(states.feed.origin)
        self._entity = orjson.dumps(states.feed.topic.entity)
        self._floor = states.feed.floor
        self.feed = states.feed
        self.routed: set[str] = set()
        self._met: set[bytes] = set()

    def enter(self, partition: int) -> None:
        """What comes now is of that partition."""
        self._partition = partition
        self._epoch = self.epochs.get(partition, 0)

    def entry(self, raw: Raw, counts: _Counts) -> tuple[str, _Entry] | None:
        """`_id` and line of the state that a record tells; None, and counted, where it tells none."""
        _, partition, offset, key, value, headers, _ = raw
        states = self._states
        if not states.makes_document(value):
            counts["filtered"] += 1
            return None
        # The first value of each schema goes the long way, as the index may have to be made fit for it.
        if states.line is not None and (value is None or value[:_HEAD] in self._met):
            found = states.line(key, value, headers, partition, offset)
            if found is not None:
                name, version, data, deleted = found
                return (name, (version, raw, counts, data, deleted)) if self._counts(version, raw, counts) else None
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
        if epoch_of(version) != self._epoch:
            self._follow(epoch_of(version), raw)
        if version < self._floor:
            counts["stale"] += 1
            return False
        return True

    def _follow(self, epoch: int, raw: Raw) -> None:
        if epoch < self._epoch:
            raise Terminal(
                "record is of an older lineage than the index",
                topic=raw[0],
                partition=raw[1],
                offset=raw[2],
                epoch=epoch,
                index_epoch=self._epoch,
                fix="End whoever still writes the older lineage; then make the topic anew and raise its generation in "
                "the deployment file.",
            )
        self._epoch = self.epochs[self._partition] = epoch


def _record(raw: Raw) -> Record:
    topic, partition, offset, key, value, headers, timestamp_ms = raw
    return Record(topic, partition, offset, key, value, tuple(headers or ()), timestamp_ms)


def _why(error: LyrebirdError) -> str:
    return f"{error.message}: {error.details.get('reason', '')}"
