"""Schemas behind the ids of a backup's records, kept beside it, so that it can be read without a registry.

    <prefix>/_schemas/<schema id>.json     {schema_id, language, schema}, with all that it refers to

A cut's schemas are written before its intent: what is committed has them. The registry never holds a backup up: what it
does not answer, or does not know, is asked for again with the cuts that follow in the same process.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, get_args

import orjson
from typing_extensions import override

from include.clock import Clock
from include.errors import InvalidRecord, LyrebirdError, Terminal, Transient
from include.lake.protocol.runner import CutReader
from include.lake.protocol.steps import LocalCut, ReadRange
from include.lake.reading.log_ranges import LogRanges, MessageBatch
from include.lake.reading.schema_lookup import RegistryFront
from include.log.ports import SchemaLanguage, SchemaRegistry, UnknownSchema
from include.store.object_store import ObjectStore

__all__ = ["KeepingReader", "KeptRegistry", "SchemaKeeper", "SeenIds", "kept_ids", "kept_key"]

LOGGER: Final = logging.getLogger("lyrebird.lake")
_HEAD: Final = 5
_KEPT: Final = re.compile(r"([0-9]{1,10})\.json", re.ASCII)
_KEY: Final = attrgetter("key")
_VALUE: Final = attrgetter("value")
_ASK_AGAIN_S: Final = 60.0
# Of ids that the registry does not know; those of bytes that only look framed are many.
_OWED: Final = 1_000


def kept_key(prefix: str, schema_id: int) -> str:
    """Where a group keeps the schema of an id."""
    return f"{_folder(prefix)}{schema_id}.json"


def kept_ids(store: ObjectStore, prefix: str) -> set[int]:
    """Of which ids a group keeps schemas."""
    keys = (_KEPT.fullmatch(info.key.rpartition("/")[2]) for info in store.list(_folder(prefix)))
    return {int(found[1]) for found in keys if found}


def _folder(prefix: str) -> str:
    """What the keys of a group's schemas begin with."""
    return f"{prefix}/_schemas/"


class SeenIds(LogRanges):
    """`LogRanges` that notes the schema ids of what it reads: of keys and values in Confluent's framing."""

    def __init__(self, log: LogRanges) -> None:
        self._log = log
        self.heads: set[bytes] = set()

    @override
    def edges(self, topic: str, partition: int) -> tuple[int, int]:
        return self._log.edges(topic, partition)

    @override
    def topic_id(self, topic: str) -> str:
        return self._log.topic_id(topic)

    @override
    def batches(self, topic: str, partition: int, start: int, end: int) -> Iterator[MessageBatch]:
        for batch in self._log.batches(topic, partition, start, end):
            for field in (_VALUE, _KEY):
                self.heads |= {data[:_HEAD] for data in map(field, batch.messages) if data and not data[0]}
            yield batch

    @override
    def epoch_before(self, topic: str, partition: int, offset: int) -> int | None:
        return self._log.epoch_before(topic, partition, offset)


class SchemaKeeper:
    """Writes the schemas of one group, for all tasks of a process. Safe between threads."""

    def __init__(self, store: ObjectStore, prefix: str, registry: SchemaRegistry, clock: Clock) -> None:
        self._store, self._prefix, self._registry, self._clock = store, prefix, registry, clock
        self._lock = threading.Lock()
        self._kept: set[int] = set()
        self._owed: dict[int, float] = {}

    def keep(self, heads: set[bytes]) -> None:
        """Have a schema for each of these, and for those that are owed; raises what the store raises."""
        with self._lock:
            self._keep_all(heads, self._clock.monotonic_s())

    def _keep_all(self, heads: set[bytes], now_s: float) -> None:
        found = {int.from_bytes(head[1:], "big") for head in heads if len(head) == _HEAD} - self._kept
        due = {schema_id for schema_id, since_s in self._owed.items() if now_s - since_s >= _ASK_AGAIN_S}
        for schema_id in sorted((found - self._owed.keys()) | due):
            self._keep(schema_id, now_s)

    def _keep(self, schema_id: int, now_s: float) -> None:
        key = kept_key(self._prefix, schema_id)
        if self._store.head(key) is None:
            try:
                schema, language = self._registry.schema(schema_id), self._registry.language(schema_id)
            except LyrebirdError as error:
                if schema_id not in self._owed and not isinstance(error, InvalidRecord):
                    LOGGER.warning("the schema %d of %s is not kept yet: %s", schema_id, self._prefix, error)
                if schema_id not in self._owed and len(self._owed) >= _OWED:
                    self._owed.pop(next(iter(self._owed)))
                self._owed[schema_id] = now_s
                return
            self._store.put_if_absent(key, _body(schema_id, language, schema))
        self._kept.add(schema_id)
        self._owed.pop(schema_id, None)


class KeepingReader(CutReader):
    """`CutReader` that has the schemas of a cut kept before the cut is promised."""

    def __init__(self, inner: CutReader, seen: SeenIds, keeper: SchemaKeeper) -> None:
        self._inner, self._seen, self._keeper = inner, seen, keeper

    @override
    def read(self, wanted: ReadRange) -> LocalCut:
        cut = self._inner.read(wanted)
        self._keeper.keep(self._seen.heads)
        self._seen.heads.clear()
        return cut


class KeptRegistry(RegistryFront):
    """`SchemaRegistry` that answers from what backups keep where the registry lacks an id, or is not there at all."""

    def __init__(self, registry: SchemaRegistry | None, store: ObjectStore, prefixes: Sequence[str]) -> None:
        super().__init__(registry)
        self._store, self._prefixes = store, prefixes
        self._known: dict[int, tuple[SchemaLanguage, dict[str, Any]]] = {}

    @override
    def schema(self, schema_id: int) -> dict[str, Any]:
        return self._of(schema_id)[1]

    @override
    def language(self, schema_id: int) -> SchemaLanguage:
        return self._of(schema_id)[0]

    def _of(self, schema_id: int) -> tuple[SchemaLanguage, dict[str, Any]]:
        if schema_id not in self._known:
            refused: LyrebirdError = UnknownSchema(
                "no backup keeps a schema of this id", reason="schema id", schema_id=schema_id
            )
            if self._behind is not None:
                try:
                    self._known[schema_id] = self._registry.language(schema_id), self._registry.schema(schema_id)
                except (UnknownSchema, Transient) as error:
                    refused = error
            if schema_id not in self._known:
                found = next(filter(None, (self._kept(prefix, schema_id) for prefix in self._prefixes)), None)
                if found is None:
                    raise refused
                self._known[schema_id] = found
        return self._known[schema_id]

    def _kept(self, prefix: str, schema_id: int) -> tuple[SchemaLanguage, dict[str, Any]] | None:
        key = kept_key(prefix, schema_id)
        found = self._store.get(key)
        if found is None:
            return None
        try:
            value = orjson.loads(found.body)
            language = next(each for each in get_args(SchemaLanguage) if each == value["language"])
            return language, dict(value["schema"])
        except (KeyError, TypeError, ValueError, StopIteration) as error:
            raise Terminal("a kept schema cannot be read", key=key, reason=repr(error), fix="Remove it.") from error


def _body(schema_id: int, language: SchemaLanguage, schema: Mapping[str, Any]) -> bytes:
    value = {"schema_id": schema_id, "language": language, "schema": schema}
    return orjson.dumps(value, option=orjson.OPT_INDENT_2)
