"""Section `documents`: what a document is made of. A new entity needs no code, only an entry here.

The fact table's change is a signal only; what the document holds is read from the database when the signal comes.
Entries are named by the topic that they are written to. Look-ups are joins by equal columns: `where` maps a column of
the looked-up table to a column of the row above it, so each path can also be walked backwards, from a changed row
of a signal table to the keys of the documents that show it.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from include.document.database import DatabaseAddress, Replica
from include.document.masks import NOTHING_MASKED, ColumnRead, DocumentMasks, obeyed
from include.errors import SettingsError
from include.log import topics
from include.policy.declared import declared_policy
from include.settings.applications import Application
from include.settings.deployment import Deployment, Strict, unknown_name

__all__ = [
    "ComputedField",
    "DocumentDefinition",
    "DocumentFields",
    "FactTable",
    "Hop",
    "JoinPath",
    "Lookup",
    "Replica",
    "database_of",
    "definition_of",
    "definitions",
    "hook",
]

DocumentFields = dict[str, str | dict[str, str]]
"""Field of the document → column, or a group: field → {field of the group → column}."""

Hook = Callable[[Mapping[str, Any]], Any]
"""Gets the body as the look-ups made it, returns the value of one more field. Must be pure."""

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


class Hop(Strict):
    """One row on the way to another: `table` where its columns equal the row above."""

    table: str = Field(description="table that is read")
    where: dict[str, str] = Field(min_length=1, description="column of this table -> column of the row above")


class Lookup(Hop):
    """Rows of another table that belong to the row above: one (an object or one value) or many (a list)."""

    via: list[Hop] = Field(default_factory=list, description="rows between, of which the document shows nothing")
    many: bool = Field(default=False, description="a list of all rows instead of one row")
    order_by: list[str] = Field(default_factory=list, description="order of the list; of one row: which is first")
    take: Literal["first", "last"] = Field(default="first", description="which row by `order_by`, where one is wanted")
    fields: DocumentFields = Field(default_factory=dict, description="what the document shows of the row")
    value: str | None = Field(default=None, description="instead of `fields`: the one column that is the value itself")
    lookups: dict[str, Lookup] = Field(default_factory=dict, description="look-ups from the row that was found")
    required: bool = Field(default=True, description="without such a row the document is set aside, else it is null")

    @model_validator(mode="after")
    def _one_shape(self) -> Self:
        if (self.value is None) == (not self.fields):
            raise ValueError("give either `fields` or `value`")
        if self.value is not None and self.lookups:
            raise ValueError("a look-up with `value` has no further look-ups")
        return self

    @property
    def hops(self) -> tuple[Hop, ...]:
        """From the row above to this table."""
        return (*self.via, self)

    def columns(self) -> tuple[str, ...]:
        """Columns of `table` that are read, sorted."""
        below = [column for lookup in self.lookups.values() for column in lookup.hops[0].where.values()]
        shown = [self.value] if self.value is not None else list(_columns(self.fields))
        return tuple(sorted({*self.where, *shown, *self.order_by, *below}))


class FactTable(Strict):
    """The table whose rows are the entity's versions; its changes are the signals."""

    table: str
    """Its name in `database`."""
    key: list[str] = Field(min_length=1, description="columns that name the entity; integers or texts")
    newest_by: str = Field(description="the greatest value of this column is the entity's newest row")
    state: str = Field(description="column that holds the state")
    final: list[str] = Field(min_length=1, description="states in which the row is the entity; others are transient")


class ComputedField(Strict):
    """A field that YAML cannot say: a dotted Python name, called with the body that the look-ups made."""

    hook: str = Field(pattern=r"^[A-Za-z_][\w.]*\.[A-Za-z_]\w*$", description="module and function")
    type: str = Field(description="long, double, boolean, string or decimal(p,s)")

    @model_validator(mode="after")
    def _known_type(self) -> Self:
        if self.type not in ("long", "double", "boolean", "string") and not _DECIMAL.fullmatch(self.type):
            raise ValueError("type is one of long, double, boolean, string, decimal(p,s)")
        return self

    def avro(self) -> dict[str, Any] | str:
        """The field's type in Avro."""
        match = _DECIMAL.fullmatch(self.type)
        if match is None:
            return self.type
        return {"type": "bytes", "logicalType": "decimal", "precision": int(match[1]), "scale": int(match[2])}


