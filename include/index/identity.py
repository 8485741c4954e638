"""Derives from a record the document that it is, and which state of it: its id and its external version.

The id is the record's Avro key as text; the version is the header that the topic's only writer put there. Writes
may then arrive in any order and any number of times: the index keeps the greatest version.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from include.errors import InvalidRecord
from include.log.ports import Record
from include.record import key, version
from include.record.codec import Decoder

__all__ = ["DocumentIdentity", "identify", "index_id"]

_LONGEST_ID: Final = 512


@dataclass(frozen=True, slots=True)
class DocumentIdentity:
    """A document's id (1 to 512 bytes of UTF-8) and the version of its state."""

    doc_id: str
    version: int


def identify(record: Record, decode: Decoder) -> DocumentIdentity:
    """Id and version of `record`; raises `InvalidRecord` for a missing key or version, or a key that is no record."""
    if record.key is None:
        raise InvalidRecord("record of a keyed topic has no key", reason="key")
    fields = decode(record.key)
    if not isinstance(fields, dict) or not fields:
        raise InvalidRecord("key is not a record of fields", reason="key", got=type(fields).__name__)
    return DocumentIdentity(key.doc_id(fields), version.from_headers(record.headers))


def index_id(topic: str, doc_id: str) -> str:
    """`_id` in an index that several topics fill, so that equal keys of two topics are two documents."""
    name = f"{topic}/{doc_id}"
    if len(name.encode()) <= _LONGEST_ID:
        return name
    return f"{topic}/sha256:{hashlib.sha256(doc_id.encode()).hexdigest()}"
