"""Keys: which partition they go to, and how they read as a document's id.

`partition_of` is murmur2 as Kafka's Java client computes it (librdkafka's default differs), seed 0x9747b28c:
https://github.com/apache/kafka, `org.apache.kafka.common.utils.Utils.murmur2`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from include.record.native import WHY_NOT

__all__ = ["doc_id", "murmur2", "partition_of", "pseudo_key"]

_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_LONGEST_ID: Final = 512


def _murmur2(data: bytes) -> int:
    """32-bit murmur2 of `data`, unsigned."""
    length = len(data)
    h = 0x9747B28C ^ length
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


if WHY_NOT:
    murmur2 = _murmur2
else:
    from include.record.native._avro import murmur2


def partition_of(key: bytes, partitions: int) -> int:
    """The partition that the Java client's default partitioner picks for `key`. Picks buckets of states, too."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def doc_id(key: Mapping[str, Any]) -> str:
    """The key as text: its one field's text, or several as a JSON array in key order; long ones as `sha256:` and hex.

    "Long" is over 512 bytes of UTF-8, which Elasticsearch refuses as an `_id`.
    """
    values = list(key.values())
    text = (
        _text(values[0])
        if len(values) == 1
        else json.dumps(
            [v if isinstance(v, bool | int | float | str) or v is None else _text(v) for v in values],
            ensure_ascii=False,
            separators=(",", ":"),
        )
    )
    if len(text.encode()) <= _LONGEST_ID and text:
        return text
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def pseudo_key(cluster_name: str, cluster_type: str, topic: str, partition: int, offset: int) -> str:
    """An id for a record without a key: hex of a 128-bit hash over the length-prefixed parts."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (cluster_name, cluster_type, topic, str(partition), str(offset)):
        data = part.encode()
        digest.update(len(data).to_bytes(4, "big") + data)
    return digest.hexdigest()


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value)
