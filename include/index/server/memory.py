"""The port in memory, for tests: versions, realtime reads, refreshes and refusals as the real server has them.

Of mappings it knows `dynamic: strict` and the types that Lyrebird's own mappings use. `answers` scripts faults:
each bulk takes the next one from it, and None lets the request through.
"""

from __future__ import annotations

import copy
import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from include.errors import Terminal
from include.index.server.port import BulkAnswer, IndexedDocument, IndexInfo, IndexNote, ItemAnswer, SearchIndex

__all__ = ["MemoryIndex"]


class MemoryIndex(SearchIndex):
    """A server with indexes in this process."""

    def __init__(self) -> None:
        self.answers: deque[BulkAnswer | None] = deque()
        self.requests = 0
        self._infos: dict[str, IndexInfo] = {}
        self._documents: dict[str, dict[str, IndexedDocument]] = {}
        self._visible: dict[str, dict[str, IndexedDocument]] = {}
        self._notes: dict[tuple[str, str], IndexNote] = {}
        self._sequence = 0
        self._written: dict[str, dict[str, int]] = {}
        self._made = 0

    @override
    def describe(self, name: str) -> IndexInfo | None:
        for info in self._infos.values():
            if name == info.name or name in info.aliases:
                return info
        return None

    @override
    def create(self, name: str, body: Mapping[str, Any]) -> IndexInfo:
        if name not in self._infos:
            self._made += 1
            mapping, aliases = copy.deepcopy(body.get("mappings", {})), copy.deepcopy(body.get("aliases", {}))
            self._infos[name] = IndexInfo(name, f"uuid-{self._made}", mapping, aliases)
            self._documents[name], self._visible[name], self._written[name] = {}, {}, {}
        return self._infos[name]

    def drop(self, name: str) -> None:
        """Lose an index, as an operator's mistake would."""
        del self._infos[name], self._documents[name], self._visible[name]

    @override
    def bulk(self, name: str, lines: bytes) -> BulkAnswer:
        self.requests += 1
        scripted = self.answers.popleft() if self.answers else None
        if scripted is not None:
            return scripted
        rows = lines.split(b"\n")
        if rows.pop() != b"":
            return BulkAnswer(400, type="illegal_argument_exception", reason="no final newline")
        given: list[tuple[dict[str, Any], bytes | None]] = []
        left = iter(rows)
        for row in left:
            [(kind, action)] = json.loads(row).items()
            given.append((action, next(left) if kind == "index" else None))
        if any(not 1 <= len(a["_id"].encode()) <= 512 or not 0 <= a["version"] < 1 << 63 for a, _ in given):
            return BulkAnswer(400, type="action_request_validation_exception", reason="Validation Failed")
        return BulkAnswer(200, [self._index(name, action, body) for action, body in given])

    @override
    def get(self, name: str, doc_id: str, routing: str | None = None) -> IndexedDocument | None:
        return self._of(name).get(_place(doc_id, routing))

    @override
    def get_many(self, name: str, doc_ids: Sequence[str]) -> dict[str, IndexedDocument]:
        self.requests += 1
        found = self._of(name)
        return {
            i: IndexedDocument(i, found[i].version, {"metadata": found[i].source.get("metadata", {})})
            for i in doc_ids
            if i in found
        }

    @override
    def refresh(self, name: str) -> None:
        self._visible[self._concrete(name)] = dict(self._of(name))

    def visible(self, name: str) -> dict[str, IndexedDocument]:
        """What a search sees: the state at the last refresh, tombstones included."""
        return self._visible[self._concrete(name)]

    def sequence_numbers(self, name: str) -> dict[str, int]:
        """The number of each document's last write, counted over all writes; its one shard's `_seq_no`."""
        return self._written[self._concrete(name)]

    @override
    def living_below(self, name: str, topic: str, version: int, most: int) -> list[IndexedDocument]:
        return [
            found
            for found in self._of_topic(name, topic)
            if not found.deleted and found.source["metadata"]["version"] < version
        ][:most]

    @override
    def tombstones(
        self, name: str, topic: str, partition: int, below: int, after: tuple[int, str], most: int
    ) -> list[IndexedDocument]:

        def place(document: IndexedDocument) -> tuple[int, str]:
            metadata = document.source["metadata"]
            return metadata["offset"], metadata["doc_id"]

        matching = [
            each
            for each in self._of_topic(name, topic)
            if each.deleted and each.source["metadata"]["partition"] == partition and after < place(each) < (below, "")
        ]
        return sorted(matching, key=place)[:most]

    @override
    def copies(self, name: str, topic: str, doc_ids: Sequence[str]) -> list[IndexedDocument]:
        wanted = set(doc_ids)
        return [found for found in self._of_topic(name, topic) if found.source["metadata"]["doc_id"] in wanted]

    def remove(self, name: str, doc_id: str) -> None:
        """Delete a document behind everyone's back."""
        del self._of(name)[doc_id]

    @override
    def note(self, name: str, note_id: str) -> IndexNote | None:
        return self._notes.get((name, note_id))

    @override
    def write_note(
        self, name: str, note_id: str, source: Mapping[str, Any], last: IndexNote | None
    ) -> IndexNote | None:
        if name not in self._infos:
            raise Terminal("index does not exist", index=name)
        there = self._notes.get((name, note_id))
        if (there.seq_no if there else None) != (last.seq_no if last else None):
            return None
        self._sequence += 1
        written = IndexNote(json.loads(json.dumps(source)), self._sequence, 1)
        self._notes[name, note_id] = written
        return written

    @override
    def forget_notes(self, name: str, index: str) -> int:
        gone = [at for at, note in self._notes.items() if at[0] == name and note.source.get("index") == index]
        for at in gone:
            del self._notes[at]
        return len(gone)

    @override
    def close(self) -> None:
        pass

    def _of_topic(self, name: str, topic: str) -> list[IndexedDocument]:
        self.requests += 1
        visible = self.visible(name).values()
        return [
            IndexedDocument(found.doc_id, found.version, {"metadata": found.source["metadata"]}, found.routing)
            for found in visible
            if found.source.get("metadata", {}).get("topic") == topic
        ]

    def _concrete(self, name: str) -> str:
        info = self.describe(name)
        if info is None:
            raise Terminal("index does not exist", index=name, fix="Run `lyrebird index create`.")
        return info.name

    def _of(self, name: str) -> dict[str, IndexedDocument]:
        return self._documents[self._concrete(name)]

    def _index(self, name: str, action: Mapping[str, Any], body: bytes | None) -> ItemAnswer:
        if name not in self._infos:
            return ItemAnswer(404, "index_not_found_exception", f"no such index [{name}]")
        if body is None:
            return self._delete(name, action)
        try:
            source = json.loads(body)
        except ValueError as error:
            return ItemAnswer(400, "document_parsing_exception", str(error))
        refused = _refusal(self._infos[name].mapping, source)
        if refused is not None:
            return refused
        routing = action.get("routing")
        key = _place(action["_id"], routing)
        there = self._documents[name].get(key)
        # `external_gte` takes the same version again, which heals a document that was altered.
        least = action["version"] + (action.get("version_type") == "external_gte")
        if there is not None and there.version >= least:
            return ItemAnswer(409, "version_conflict_engine_exception", "version conflict")
        self._documents[name][key] = IndexedDocument(action["_id"], action["version"], source, routing)
        self._sequence += 1
        self._written[name][key] = self._sequence
        return ItemAnswer(200 if there else 201)

    def _delete(self, name: str, action: Mapping[str, Any]) -> ItemAnswer:
        key = _place(action["_id"], action.get("routing"))
        there = self._documents[name].get(key)
        if there is None:
            return ItemAnswer(404)
        if there.version >= action["version"] + (action.get("version_type") == "external_gte"):
            return ItemAnswer(409, "version_conflict_engine_exception", "version conflict")
        del self._documents[name][key]
        return ItemAnswer(200)


