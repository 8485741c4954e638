"""Schemas behind the ids of a backup's records, kept beside it, so that it can be read without a registry.

    <prefix>/_schemas/<schema id>.json     {schema_id, language, schema}, with all that it refers to

A cut's schemas are written before its intent: what is committed has them. The registry never holds a backup up: what it
does not answer, or does not know, is asked for again with the cuts that follow in the same process.

Any bytes that begin with a zero look framed, and each record of a topic may have another id then. So in a minute a
process asks for so many ids of a topic in vain, and for so many of those that are owed, and no more. Registries number
schemas from 1 on, and random ids are great ones: the least is asked for first, and the least are those that are owed.
One that is asked for in vain again and again waits twice as long each time. One that does not answer is left for a
minute. What is owed is noted beside the schemas, `<id>.owed`: the process may end before the registry has it, and
records of that id may never come again. Such a note stays; it says nothing once the schema is there. Random ids are
not worth one: noted is what a registry may number soon, and a thousand at most.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple, get_args

import orjson
from typing_extensions import override

from include.clock import Clock
from include.errors import BackPressure, InvalidRecord, LyrebirdError, Terminal, Transient
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
_NOTED: Final = re.compile(r"([0-9]{1,10})\.owed", re.ASCII)
_KEY: Final = attrgetter("key")
_VALUE: Final = attrgetter("value")
_ASK_AGAIN_S: Final = 60.0
_LONGEST_S: Final = 86_400.0
# Of ids that the registry does not know; those of bytes that only look framed are many.
_OWED: Final = 10_000
_VAIN: Final = 50
_MOST_NOTED: Final = 1_000
# Beyond the greatest id that is kept.
_SOON: Final = 100_000
_MINUTE_S: Final = 60.0
_MOST_S: Final = 10.0


def kept_key(prefix: str, schema_id: int) -> str:
    """Where a group keeps the schema of an id."""
    return f"{_folder(prefix)}{schema_id}.json"


def kept_ids(store: ObjectStore, prefix: str) -> set[int]:
    """Of which ids a group keeps schemas."""
    return _listed(store, prefix)[0]


def _listed(store: ObjectStore, prefix: str) -> tuple[set[int], set[int]]:
    """Ids whose schemas are kept, and other ids that are noted as owed."""
    names = [info.key.rpartition("/")[2] for info in store.list(_folder(prefix))]
    kept, noted = ({int(found[1]) for name in names if (found := form.fullmatch(name))} for form in (_KEPT, _NOTED))
    return kept, noted - kept


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


@dataclass(slots=True)
class _Allowance:
    """How many ids may still be asked for in vain in the minute that began at `since_s`."""

    since_s: float
    left: int = _VAIN


class _OwedId(NamedTuple):
    """An id that is asked for again at `due_s`, and if that is in vain, twice `pause_s` later."""

    due_s: float
    pause_s: float = _ASK_AGAIN_S


class SchemaKeeper:
    """Writes the schemas of one group, for all tasks of a process. Safe between threads."""

    def __init__(self, store: ObjectStore, prefix: str, registry: SchemaRegistry, clock: Clock) -> None:
        self._store, self._prefix, self._registry, self._clock = store, prefix, registry, clock
        self._lock = threading.Lock()
        self._kept: set[int] | None = None
        self._owed: dict[int, _OwedId] = {}
        self._noted: set[int] = set()
        # By topic; None: of what is owed, whose ever it is.
        self._allowances: dict[str | None, _Allowance] = {}
        self._away_until_s = 0.0
        self._told: set[str] = set()
        self._vain = 0

    def keep(self, heads: set[bytes], topic: str = "") -> int:
        """Have a schema for each of these of a topic, and for those that are owed; raises what the store raises.

        Gives how many ids the registry was asked for and does not know. Takes some seconds at most, beside one answer
        of the registry: what is not asked for then is owed.
        """
        with self._lock:
            if self._kept is None:
                self._kept, noted = _listed(self._store, self._prefix)
                self._owed = dict.fromkeys(noted, _OwedId(-1.0))
                self._noted = noted
            before, now_s = self._vain, self._clock.monotonic_s()
            found = {int.from_bytes(head[1:], "big") for head in heads if len(head) == _HEAD}
            due = sorted(schema_id for schema_id, owed in self._owed.items() if owed.due_s <= now_s)
            self._ask_for(sorted(found - self._kept - self._owed.keys()), topic, now_s)
            self._ask_for(due, None, now_s)
            if len(self._owed) > _OWED:
                self._owed = dict(sorted(self._owed.items())[:_OWED])
            return self._vain - before

    def _ask_for(self, schema_ids: Sequence[int], topic: str | None, now_s: float) -> None:
        """Those of a topic, or that are owed, as far as they may be asked for now."""
        allowance = self._allowances.get(topic)
        if allowance is None or now_s - allowance.since_s >= _MINUTE_S:
            allowance = self._allowances[topic] = _Allowance(now_s)
        for at, schema_id in enumerate(schema_ids):
            at_s = self._clock.monotonic_s()
            if not allowance.left or at_s < self._away_until_s or at_s - now_s >= _MOST_S:
                self._owed = dict.fromkeys(schema_ids[at:], _OwedId(now_s + _ASK_AGAIN_S)) | self._owed
                self._note(schema_ids[at:])
                if not allowance.left and topic is not None and topic not in self._told:
                    self._told.add(topic)
                    LOGGER.warning(
                        "%s has many schema ids that the registry does not know: are its bytes framed? They are asked "
                        "for by and by",
                        topic,
                    )
                break
            if not self._keep(schema_id, at_s):
                allowance.left -= 1

    def _keep(self, schema_id: int, now_s: float) -> bool:
        """Whether the registry has it."""
        try:
            schema, language = self._registry.schema(schema_id), self._registry.language(schema_id)
        except LyrebirdError as error:
            owed = self._owed.get(schema_id)
            unknown, answered = isinstance(error, UnknownSchema), isinstance(error, InvalidRecord)
            self._vain += unknown
            if owed is None and not unknown:
                LOGGER.warning("the schema %d of %s is not kept yet: %s", schema_id, self._prefix, error)
            if isinstance(error, Transient | BackPressure):
                self._away_until_s = now_s + _ASK_AGAIN_S
            pause_s = min(2 * owed.pause_s, _LONGEST_S) if owed and answered else _ASK_AGAIN_S
            self._owed[schema_id] = _OwedId(now_s + pause_s, pause_s)
            if unknown or not answered:
                self._note([schema_id])
            # One that no format can use is no sign of bytes that only look framed.
            return answered and not unknown
        self._store.put_if_absent(kept_key(self._prefix, schema_id), _body(schema_id, language, schema))
        if self._kept is not None:
            self._kept.add(schema_id)
        self._owed.pop(schema_id, None)
        return True

    def _note(self, schema_ids: Sequence[int]) -> None:
        """For the next process, as the registry was not asked, has not answered, or does not know it yet."""
        soon = max(self._kept or (), default=0) + _SOON
        for schema_id in schema_ids:
            if schema_id > soon or len(self._noted) >= _MOST_NOTED:
                break
            if schema_id not in self._noted:
                self._store.put_if_absent(f"{_folder(self._prefix)}{schema_id}.owed", b"{}")
                self._noted.add(schema_id)


class KeepingReader(CutReader):
    """`CutReader` that has the schemas of a cut kept before the cut is promised.

    Attributes:
        vain: how many ids the registry was asked for and does not know.
    """

    def __init__(self, inner: CutReader, seen: SeenIds, keeper: SchemaKeeper, topic: str) -> None:
        self._inner, self._seen, self._keeper, self._topic = inner, seen, keeper, topic
        self.vain = 0

    @override
    def read(self, wanted: ReadRange) -> LocalCut:
        cut = self._inner.read(wanted)
        self.vain += self._keeper.keep(self._seen.heads, self._topic)
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
