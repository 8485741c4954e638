"""The port to a search server's indexes as a whole: their mappings, settings, aliases, and lives.

`elasticsearch_admin` and `memory_admin` pass `tests/contract/test_index_admin.py`. Every call raises `Transient` when
the server does not answer or is full, `Terminal` when it refuses or the index is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from include.index.name import IndexName

__all__ = ["IndexAdmin", "StoredIndex"]


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """One generation as the server stores it. Documents are the living ones, as of the last refresh."""

    name: IndexName
    uuid: str
    created_ms: int
    documents: int
    size_bytes: int
    serving: bool


class IndexAdmin(Protocol):
    """Changes indexes of a server. No call waits for documents."""

    def put_mapping(self, name: str, mapping: Mapping[str, Any]) -> None:
        """Add fields to a mapping; `Terminal` with the server's reason when a field would change its type.

        `dynamic_templates` are put in the place of those that there are; without them those stay.
        """

    def auto_create(self) -> str | None:
        """The server's setting for indexes that a write would make; None where this account may not know."""

    def settings(self, name: str) -> dict[str, str]:
        """All settings that were given, by their flat names without `index.`: `refresh_interval`, ...."""

    def put_settings(self, name: str, settings: Mapping[str, Any]) -> None:
        """Change dynamic settings, by the same names; None sets a default back."""

    def generations(self, alias: str) -> list[StoredIndex]:
        """All indexes `<alias>-v<n>`, by number; none is an empty list. `serving` when the alias leads there."""

    def move_alias(self, alias: str, to: str, *, source: str | None) -> None:
        """Let `alias` lead from index `source` (None: from nowhere) to index `to`, hiding tombstones, in one stroke.

        Readers see the one or the other. `Terminal` when the alias leads elsewhere than `source`: nothing is changed,
        so of two calls with the same `source` one is refused.
        """

    def retire(self, alias: str, name: str, *, serving: str | None) -> None:
        """Delete index `name` in one stroke with proof that `alias` leads to `serving`; else `Terminal`, nothing done.

        So an index that a promotion has just chosen is never deleted under its readers. Where `alias` leads nowhere
        (None) that is looked up right before.
        """

    def delete(self, name: str) -> bool:
        """Delete an index, whoever reads it; False when there was none."""

    def count(self, name: str, query: Mapping[str, Any] | None = None) -> int:
        """Documents that match, as of the last refresh, tombstones included; `Transient` when a shard is missing."""