def _place(doc_id: str, routing: str | None) -> str:
    """A shard for each routing: an id lives once in each of them."""
    return doc_id if routing is None else f"{routing}\0{doc_id}"


def _refusal(mapping: Mapping[str, Any], source: Mapping[str, Any]) -> ItemAnswer | None:
    fields = mapping.get("properties", {})
    for name, value in source.items():
        if name not in fields:
            if mapping.get("dynamic") == "strict":
                return ItemAnswer(400, "strict_dynamic_mapping_exception", f"introduction of [{name}] is not allowed")
            continue
        field = fields[name]
        kind = field.get("type", "object")
        for part in value if isinstance(value, list) else [value]:
            if not _takes(kind, part):
                return ItemAnswer(400, "document_parsing_exception", f"failed to parse field [{name}] of type [{kind}]")
            if kind in ("object", "nested") and part is not None:
                deeper = _refusal({"dynamic": mapping.get("dynamic"), **field}, part)
                if deeper is not None:
                    return deeper
    return None


def _takes(kind: str, value: Any) -> bool:
    if value is None:
        return True
    if kind in ("object", "nested", "geo_point"):
        return isinstance(value, dict)
    if isinstance(value, dict):
        return False
    if kind == "boolean":
        return isinstance(value, bool) or value in ("true", "false", "")
    if kind in ("integer", "long", "double", "float"):
        if isinstance(value, bool):
            return False
        try:
            float(value)
        except ValueError:
            return False
        return True
    if kind in ("date", "date_nanos"):
        return isinstance(value, int) or (isinstance(value, str) and value[:4].isdigit())
    return True
