r"""JSON lines: messages whole or their payloads alone, one a line.

`content: message` keeps all of a message:
`{"offset":5,"timestamp_ms":1700000000000,"timestamp_type":1,"key":"k","value":"…","headers":[["name","…"]]}`

Keys, values and header values that are UTF-8 stand as texts, others as `{"base64":"…"}`, null as `null`, a timestamp
that the record does not have as `null`. `content: payload` writes the value alone, which has to be JSON: line breaks
between its tokens become spaces, all else stays byte for byte. Values that are no JSON, or null, are set aside.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final, Literal

import orjson
from pydantic import Field
from typing_extensions import override

from include.errors import Terminal
from include.lake.formats.compressed_file import Compression
from include.lake.formats.line_format import LineFormat
from include.lake.message import Message
from include.settings.deployment import Strict

__all__ = ["JsonLines", "JsonLinesOptions"]

_SPACES: Final = bytes.maketrans(b"\r\n", b"  ")


class JsonLinesOptions(Strict):
    """The format as a deployment declares it."""

    content: Literal["message", "payload"] = "message"
    """message: a line has key, value, headers and coordinates; payload: it is the message's own JSON."""
    compression: Compression = Field(default_factory=Compression)
    """Of the whole file."""


class JsonLines(LineFormat):
    """The format. Versions are those of the compression: orjson writes texts and integers in JSON's one way."""

    suffix = ".jsonl"

    def __init__(self, options: JsonLinesOptions) -> None:
        super().__init__(options.compression)
        self.options = options
        self._whole = options.content == "message"

    def refuses(self, message: Message) -> str:
        """`payload`: values that are not JSON. `message`: header names that are no UTF-8."""
        if self._whole:
            return "" if all(_is_text(name) for name, _ in message.headers) else "header name is not UTF-8"
        if message.value is None:
            return "null value in JSON lines"
        try:
            orjson.loads(message.value)
        except orjson.JSONDecodeError as error:
            return f"value is not JSON: {error}"
        return ""

    @override
    def lines(self, messages: Sequence[Message]) -> bytes | bytearray:
        return _whole_lines(messages) if self._whole else _payload_lines(messages)

    @override
    def message(self, line: bytes, number: int) -> Message:
        """Of payloads the value alone, without an offset (-1)."""
        return _message(line, number) if self._whole else Message(-1, None, line)


def _whole_lines(messages: Sequence[Message]) -> bytes | bytearray:
    dumps, option, text = orjson.dumps, orjson.OPT_APPEND_NEWLINE, _text
    # A bytearray that grows: to keep each line as an object until a join costs ten times as much as to make it.
    lines = bytearray()
    for offset, key, value, headers, at, kind in messages:
        lines += dumps(
            {
                "offset": offset,
                "timestamp_ms": None if at == -1 else at,
                "timestamp_type": kind,
                "key": None if key is None else text(key),
                "value": None if value is None else text(value),
                "headers": [(name, None if held is None else text(held)) for name, held in headers],
            },
            option=option,
        )
    return lines


def _payload_lines(messages: Sequence[Message]) -> bytes:
    values = [message.value for message in messages]
    values.append(b"")
    try:
        lines = b"\n".join(values)  # type: ignore[arg-type]
    except TypeError as error:
        raise Terminal(
            "a null value came to the writer", fix="Ask `refuses` of each message first, with the same options."
        ) from error
    if lines.count(b"\n") == len(messages) and b"\r" not in lines:
        return lines
    return b"\n".join([value.translate(_SPACES) for value in values if value is not None])


def _text(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _message(line: bytes, number: int) -> Message:
    try:
        read = orjson.loads(line)
        return Message(
            read["offset"],
            _bytes(read["key"]),
            _bytes(read["value"]),
            tuple((name, _bytes(held)) for name, held in read["headers"]),
            -1 if read["timestamp_ms"] is None else read["timestamp_ms"],
            read["timestamp_type"],
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError, binascii.Error) as error:
        raise Terminal(
            "line is not a message of ours",
            line=number,
            cause=repr(error),
            fix="Compare the object's sha256 with its commit: `lyrebird audit chain --deep`.",
        ) from error


def _bytes(text: Any) -> bytes | None:
    if text is None:
        return None
    return text.encode() if isinstance(text, str) else base64.b64decode(text["base64"], validate=True)
