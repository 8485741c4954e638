"""What stands beside the body in every document, so that any document says where it came from (design.md §4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from include.index.identity import Identity
from include.log.ports import Record

__all__ = ["FIELDS", "Origin"]

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
}
"""Each metadata field and the type that an index must have for it."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What all records of one topic share. `generation` counts how often the topic was made anew, from 1."""

    cluster_name: str
    cluster_type: str
    topic: str
    generation: int

    def metadata(self, record: Record, identity: Identity) -> dict[str, Any]:
        """The `metadata` object of the document that `record` makes; a tombstone makes a deleted one."""
        return {
            "cluster_name": self.cluster_name,
            "cluster_type": self.cluster_type,
            "topic": self.topic,
            "partition": record.partition,
            "offset": record.offset,
            "doc_id": identity.doc_id,
            "version": identity.version,
            "generation": self.generation,
            "deleted": record.value is None,
        }
