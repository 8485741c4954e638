"""A record as a person or a program is shown it: one line, or one JSON object. Null is never the same as empty."""

from __future__ import annotations

import base64
from typing import Any, Final

from include.clock import iso
from include.lake.inspect.locate import refusal
from include.lake.message import Message
from include.lake.parsing.event_time import LEAST_US, MOST_US

__all__ = ["record_json", "record_line"]

RecordHeaders = tuple[tuple[str, bytes | None], ...]

_UTF8: Final = ("utf-8", "surrogateescape")
_KINDS: Final = ("none", "create", "append")
# Control characters, so that a record is one line; DEL and C1, as terminals obey them.
_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    9: "\\t",
    10: "\\n",
    13: "\\r",
}


def record_json(message: Message, index: int, *, refused: bool = False) -> dict[str, Any]:
    """All of a record; bytes that are no UTF-8 as `{"base64": …}`. `index` is its place in the object, from 0.

    What the format does not keep is null. `refused`: it is from a quarantine object, which says why.
    """
    timed = message.timestamp_ms != -1
    headers, why = _headers(message, refused=refused)
    return {
        "index": index,
        "offset": message.offset if message.offset >= 0 else None,
        "timestamp": _when(message),
        "timestamp_ms": message.timestamp_ms if timed else None,
        "timestamp_type": _KINDS[message.timestamp_type],
        "key": _text(message.key),
        "value": _text(message.value),
        "headers": [[_text(name.encode(*_UTF8)), _text(held)] for name, held in headers],
        **({"refused": why} if refused else {}),
    }


def record_line(message: Message, index: int, *, refused: bool = False) -> str:
    """Index, offset, time, key and value of a record; headers and why it was refused behind them."""
    headers, why = _headers(message, refused=refused)
    parts = [
        str(index),
        str(message.offset) if message.offset >= 0 else "-",
        _when(message) or (str(message.timestamp_ms) if message.timestamp_ms != -1 else "-"),
        _plain(message.key),
        _plain(message.value),
    ]
    shown = [f"{_plain(name.encode(*_UTF8)) if name else ''}={_plain(held)}" for name, held in headers]
    parts += [f"headers: {', '.join(shown)}"] if shown else []
    parts += [f"refused: {why.translate(_ESCAPES)}"] if refused else []
    return "  ".join(parts)


def _when(message: Message) -> str | None:
    """None where it has no timestamp, or one that is in no year that there is: producers write what they like."""
    if message.timestamp_ms == -1 or not LEAST_US <= message.timestamp_ms * 1000 < MOST_US:
        return None
    return iso(message.timestamp_ms * 1000)


def _headers(message: Message, *, refused: bool) -> tuple[RecordHeaders, str]:
    """Those that it came with, and why it was refused."""
    why = refusal(message) if refused else ""
    return (message.headers[:-1], why) if why else (message.headers, "")


def _text(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _plain(data: bytes | None) -> str:
    if not data:
        return "(null)" if data is None else "(empty)"
    try:
        return data.decode().translate(_ESCAPES)
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
