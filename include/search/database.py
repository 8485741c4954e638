"""The same documents from the database: for readers whose write the index does not have yet, and while it is away.

Bodies are made by the assembler from one consistent snapshot and pass through Avro, so that they read as the indexed
ones. Always the primary is asked, as a replica may lack the very write that is looked for. Reads are capped, and so are
connections: beyond either a caller gets `BackPressure`.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from include.clock import Clock
from include.document.assembler import Assembler
from include.document.definition import DocumentDefinition
from include.document.reading.tables import Tables
from include.document.rebuild import parse_key
from include.document.schema import body_avro
from include.errors import BackPressure, InvalidRecord, SettingsError
from include.pace import TokenBucket
from include.record.codec import Decoder, Encoder
from include.record.json.body import plain
from include.record.key import doc_id as id_of
from include.record.position import SourcePosition
from include.record.schema import Column
from include.search.answer import Hit
from include.search.definition import SearchTarget

__all__ = ["DatabaseDocuments", "DatabaseRead", "PositionedTables"]

_WAIT_S = 0.5
_HASHED = "sha256:"
DocumentKey = tuple[Any, ...]


class PositionedTables(Protocol):
    """Tables whose server also says where it stands. Adapter: `database_mysql`."""

    def moment(self) -> AbstractContextManager[tuple[Tables, SourcePosition | None]]:
        """A consistent snapshot and a position that it holds whole; None when the server does not say."""

    def newest(self) -> SourcePosition | None:
        """Where the server stands: whatever was read before is below it. None when it does not say."""

    def columns(self, table: str) -> dict[str, Column]:
        """As `document.reading.tables.SourceTables` tells them."""

    def forget(self) -> None:
        """Types are asked for anew at the next need."""

    def close(self) -> None:
        """Give up the connection."""


@dataclass(frozen=True, slots=True)
class DatabaseRead:
    """What the database says: documents by id; None: there is none.

    `unfinished`: ids of which there are rows, but none that makes a document now. `more`: the user has further
    entities, which were not read; `held`: those of them that were asked for. All is of one moment, not before
    `position`.
    """

    documents: Mapping[str, Hit | None]
    unfinished: frozenset[str]
    position: SourcePosition | None
    more: bool = False
    held: frozenset[str] = frozenset()


class DatabaseDocuments:
    """Safe to use from several threads: each read borrows one of a few connections."""

    def __init__(self, target: SearchTarget, connect: Callable[[], PositionedTables], clock: Clock) -> None:
        if target.document is None:
            fix = "Add `documents:` to its entry."
            raise SettingsError("the search does not say how documents are read", search=target.name, fix=fix)
        self._target = target
        self._document: DocumentDefinition = target.document
        self._assembler = Assembler(self._document)
        fresh = target.search.fresh
        self._cap = TokenBucket(fresh.reads_per_s, clock, burst_s=max(1.0, 1 / fresh.reads_per_s), full=True)
        self._recent = fresh.recent
        self._connect = connect
        # Parsed once for as long as the columns stay; several threads may do so at once, with the same outcome.
        empty: dict[str, Any] = {"type": "record", "name": "Nothing", "fields": []}
        self._codec = empty, Encoder(0, empty), Decoder(lambda _: empty)
        self._free: queue.LifoQueue[PositionedTables | None] = queue.LifoQueue()
        for _ in range(fresh.connections):
            self._free.put(None)

    def by_id(self, doc_id: str) -> DatabaseRead:
        """One document; an id that cannot be a key has none.

        Raises `InvalidRecord` for the id of a long key: it is a hash, from which nobody finds the key.
        """
        if doc_id.startswith(_HASHED):
            raise InvalidRecord("id of a long key cannot be asked of the database", reason="hash", doc_id=doc_id)
        with self._borrowed() as tables:
            key = self._key(tables, doc_id)
            if key is None:
                return DatabaseRead({doc_id: None}, frozenset(), None)
            with tables.moment() as (snapshot, position):
                documents, unfinished = self._assembled(tables, snapshot, [key])
        return DatabaseRead(documents, unfinished, position)

    def of_user(self, user: str | int, ids: Collection[str] = ()) -> DatabaseRead:
        """The user's documents that changed last, `recent` at most; of `ids` too whether the user has such entities."""
        column = str(self._document.fields[self._target.search.user])
        with self._borrowed() as tables:
            value = self._typed(tables, column, user)
            if value is None:
                return DatabaseRead({}, frozenset(), None)
            with tables.moment() as (snapshot, position):
                keys = self._newest(snapshot, column, value)
                documents, unfinished = self._assembled(tables, snapshot, keys[: self._recent])
                unread = [doc_id for doc_id in ids if doc_id not in documents and doc_id not in unfinished]
                held = self._held(tables, snapshot, column, value, unread)
        field = self._target.search.user
        # An entity may have passed to another user with its last change.
        own = {
            doc_id: hit if hit is not None and hit.body.get(field) == value else None
            for doc_id, hit in documents.items()
        }
        return DatabaseRead(own, unfinished, position, more=len(keys) > self._recent, held=held)

    def position(self) -> SourcePosition | None:
        """Where the database stands: whatever was answered before this call is below it. Does not count as a read."""
        with self._borrowed(capped=False) as tables:
            return tables.newest()

    def users(self, after: str | int | None, limit: int) -> list[str | int]:
        """The next users above `after` (None: the first) that have rows, ascending. Does not count as a read."""
        column = str(self._document.fields[self._target.search.user])
        with self._borrowed(capped=False) as tables, tables.moment() as (snapshot, _):
            start = None if after is None else (after,)
            return [key[0] for key in snapshot.keys_after(self._document.fact.table, [column], start, limit)]

    def close(self) -> None:
        """Give up the connections that nobody is using."""
        while True:
            try:
                tables = self._free.get_nowait()
            except queue.Empty:
                return
            if tables is not None:
                tables.close()

    @contextmanager
    def _borrowed(self, *, capped: bool = True) -> Iterator[PositionedTables]:
        if capped and not self._cap.try_take():
            raise BackPressure("reads of the database are capped", system="mysql", search=self._target.name)
        try:
            tables = self._free.get(timeout=_WAIT_S)
        except queue.Empty:
            raise BackPressure("all connections are taken", system="mysql", search=self._target.name) from None
        try:
            if tables is None:
                tables = self._connect()
            yield tables
        finally:
            self._free.put(tables)

    def _newest(self, snapshot: Tables, column: str, value: str | int) -> list[DocumentKey]:
        """Keys of the user's entities, the last changed first; one more than is read of them, if there is."""
        fact = self._document.fact
        limit = self._recent + 1
        while True:
            rows = snapshot.newest(fact.table, fact.key, [column], (value,), fact.newest_by, limit)
            keys = list(dict.fromkeys(tuple(row[name] for name in fact.key) for row in rows))
            if len(keys) > self._recent or len(rows) < limit:
                return keys[: self._recent + 1]
            # Entities have several rows each.
            limit *= 4

    def _held(
        self, tables: PositionedTables, snapshot: Tables, column: str, value: str | int, ids: Sequence[str]
    ) -> frozenset[str]:
        """Those of `ids` that the user has rows of."""
        if not ids:
            return frozenset()
        fact = self._document.fact
        match, values = [*fact.key, column], [(*key, value) for each in ids if (key := self._key(tables, each))]
        if any(each.startswith(_HASHED) for each in ids):
            # From the hash of a long key nobody finds the key, so all of the user's are hashed.
            match, values = [column], [(value,)]
        rows = snapshot.rows(fact.table, fact.key, match, values)
        return frozenset(self._id(tuple(row[name] for name in fact.key)) for row in rows).intersection(ids)

    def _assembled(
        self, tables: PositionedTables, snapshot: Tables, keys: list[DocumentKey]
    ) -> tuple[dict[str, Hit | None], frozenset[str]]:
        assembled = self._assembler.assemble(snapshot, keys)
        try:
            documents = self._shown(tables, assembled.documents)
        except InvalidRecord:
            # A column was altered since it was looked at.
            tables.forget()
            documents = self._shown(tables, assembled.documents)
        return documents, frozenset(
            self._id(key) for key in (*assembled.skipped, *assembled.incomplete, *assembled.failed)
        )

    def _shown(
        self, tables: PositionedTables, bodies: Mapping[DocumentKey, dict[str, Any] | None]
    ) -> dict[str, Hit | None]:
        """Bodies as they read after a way through Avro; raises `InvalidRecord` for one that does not fit."""
        schema = body_avro(self._target.search.documents or "", self._document, tables.columns)
        known, encode, decode = self._codec
        if schema != known:
            encode, decode = Encoder(0, schema), Decoder(lambda _: schema)
            self._codec = schema, encode, decode
        documents: dict[str, Hit | None] = {}
        for key, body in bodies.items():
            doc_id = self._id(key)
            documents[doc_id] = None if body is None else Hit(doc_id, None, plain(decode(encode(body))))
        return documents

    def _key(self, tables: PositionedTables, doc_id: str) -> DocumentKey | None:
        fact = self._document.fact
        columns = tables.columns(fact.table)
        try:
            return parse_key(doc_id, [columns[name].avro() in ("int", "long") for name in fact.key])
        except InvalidRecord:
            return None

    def _typed(self, tables: PositionedTables, column: str, value: str | int) -> str | int | None:
        if tables.columns(self._document.fact.table)[column].avro() not in ("int", "long"):
            return str(value)
        try:
            return int(value)
        except ValueError:
            return None

    def _id(self, key: DocumentKey) -> str:
        return id_of(dict(zip(self._document.fact.key, key, strict=True)))
