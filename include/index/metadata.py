"""Writes the metadata that stands beside every document's body and says where it came from (design.md §4).

A living document's has the digest of its state too (`digest`); a soft-delete tombstone's has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

from include.index.digest import bucket, limbs, state_hash

__all__ = ["FIELDS", "LIVING", "NOT_SEARCHED", "Metadata", "TopicOrigin", "metadata_mapping"]

FIELDS: Final[dict[str, str]] = {
    "cluster_name": "keyword",
    "cluster_type": "keyword",
    "topic": "keyword",
    "partition": "integer",
    "offset": "long",
    "doc_id": "keyword",
    "version": "long",
    "generation": "integer",
    "deleted": "boolean",
    "d0": "long",
    "d1": "long",
    "s0": "integer",
    "s1": "integer",
}
"""Each metadata field and the type that an index must have for it."""
LIVING: dict[str, Any] = {"term": {"metadata.deleted": False}}
"""The alias's filter: readers never see soft-delete tombstones."""
NOT_SEARCHED: Final = frozenset({"d1", "s0", "s1"})
"""Those that are only added up: their doc values do, an index for searches would be waste."""


def metadata_mapping() -> dict[str, Any]:
    """The mapping of `metadata`: all fields, those that are only added up without an index for searches."""
    return {
        "properties": {
            name: {"type": kind, "index": False} if name in NOT_SEARCHED else {"type": kind}
            for name, kind in FIELDS.items()
        }
    }


@dataclass(frozen=True, slots=True)
class TopicOrigin:
    """What all records of one topic share. `generation` counts how often the topic was made anew, from 1."""

    cluster_name: str
    cluster_type: str
    topic: str
    generation: int

    @property
    def cluster(self) -> str:
        """`<name>/<type>`."""
        return f"{self.cluster_name}/{self.cluster_type}"


class Metadata:
    """Writes the `metadata` object of documents of one origin as JSON."""

    def __init__(self, origin: TopicOrigin) -> None:
        same = {"cluster_name": origin.cluster_name, "cluster_type": origin.cluster_type, "topic": origin.topic}
        self.shared = orjson.dumps({**same, "generation": origin.generation})[:-1]
        """The beginning of the object, which is the same in all of them."""
        head = self.shared.replace(b"%", b"%%")
        # One formatting for each document: a dictionary and its serialisation cost five times as much.
        head += b',"partition":%d,"offset":%d,"doc_id":%b,"version":%d,"deleted":'
        self._living = head + b'false,"d0":%d,"d1":%d,"s0":%d,"s1":%d}'
        self._deleted = head + b"true}"

    def living(self, partition: int, offset: int, doc_id: str, version: int, body: bytes) -> bytes:
        """Of a document whose `body` is canonical JSON."""
        state = state_hash(doc_id, version, body)
        d0, d1 = limbs(state)
        said = (partition, offset, orjson.dumps(doc_id), version, d0, d1, bucket(state, 0), bucket(state, 1))
        return self._living % said

    def deleted(self, partition: int, offset: int, doc_id: str, version: int) -> bytes:
        """Of a soft-delete tombstone."""
        return self._deleted % (partition, offset, orjson.dumps(doc_id), version)
