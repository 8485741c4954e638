"""Definition of the port of a parser: it decides what is kept of each message, and under which partition names.

A parser answers for a message by its content and its configuration alone: no clock, no earlier message, no host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from include.errors import InvalidRecord
from include.lake.message import Message

__all__ = ["Batch", "Parsed", "Parser", "Transformer", "one_by_one"]


class Parsed(NamedTuple):
    """The answer of a parser for one message. `payload` None: a tombstone is kept as one."""

    payload: bytes | None
    names: tuple[str, ...]
    """Folders below the topic, outermost first, each one segment of a path."""
    event_us: int | None = None
    """When it happened, in microseconds since 1970 UTC; None where the parser looks at no time."""


@dataclass(slots=True)
class Batch:
    """Messages of one Kafka partition, sorted by where they go; kept + filtered + refused are all that came in."""

    kept: dict[tuple[str, ...], list[Message]] = field(default_factory=dict)
    """By partition names, in the order of offsets; `value` is the payload."""
    filtered: int = 0
    refused: list[tuple[Message, InvalidRecord]] = field(default_factory=list)
    least_us: int | None = None
    """Earliest event time among those kept."""
    most_us: int | None = None
    """Latest event time among those kept."""


class Parser(Protocol):
    """Parses the messages of a topic. Not for several threads at once: it remembers what messages have in common."""

    @property
    def version(self) -> str:
        """Raised whenever the same configuration gives other answers; a part of the configuration's hash."""

    def parse(self, message: Message) -> Parsed | None:
        """Parses the message; None when it is filtered, `InvalidRecord` when it cannot be understood."""

    def parse_all(self, messages: Sequence[Message]) -> Batch:
        """The same of each of them, faster; other errors than `InvalidRecord` end it."""


class Transformer(Protocol):
    """Changes messages before they are parsed; made with the options that the deployment file gives."""

    version: str

    def transform(self, message: Message) -> Message | None:
        """The message to parse, None to filter it; its offset stays. `InvalidRecord` when it cannot be understood."""


def one_by_one(parser: Parser, messages: Sequence[Message]) -> Batch:
    """`parse_all` by way of `parse`."""
    batch = Batch()
    times: list[int] = []
    for message in messages:
        try:
            parsed = parser.parse(message)
        except InvalidRecord as refused:
            batch.refused.append((message, refused))
            continue
        if parsed is None:
            batch.filtered += 1
            continue
        if parsed.payload is not message.value:
            message = message._replace(value=parsed.payload)
        batch.kept.setdefault(parsed.names, []).append(message)
        if parsed.event_us is not None:
            times.append(parsed.event_us)
    batch.least_us, batch.most_us = min(times, default=None), max(times, default=None)
    return batch
