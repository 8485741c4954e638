"""Reads the body of one event from front to end; any read beyond it is an event cut short, never something else."""

from __future__ import annotations

from typing import Final

from include.errors import Terminal
from include.source.binlog.event_type import SPOILT
from include.source.binlog.reader import Event

__all__ = ["BodyReader"]

_LONGER: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}


class BodyReader:
    """`data` defaults to the event's body; `event` names the place in errors."""

    __slots__ = ("at", "data", "event")

    def __init__(self, event: Event, data: bytes | None = None) -> None:
        self.event = event
        self.data = event.body if data is None else data
        self.at = 0

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return len(self.data) - self.at

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise self.cut()
        found = self.data[self.at : end]
        self.at = end
        return found

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(self.left)

    def integer(self, size: int) -> int:
        """An unsigned integer of `size` bytes, least significant first."""
        return int.from_bytes(self.take(size), "little")

    def lenenc(self) -> int:
        """A length-encoded integer of 1, 3, 4 or 9 bytes."""
        first = self.integer(1)
        if first < 0xFB:
            return first
        size = _LONGER.get(first)
        if size is None:
            raise self.cut("a length is malformed")
        return self.integer(size)

    def lenencs(self) -> list[int]:
        """Length-encoded integers up to the end."""
        found = []
        while self.left:
            found.append(self.lenenc())
        return found

    def varlen(self) -> int:
        """An unsigned integer of MySQL's serialization library: the first byte's trailing ones count the others."""
        first = self.integer(1)
        more = 0
        while first >> more & 1:
            more += 1
        rest = self.integer(more)
        return rest if more == 8 else (first >> more + 1) | rest << 7 - more

    def name(self) -> str:
        """A name of a table map: length u8, text, a zero byte."""
        text = self.take(self.integer(1))
        if self.take(1) != b"\0":
            raise self.cut("a name does not end")
        return text.decode("utf-8", "replace")

    def cut(self, cause: str = "it ends too early") -> Terminal:
        """What to raise for a body that is not as it should be."""
        event = self.event
        return Terminal(
            "binlog event is cut short or malformed",
            type=event.type.name,
            cause=cause,
            file=event.file,
            pos=event.log_pos,
            fix=SPOILT,
        )
