"""A parser of any format whose values can be read by paths: filters, then event time, then names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from typing_extensions import override

from include.errors import InvalidRecord, Terminal
from include.lake.message import Message
from include.lake.parsing.conditions import holds
from include.lake.parsing.event_time import Clocked, EventTimeField, clocked
from include.lake.parsing.fields import ReadFields, WantedValue, invalid
from include.lake.parsing.partition_names import (
    ContentName,
    NameRule,
    OffsetName,
    check_names,
    content_names,
    offset_name,
    time_names,
)
from include.lake.parsing.port import Batch, Parsed, Parser, Transformer
from include.lake.parsing.rules import ParserRules, time_wanted

__all__ = ["BUILD", "FieldParser"]

BUILD: Final = "1"
"""Raised when the same configuration gives other names, times or payloads than before."""

_REMEMBERED: Final = 8192
_Name = Callable[[Sequence[Any], int, int], tuple[str, ...]]
_Placed = tuple[tuple[str, ...], int | None]


class FieldParser(Parser):
    """`Parser` by declared rules; `reader` makes what reads the wanted values of its format.

    The payload is the message's value, as the transformer left it.
    """

    version = BUILD

    def __init__(
        self,
        rules: ParserRules,
        reader: Callable[[Sequence[WantedValue]], ReadFields],
        transformer: Transformer | None = None,
    ) -> None:
        wanted = rules.wanted()
        places = {want: place for place, want in enumerate(wanted)}
        self._read = reader(wanted)
        self._nothing: Sequence[Any] = [None] * len(wanted)
        self._drop = [(places[WantedValue(each.field)], holds(each)) for each in rules.drop]
        self._keep = [(places[WantedValue(each.field)], holds(each)) for each in rules.keep]
        self._tombstones = rules.tombstones
        self._transformer = transformer
        self._clock: Clocked | None = clocked(rules.time) if rules.time else None
        self._kafka_clock = clocked(EventTimeField())
        timed = rules.time is not None and rules.time.field is not None
        self._time_place = places[time_wanted(rules.time)] if rules.time is not None and timed else None
        self._names = [_name(rule, places) for rule in rules.names]
        self._paths: dict[tuple[tuple[str, ...], ...], tuple[str, ...]] = {}
        # The usual case, a day or hour of a value, has a loop without detours.
        rule = rules.names[0]
        plain = len(rules.names) == 1 and timed and not (rules.drop or rules.keep or transformer)
        self._by_time = time_names(rule) if plain and not isinstance(rule, ContentName | OffsetName) else None

    @override
    def parse(self, message: Message) -> Parsed | None:
        changed = self._transformed(message)
        placed = None if changed is None else self._placed(changed)
        return None if changed is None or placed is None else Parsed(changed.value, *placed)

    @override
    def parse_all(self, messages: Sequence[Message]) -> Batch:
        if self._by_time is not None:
            return self._sorted_by_time(messages, self._by_time)
        batch = Batch()
        times: list[int] = []
        for message in messages:
            try:
                changed = self._transformed(message)
                placed = None if changed is None else self._placed(changed)
            except InvalidRecord as refused:
                batch.refused.append((message, refused))
                continue
            if changed is None or placed is None:
                batch.filtered += 1
                continue
            names, us = placed
            batch.kept.setdefault(names, []).append(changed)
            if us is not None:
                times.append(us)
        batch.least_us, batch.most_us = min(times, default=None), max(times, default=None)
        return batch

    def _sorted_by_time(self, messages: Sequence[Message], by_time: Callable[[int], tuple[str, ...]]) -> Batch:
        batch, clock, read, index = Batch(), self._clock, self._read, self._time_place
        kept = batch.kept
        times: list[int] = []
        last: tuple[str, ...] | None = None
        add: Callable[[Message], None] = times.append  # type: ignore[assignment]  # replaced before its first call
        assert clock is not None and index is not None  # noqa: S101, PT018 - a parser without is not simple
        for message in messages:
            value = message.value
            try:
                if value is None:
                    placed = self._placed(message)
                    if placed is None:
                        batch.filtered += 1
                        continue
                    names, us = placed
                    assert us is not None  # noqa: S101 - names by time have one
                else:
                    us = clock(read(value)[index], message.timestamp_ms)
                    names = by_time(us)
            except InvalidRecord as refused:
                batch.refused.append((message, refused))
                continue
            if names is not last:
                add, last = kept.setdefault(names, []).append, names
            add(message)
            times.append(us)
        batch.least_us, batch.most_us = min(times, default=None), max(times, default=None)
        return batch

    def _transformed(self, message: Message) -> Message | None:
        if self._transformer is None:
            return message
        changed = self._transformer.transform(message)
        if changed is not None and changed.offset != message.offset:
            raise Terminal(
                "a transformer changed the offset of a message",
                transformer=type(self._transformer).__qualname__,
                offset=message.offset,
                got=changed.offset,
                fix="Return message._replace(value=…), or None to filter it.",
            )
        return changed

    def _placed(self, message: Message) -> _Placed | None:
        """Names and event time of a message, None when it is filtered."""
        us: int | None = None
        if message.value is None:
            if self._tombstones == "refuse":
                raise invalid("a tombstone has no content to parse", "tombstone")
            if self._tombstones == "drop":
                return None
            values = self._nothing
            if self._clock is not None:
                us = self._kafka_clock(None, message.timestamp_ms)
        else:
            values = self._read(message.value)
            if any(test(values[place]) for place, test in self._drop):
                return None
            if not all(test(values[place]) for place, test in self._keep):
                return None
            if self._clock is not None:
                value = None if self._time_place is None else values[self._time_place]
                us = self._clock(value, message.timestamp_ms)
        parts = tuple(name(values, us or 0, message.offset) for name in self._names)
        return (parts[0] if len(parts) == 1 else self._path(parts)), us

    def _path(self, parts: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        names = self._paths.get(parts)
        if names is None:
            names = tuple(name for part in parts for name in part)
            check_names(names)
            if len(self._paths) >= _REMEMBERED:
                self._paths.clear()
            self._paths[parts] = names
        return names


def _name(rule: NameRule, places: dict[WantedValue, int]) -> _Name:
    """One rule as a function of (values, event time, offset)."""
    if isinstance(rule, ContentName):
        place, by_content = places[WantedValue(rule.field)], content_names(rule)
        return lambda values, _us, _offset: by_content(values[place])
    if isinstance(rule, OffsetName):
        step = rule.step
        return lambda _values, _us, offset: (offset_name(offset, step),)
    by_time = time_names(rule)
    return lambda _values, us, _offset: by_time(us)
