"""Reads the bytes of keys as ids of documents, and those of values as bodies in canonical JSON.

Forms are those that a deployment file can name. In the registry's wire format
(0x00, schema id, value) a schema is Avro's or JSON Schema's; the registry says which, record by record, as writers
may change. JSON's own numbers pass where a double holds all their digits, and are refused where it does not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal, Protocol

import orjson

from include.errors import InvalidRecord
from include.record.codec import Decoder
from include.record.json.avro import AvroKeys as RecordKeys
from include.record.json.avro import Bodies, Changes
from include.record.json.body import canonical
from include.record.key import doc_id

__all__ = ["FormatSchemas", "KeyForm", "Keys", "ValueForm", "Values", "parsed"]

KeyForm = Literal["schema", "text", "none"]
"""schema: in the wire format of the registry. text: UTF-8 as it is. none: records have no key, each is a document of
its own under a computed id."""
ValueForm = Literal["plain", "change"]
"""plain: the value is the body. change: a change envelope, whose newer image is the body."""

_HEAD: Final = 5
_SAFE_DIGITS: Final = 15
_WHOLE_DIGITS: Final = 18

_Reader = Callable[[bytes], Any]


class FormatSchemas(Protocol):
    """The part of a schema registry by which bytes are read."""

    def schema(self, schema_id: int) -> Mapping[str, Any]:
        """A schema by its id."""

    def language(self, schema_id: int) -> str:
        """The language that a schema is written in: `AVRO` or `JSON`."""


class _BySchema:
    """Readers by the five bytes in front of a value, each chosen once."""

    def __init__(self, choose: Callable[[int], _Reader]) -> None:
        self._choose = choose
        self._chosen: dict[bytes, _Reader] = {}

    def __call__(self, data: bytes) -> Any:
        head = data[:_HEAD]
        reader = self._chosen.get(head)
        if reader is None:
            if len(head) < _HEAD or head[0]:
                raise InvalidRecord("value is not in the Confluent wire format", reason="magic", head=data[:8].hex())
            reader = self._chosen[head] = self._choose(int.from_bytes(head[1:], "big"))
        return reader(data)


class Keys:
    """`keys(key)` is a document's id (`metadata.doc_id`)."""

    def __init__(self, registry: FormatSchemas, form: KeyForm) -> None:
        self._registry = registry
        self._records = RecordKeys(registry.schema)
        self._decode = Decoder(registry.schema)
        self._read: Callable[[bytes], str] = _text_id if form == "text" else _BySchema(self._choose)

    def __call__(self, key: bytes | None) -> str:
        """The id; raises `InvalidRecord` for no key or bytes not of its form, and what the registry raises."""
        if key is None:
            raise InvalidRecord("record of a keyed topic has no key", reason="key")
        return self._read(key)

    def _choose(self, schema_id: int) -> _Reader:
        if self._registry.language(schema_id) == "JSON":
            return lambda data: _id(parsed(data[_HEAD:]))
        if self._registry.schema(schema_id).get("type") == "record":
            return self._records
        return lambda data: _id(self._decode(data))


class Values:
    """`values(value)` is a document's body as canonical JSON, or None where the record deletes the document."""

    def __init__(self, registry: FormatSchemas, form: ValueForm) -> None:
        changes = Changes(registry.schema)
        avro: _Reader = (lambda data: _image(*changes(data)[:2])) if form == "change" else Bodies(registry.schema)
        image = _parsed_image if form == "change" else canonical

        def choose(schema_id: int) -> _Reader:
            return (lambda data: image(parsed(data[_HEAD:]))) if registry.language(schema_id) == "JSON" else avro

        self._read = _BySchema(choose)

    def __call__(self, value: bytes | None) -> bytes | None:
        """The body; raises `InvalidRecord`, and what the registry raises."""
        if value is None:
            return None
        body: bytes | None = self._read(value)
        return body


def _text_id(key: bytes) -> str:
    try:
        return doc_id({"": key.decode()})
    except UnicodeDecodeError as error:
        raise InvalidRecord("key is not UTF-8", reason=error.reason, head=key[:8].hex()) from error


def _id(fields: Any) -> str:
    if isinstance(fields, list) or fields is None or fields == {}:
        raise InvalidRecord("key is neither a record of fields nor a single value", reason="key", got=repr(fields)[:80])
    return doc_id(fields if isinstance(fields, dict) else {"": fields})


def _image(op: str, after: bytes | None) -> bytes | None:
    """The newer image of a change; None of a delete."""
    if op == "d":
        return None
    if op not in ("c", "u", "r") or after is None:
        raise InvalidRecord("change has no newer image", reason=f"op {op!r}", allowed="c, u, r, d")
    return after


def _parsed_image(envelope: Any) -> bytes | None:
    if not isinstance(envelope, dict) or not isinstance(envelope.get("op"), str):
        raise InvalidRecord("value is not a change envelope", reason="envelope", got=type(envelope).__name__)
    after = envelope.get("after")
    return _image(envelope["op"], None if after is None else canonical(after))


def parsed(text: bytes) -> Any:
    """JSON, with every number as exact as it was written; raises `InvalidRecord`."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidRecord("value is not JSON", reason=str(error)) from error
    if _may_lose_digits(text):
        # Slower, and asked for by few: integers beyond 64 bits and long decimal numbers are doubles by now.
        json.loads(text, parse_float=_exact, parse_int=_exact)
    return value


def _may_lose_digits(text: bytes) -> bool:
    if b"0" * (_SAFE_DIGITS + 1) not in text.translate(_DIGITS):
        return False
    # Whole numbers are exact up to 64 bits: times in microseconds are that.
    numbers = [each for each in text.translate(_NUMBERS).split() if len(each) > _SAFE_DIGITS]
    return any(len(each) > _WHOLE_DIGITS or not each.isdigit() for each in numbers)


_DIGITS: Final = bytes(0x30 if 0x30 <= b <= 0x39 or b == 0x2E else 0x20 for b in range(256))
_NUMBERS: Final = bytes(b if 0x30 <= b <= 0x39 or b in b".eE" else 0x20 for b in range(256))


def _exact(text: str) -> None:
    value = orjson.loads(text)
    if Decimal(text) != Decimal(repr(value)):
        raise InvalidRecord("number has more digits than a double holds", reason="number", value=text[:80])
