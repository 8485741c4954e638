"""One document by its id, as fresh as the index has acknowledged it: also before a refresh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from include.index.server.port import SearchIndex

__all__ = ["FoundDocument", "find_one"]


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A living document: its body and where it came from."""

    doc_id: str
    version: int
    body: Mapping[str, Any]
    metadata: Mapping[str, Any]


def find_one(index: SearchIndex, alias: str, entity: str, doc_id: str) -> FoundDocument | None:
    """The document, or None when there is none or it was deleted.

    A realtime read finds soft-delete tombstones through the alias too, so they are told apart here. Raises
    `Terminal` when nothing stands behind the alias and `Transient` when the server does not answer.
    """
    found = index.get(alias, doc_id)
    if found is None or found.deleted:
        return None
    return FoundDocument(doc_id, found.version, found.source[entity], found.source["metadata"])
