"""Section `searches` of the deployment: which fields of a document searches go by, so that the client knows no shop.

An entry's name is what callers ask for (`orders`). Fields are named as in the body, with dots below its first level.
`lyrebird check` compares them with the index's mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import Field

from include.document.definition import DocumentDefinition, definitions
from include.index.definition import IndexDefinition, declared_indexes, index_named
from include.index.identity import index_id
from include.index.mapping.file import mapping_of
from include.settings.deployment import Deployment, Strict, unknown_name

__all__ = [
    "EXACT",
    "FreshReads",
    "Lines",
    "SearchDefinition",
    "SearchTarget",
    "declared_searches",
    "targets",
    "type_of",
]

SECTION: Final = "searches"
EXACT: Final = ("keyword", "long", "integer", "short", "byte", "unsigned_long", "boolean")
"""Types of fields that are compared as a whole."""
_MOMENTS: Final = ("date", "date_nanos")
_NUMBERS: Final = ("long", "integer", "short", "byte", "double", "float", "half_float")


class Lines(Strict):
    """The list of records inside a body that is searched line by line."""

    field: str = Field(description="the list; nested in the mapping")
    text: list[str] = Field(min_length=1, description="fields of a line that full text goes by")
    item: str = Field(description="field that names what was ordered, as a whole, e.g. name.keyword")
    quantity: str = Field(description="field with the number of pieces")
    category: str = Field(description="field that groups items")


class FreshReads(Strict):
    """How a reader's own write is found before the index has it."""

    patience_ms: int = Field(default=300, ge=0, le=10_000, description="longest wait for the index before a fall-back")
    reads_per_s: float = Field(default=20, gt=0, description="most reads of the database in a second, over all callers")
    connections: int = Field(default=2, ge=1, le=64, description="most connections to the database")
    recent: int = Field(
        default=200, ge=1, le=1000, description="entities of one user that are read, newest change first"
    )
    remember_s: float = Field(default=60, gt=0, description="how long it is kept that a key has no document yet")


class SearchDefinition(Strict):
    """One entry of `searches`."""

    index: str = Field(description="entry of `indexes`: the alias that is asked")
    entity: str = Field(description="name of the body in the documents")
    documents: str | None = Field(
        default=None, description="entry of `documents` that reads the same from the database"
    )
    user: str = Field(description="field with the owner, whose documents are listed newest first")
    time: str = Field(description="field with the moment that lists are sorted by; every document has it")
    business: str | None = Field(default=None, description="field with the seller")
    location: str | None = Field(default=None, description="field with the place, a geo_point")
    lines: Lines | None = Field(default=None)
    shown: list[str] = Field(default_factory=list, description="further fields that tables for people show")
    fresh: FreshReads = Field(default_factory=FreshReads)


@dataclass(frozen=True)
class SearchTarget:
    """An entry with what it leads to. `topic`: that one of the index's topics which the documents come from."""

    name: str
    search: SearchDefinition
    index: IndexDefinition
    topic: str
    mapping: Mapping[str, Any]
    document: DocumentDefinition | None

    def field_type(self, field: str) -> str | None:
        """Elasticsearch's type of a field of the body; None when the mapping has none of that name."""
        return type_of(self.mapping["properties"][self.search.entity], field)

    @property
    def shares_index(self) -> bool:
        """Whether other topics' documents live in the index too."""
        return len(self.index.topics) > 1

    @property
    def routing(self) -> str | None:
        """Field whose value chooses the shard, where one does."""
        return self.index.topics[self.topic].routing

    @property
    def time_step_us(self) -> int:
        """How finely the index sorts by time: a `date` keeps milliseconds, whatever the body says."""
        return 1 if self.field_type(self.search.time) == "date_nanos" else 1000

    def reading(self, fresh: FreshReads) -> SearchTarget:
        """The same with other bounds on reads of the database."""
        return replace(self, search=self.search.model_copy(update={"fresh": fresh}))

    def index_id(self, doc_id: str) -> str:
        """`_id` in the index of the document with this `metadata.doc_id`."""
        return index_id(self.topic, doc_id) if self.shares_index else doc_id