class DocumentDefinition(Strict):
    """One entry of `documents`."""

    application: str = Field(pattern=r"^[a-z0-9_]+$", description="the application that writes the topic")
    source: str = Field(description="entry of `sources`: database that is read, topics that signal")
    database: str = Field(description="database of the tables")
    entity: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="name of the entity, as in the documents of an index")
    partitions: int = Field(default=4, ge=1, description="of the topic; fixed once it is made")
    fact: FactTable
    fields: DocumentFields = Field(description="what the document shows of the fact row")
    lookups: dict[str, Lookup] = Field(default_factory=dict)
    """Rows of other tables that the document shows, by the field's name."""
    computed: dict[str, ComputedField] = Field(default_factory=dict)
    """Fields that a Python function makes, by name."""
    signals: list[str] = Field(
        default_factory=list, description="looked-up tables whose change alone alters a document"
    )
    corrected: list[str] = Field(
        default_factory=list,
        description="looked-up tables whose rows come with the fact's: only what changes or deletes one signals",
    )
    unmasked: list[str] = Field(
        default_factory=list,
        description="`table.column` that documents have as it is, though the source's `filter` masks or ignores it",
    )
    read_from: Replica | None = Field(default=None, description="replica that is read instead of the source's server")
    read_rows_per_s: int = Field(
        default=100_000, ge=0, description="most rows a second that are read, by all connections; 0: no limit"
    )
    read_connections: int = Field(
        default=8, ge=1, description="most connections that read a large batch, where Spark has so many cores"
    )
    rebuild_keys: int = Field(default=2_000, ge=1, description="keys that a rebuild adds to one batch")
    batch_keys: int = Field(
        default=20_000, ge=1, description="most documents of one batch; what more its signals ask for follows in parts"
    )
    batch_changes: int = Field(
        default=500_000, ge=1, description="most changes that a batch reads, where resolved records lie that close"
    )
    dead_ratio: float = Field(default=0.1, gt=0, le=1, description="more set aside than this share stops the stage")
    dead_run: int = Field(default=100, ge=1, description="so many set aside one after the other stop the stage")

    # Of a definition that was loaded: `definitions`.
    _masks: DocumentMasks = PrivateAttr(default=NOTHING_MASKED)

    @property
    def masks(self) -> DocumentMasks:
        """What the source's policy says of its columns; nothing of a definition that no deployment file holds."""
        return self._masks

    def obeying(self, masks: DocumentMasks) -> Self:
        """The same definition under a policy."""
        found = self.model_copy()
        found._masks = masks  # noqa: SLF001 - an instance of this class
        return found

    def columns(self) -> tuple[str, ...]:
        """Columns of the fact table that are read, sorted."""
        fact = self.fact
        below = [column for lookup in self.lookups.values() for column in lookup.hops[0].where.values()]
        return tuple(sorted({*fact.key, fact.newest_by, fact.state, *_columns(self.fields), *below}))

    def paths(self) -> list[JoinPath]:
        """The ways from a signal table's row back to the fact table, one for each place where a look-up reads it."""
        heard = {*self.signals, *self.corrected}
        return [path for path in self.ways() if path.table in heard]

    def unheard(self) -> list[str]:
        """Tables that documents show rows of and that signal nothing, sorted."""
        return sorted({path.table for path in self.ways()} - {*self.signals, *self.corrected})

    def ways(self) -> list[JoinPath]:
        """The ways from the fact table to each row that a document reads."""
        return list(_walk(self.lookups, ()))

    def reads(self) -> list[ColumnRead]:
        """Every place that reads a column."""
        fact = self.fact
        inside = [*((name, "key") for name in fact.key), (fact.newest_by, "newest_by"), (fact.state, "state")]
        found = [ColumnRead(fact.table, column, ("fact", key)) for column, key in inside]
        shown = [ColumnRead(fact.table, column, ("fields",), shown=True) for column in _columns(self.fields)]
        return [*found, *shown, *_reads(self.lookups, fact.table, ("lookups",))]

    def told(self) -> set[tuple[str, str]]:
        """(table, column) of values that are taken from records of changes, or that a way back may write into one."""
        fact = {(self.fact.table, column) for column in (*self.fact.key, self.fact.state)}
        return fact | {(hop.table, column) for path in self.paths() for hop in path.hops for column in hop.where}


@dataclass(frozen=True)
class JoinPath:
    """`hops` from the fact table to `table` (the last hop's); `columns`: those of it that the document depends on."""

    hops: tuple[Hop, ...]
    columns: tuple[str, ...]

    @property
    def table(self) -> str:
        """The table that signals."""
        return self.hops[-1].table

    @property
    def match(self) -> tuple[str, ...]:
        """Columns of `table` by whose values the way back begins."""
        return tuple(self.hops[-1].where)


