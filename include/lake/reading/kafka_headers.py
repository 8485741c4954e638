"""Headers of a message that Kafka's client does not hand out whole: it takes names for UTF-8, and they need not be.

The client then raises, though not the name's own error alone, and keeps the list of headers, in which such names are
missing (null in C: to touch one ends the process). The bytes of the first one are in the error; those of others are
nowhere.
"""

from __future__ import annotations

import gc
from typing import Any

from include.errors import Terminal

__all__ = ["headers_with_raw_name"]


def headers_with_raw_name(message: Any, raised: SystemError) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of a message whose `headers()` has `raised`; bytes that are not UTF-8 become lone surrogates.

    Raises:
        Terminal: more than one name is not UTF-8.
        SystemError: `raised` is about something else.
    """
    cause: BaseException = raised
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if not isinstance(cause, UnicodeDecodeError):
        raise raised
    pairs = message.headers()
    # A tuple tells its members to the garbage collector, but none that is missing.
    named = [len(gc.get_referents(pair)) == 2 for pair in pairs]
    if named.count(False) != 1:
        raise Terminal(
            "a record has several header names that are not UTF-8, and Kafka's client gives only one of them",
            topic=message.topic(),
            partition=message.partition(),
            offset=message.offset(),
            names=named.count(False),
            fix="Copy it with another client if it is needed, remove the partition's records up to it "
            "(kafka-delete-records.sh) or exclude the topic, and start the group again.",
        )
    name = cause.object.decode("utf-8", "surrogateescape")
    return tuple((pair[0] if there else name, pair[1]) for pair, there in zip(pairs, named, strict=True))