def declared_searches(deployment: Deployment) -> dict[str, SearchDefinition]:
    """All entries by name; raises `SettingsError` naming file and path."""
    return deployment.section(SECTION, SearchDefinition)


def targets(deployment: Deployment) -> dict[str, SearchTarget]:
    """All entries with what they lead to, checked against mapping, indexes and documents; raises `SettingsError`."""
    indexes, documents = declared_indexes(deployment), definitions(deployment)
    by_name = {}
    for name, search in declared_searches(deployment).items():
        where = (SECTION, name)
        if search.index not in indexes:
            raise unknown_name(deployment, (*where, "index"), search.index, "indexes")
        index = index_named(deployment, search.index)
        topics = [topic for topic, each in index.topics.items() if each.entity == search.entity]
        if len(topics) != 1:
            raise deployment.error(
                (*where, "entity"),
                "no single topic of the index holds this entity",
                got=search.entity,
                allowed=index.entities,
            )
        document = None
        if search.documents is not None:
            document = documents.get(search.documents)
            if document is None:
                raise unknown_name(deployment, (*where, "documents"), search.documents, "documents")
            if search.documents != topics[0]:
                raise deployment.error(
                    (*where, "documents"),
                    "the index holds another topic's documents",
                    got=search.documents,
                    allowed=topics,
                )
            if not isinstance(document.fields.get(search.user), str):
                columns = sorted(field for field, column in document.fields.items() if isinstance(column, str))
                raise deployment.error(
                    (*where, "user"), "the fact table's row does not show this field", got=search.user, allowed=columns
                )
            if document.fields[search.user] in document.masks.shown.get(document.fact.table, {}):
                raise deployment.error(
                    (*where, "user"),
                    "documents show this field masked, so nobody is found by it",
                    got=search.user,
                    fix=f"Name the column under `unmasked` in `documents.{search.documents}`.",
                )
        target = SearchTarget(name, search, index, topics[0], mapping_of(deployment, index), document)
        _check_fields(deployment, target)
        by_name[name] = target
    return by_name


def _check_fields(deployment: Deployment, target: SearchTarget) -> None:
    search = target.search
    wanted: list[tuple[tuple[str, ...], str | None, tuple[str, ...]]] = [
        (("user",), search.user, EXACT),
        (("time",), search.time, _MOMENTS),
        (("business",), search.business, EXACT),
        (("location",), search.location, ("geo_point",)),
    ]
    if search.lines is not None:
        lines = search.lines
        wanted += [
            (("lines", "field"), lines.field, ("nested",)),
            (("lines", "item"), f"{lines.field}.{lines.item}", EXACT),
            (("lines", "quantity"), f"{lines.field}.{lines.quantity}", _NUMBERS),
            (("lines", "category"), f"{lines.field}.{lines.category}", EXACT),
            *((("lines", "text"), f"{lines.field}.{field}", ("text",)) for field in lines.text),
        ]
    for path, field, allowed in wanted:
        if field is None:
            continue
        kind = target.field_type(field)
        if kind not in allowed:
            message = "the mapping has no such field" if kind is None else "the field's type does not fit"
            where = (SECTION, target.name, *path)
            raise deployment.error(where, message, got=field, type=kind, allowed=allowed, mapping=target.index.mapping)


def type_of(mapping: Mapping[str, Any], field: str) -> str | None:
    """Elasticsearch's type of a field of an object's mapping; None when it has none of that name."""
    here: Mapping[str, Any] = mapping
    for step in field.split("."):
        found = here.get("properties", {}).get(step) or here.get("fields", {}).get(step)
        if found is None:
            return None
        here = found
    kind: str = here.get("type", "object")
    return kind