def definitions(deployment: Deployment) -> dict[str, DocumentDefinition]:
    """Topic → definition, checked against the other sections; raises `SettingsError` with the place."""
    entries = deployment.section("documents", DocumentDefinition)
    for topic, definition in entries.items():
        topics.declared(topic)
        applications = deployment.section("applications", Application)
        host = applications.get(definition.application)
        if host is None:
            raise unknown_name(deployment, ("documents", topic, "application"), definition.application, "applications")
        if topic not in host.topics:
            raise deployment.error(
                ("applications", definition.application, "topics"),
                "the application does not name a topic that it writes",
                topic=topic,
            )
        if definition.source not in deployment.names("sources"):
            raise unknown_name(deployment, ("documents", topic, "source"), definition.source, "sources")
        _check_heard(deployment, topic, definition)
        for name, computed in definition.computed.items():
            where = ("documents", topic, "computed", name)
            if name in definition.fields or name in definition.lookups:
                raise deployment.error(where, "the document has a field of this name already", got=name)
            try:
                hook(computed.hook)
            except SettingsError as error:
                raise deployment.error((*where, "hook"), error.message, **error.details) from error
        double = definition.fields.keys() & definition.lookups.keys()
        if double:
            raise deployment.error(
                ("documents", topic, "lookups", min(double)),
                "the document has a field of this name already",
                got=min(double),
            )
        shown = {column for column in definition.fields.values() if isinstance(column, str)}
        if not set(definition.fact.key) <= shown:
            raise deployment.error(
                ("documents", topic, "fields"), "the document must show its key", allowed=definition.fact.key
            )
        entries[topic] = definition.obeying(_masks(deployment, topic, definition))
    return entries


def _masks(deployment: Deployment, topic: str, definition: DocumentDefinition) -> DocumentMasks:
    def error(place: tuple[str | int, ...], message: str, **details: Any) -> SettingsError:
        return deployment.error(("documents", topic, *place), message, **details)

    policy = declared_policy(deployment, definition.source)
    return obeyed(policy, definition.database, definition.reads(), definition.told(), definition.unmasked, error)


def _check_heard(deployment: Deployment, topic: str, definition: DocumentDefinition) -> None:
    looked_up = sorted({path.table for path in definition.ways()})
    for field, tables in (("signals", definition.signals), ("corrected", definition.corrected)):
        for number, table in enumerate(tables):
            place = ("documents", topic, field, number)
            if table not in looked_up:
                raise deployment.error(place, "no look-up reads this table", got=table, allowed=looked_up)
            if field == "corrected" and table in definition.signals:
                raise deployment.error(place, "the table is under `signals` already", got=table)


def definition_of(deployment: Deployment, application: str) -> tuple[str, DocumentDefinition]:
    """Topic and definition of what `application` writes; raises `SettingsError` unless it is exactly one."""
    written = {topic: d for topic, d in definitions(deployment).items() if d.application == application}
    if len(written) != 1:
        raise SettingsError(
            "an assembler writes exactly one topic",
            application=application,
            topics=sorted(written),
            fix="Name the application in one entry of `documents`.",
        )
    return next(iter(written.items()))


def database_of(deployment: Deployment, definition: DocumentDefinition) -> DatabaseAddress:
    """The server that documents are read from: the one that the definition's source captures, unless it names one."""
    if definition.read_from is not None:
        return DatabaseAddress(**definition.read_from.model_dump(), replica=True)
    return deployment.part(("sources", definition.source), DatabaseAddress)


def hook(name: str) -> Hook:
    """The function of a dotted name; raises `SettingsError` when there is none."""
    module, _, function = name.rpartition(".")
    try:
        attribute = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise SettingsError("no such hook", got=name, reason=str(error)) from error
    if not callable(attribute):
        raise SettingsError("a hook is a function", got=name)
    chosen: Hook = attribute
    return chosen


def _columns(fields: DocumentFields) -> Iterator[str]:
    for shape in fields.values():
        if isinstance(shape, str):
            yield shape
        else:
            yield from shape.values()


def _reads(lookups: Mapping[str, Lookup], above: str, place: tuple[str, ...]) -> Iterator[ColumnRead]:
    for name, lookup in lookups.items():
        lookup_place, table = (*place, name), above
        for hop in lookup.hops:
            for column, of in hop.where.items():
                yield ColumnRead(table, of, (*lookup_place, "where"))
                yield ColumnRead(hop.table, column, (*lookup_place, "where"), above=(table, of))
            table = hop.table
        yield from (ColumnRead(table, column, (*lookup_place, "order_by")) for column in lookup.order_by)
        if lookup.value is not None:
            yield ColumnRead(table, lookup.value, (*lookup_place, "value"), shown=True)
        yield from (
            ColumnRead(table, column, (*lookup_place, "fields"), shown=True) for column in _columns(lookup.fields)
        )
        yield from _reads(lookup.lookups, table, (*lookup_place, "lookups"))


def _walk(lookups: Mapping[str, Lookup], above: tuple[Hop, ...]) -> Iterator[JoinPath]:
    for lookup in lookups.values():
        hops = lookup.hops
        for number, hop in enumerate(hops):
            last = number == len(hops) - 1
            columns = lookup.columns() if last else tuple(sorted({*hop.where, *hops[number + 1].where.values()}))
            yield JoinPath((*above, *hops[: number + 1]), columns)
        yield from _walk(lookup.lookups, (*above, *hops))
