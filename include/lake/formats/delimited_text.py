r"""Delimited text: each message's value and a `\n`; keys, headers, offsets and timestamps are not kept.

What a line cannot hold is either set aside (`embedded: quarantine`: a null value, a line break inside) or written in
an escaped form that reads back to the same bytes (`embedded: escape`): null is `\N`, a backslash is `\\`, a line feed
`\n`, a carriage return `\r`, nothing else is escaped. Spark, Hive and Hadoop end a line at a carriage return too, so
one counts as a line break unless `breaks: lf` says that all readers split at line feeds alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from pydantic import Field
from typing_extensions import override

from include.errors import Terminal
from include.lake.formats.compressed_file import Compression
from include.lake.formats.line_format import LineFormat
from include.lake.message import Message
from include.settings.deployment import Strict

__all__ = ["DelimitedText", "DelimitedTextOptions"]

_NULL: Final = b"\\N"
_UNESCAPES: Final = {b"\\\\": b"\\", b"\\n": b"\n", b"\\r": b"\r"}
_ESCAPED: Final = re.compile(rb"\\.?", re.DOTALL)


class DelimitedTextOptions(Strict):
    """The format as a deployment declares it."""

    embedded: Literal["quarantine", "escape"] = "quarantine"
    """What becomes of a message with a line break in it: set aside, or written with escapes."""
    breaks: Literal["any", "lf"] = "any"
    """What counts as a line break: LF and CR, or LF alone."""
    compression: Compression = Field(default_factory=Compression)
    """Of the whole file."""


class DelimitedText(LineFormat):
    """The format."""

    suffix = ".txt"

    def __init__(self, options: DelimitedTextOptions) -> None:
        super().__init__(options.compression)
        self.options = options
        self._escape, self._carriage = options.embedded == "escape", options.breaks == "any"

    def refuses(self, message: Message) -> str:
        """Null values and line breaks, unless they are escaped."""
        value = message.value
        if self._escape:
            return ""
        if value is None:
            return "null value in delimited text"
        if b"\n" in value or (self._carriage and b"\r" in value):
            return "line break in delimited text"
        return ""

    @override
    def lines(self, messages: Sequence[Message]) -> bytes:
        values = [message.value for message in messages]
        if self._escape:
            values = [self._escaped(value) for value in values]
        values.append(b"")
        try:
            text = b"\n".join(values)  # type: ignore[arg-type]
        except TypeError as error:
            raise _unchecked() from error
        if text.count(b"\n") != len(messages) or (self._carriage and b"\r" in text):
            raise _unchecked()
        return text

    @override
    def message(self, line: bytes, number: int) -> Message:
        """The value alone, without an offset (-1)."""
        return Message(-1, None, _unescaped(line, number) if self._escape and b"\\" in line else line)

    def _escaped(self, value: bytes | None) -> bytes:
        if value is None:
            return _NULL
        # Backslashes first: those of the other escapes are not to be doubled.
        if b"\\" in value:
            value = value.replace(b"\\", b"\\\\")
        if b"\n" in value:
            value = value.replace(b"\n", b"\\n")
        return value.replace(b"\r", b"\\r") if self._carriage and b"\r" in value else value


def _unescaped(line: bytes, number: int) -> bytes | None:
    if line == _NULL:
        return None
    try:
        return _ESCAPED.sub(lambda found: _UNESCAPES[found[0]], line)
    except KeyError as error:
        raise Terminal(
            "no such escape in delimited text",
            line=number,
            escape=error.args[0],
            fix="Read it with `embedded: quarantine` if it was written so.",
        ) from error


def _unchecked() -> Terminal:
    return Terminal(
        "a message that a line cannot hold came to the writer",
        fix="Ask `refuses` of each message first, with the same options.",
    )
