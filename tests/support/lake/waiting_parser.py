"""A parser that always has to wait for something: what it was given is tried again and again, and never stored."""

from __future__ import annotations

from include.errors import Transient
from include.lake.message import Message

__all__ = ["WaitingParser"]


class WaitingParser:
    """See `include.lake.parsing.port.Parser`."""

    version = "1"

    def parse(self, message: Message) -> None:
        raise Transient("the price list does not answer", system="prices", offset=message.offset)
