"""Section `indexes` of the deployment: which topics go into which index, and how.

The entry's name is the alias that readers ask (`orders`); the index behind it is `<name>-v<generation>`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from include.errors import SettingsError
from include.index.name import IndexName
from include.log import topics
from include.record.json.formats import KeyForm, ValueForm
from include.settings.deployment import Deployment, Strict, unknown_name

__all__ = [
    "IndexDefinition",
    "IndexTopic",
    "alias_of",
    "declared_indexes",
    "index_named",
    "indexes_of_application",
]

SECTION = "indexes"


class IndexTopic(Strict):
    """How the records of one topic become documents."""

    entity: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="name of the body in the document, e.g. order")
    key: KeyForm = Field(default="schema", description="what a record's key is")
    value: ValueForm = Field(default="plain", description="what a record's value is")
    generation: int = Field(default=1, ge=1, le=500, description="raised when the topic was made anew")
    partitions: list[int] = Field(default_factory=list, description="numbers of partitions that it has had, in order")
    partitioner: Literal["murmur2", "any"] = Field(
        default="murmur2", description="murmur2: producers choose a key's partition as the Java client does"
    )
    routing: str | None = Field(default=None, description="field of the body that chooses the shard, e.g. user_id")


class IndexDefinition(Strict):
    """One index and the topics that fill it. `topic` and `entity` beside the rest stand for the one entry of `topics`.

    With several topics a document's `_id` is `<topic>/<doc_id>`, so that equal keys of two topics are two documents.
    """

    application: str = Field(description="the only application that writes this index")
    topics: dict[str, IndexTopic] = Field(min_length=1, description="topic -> how its records become documents")
    mapping: str = Field(description="mapping file, relative to the deployment folder")
    coerced: list[str] = Field(
        default_factory=list, description="fields, as order.price, that may be searched by other values than they show"
    )
    generation: int = Field(default=1, ge=1, description="number of the index behind the alias")
    versions: Literal["header", "offset"] = Field(
        default="header", description="header: as the topic's writer counts; offset: of topics that have no versions"
    )
    shards: int = Field(default=1, ge=1)
    """Primary shards of the index; fixed once it is made."""
    replicas: int = Field(default=0, ge=0)
    """Replicas of each shard."""
    refresh_interval: str = Field(default="500ms", pattern=r"^[1-9][0-9]*(ms|s)$")
    """How soon a search finds what was indexed."""
    sort: list[str] = Field(
        default_factory=list,
        description="fields of one value, `-` in front for descending, by which a segment's documents lie on disk",
    )
    bulk_bytes: int = Field(default=5_000_000, ge=10_000, le=50_000_000, description="most bytes of one request")
    dead_ratio: float = Field(default=0.5, gt=0, le=1, description="a greater part of bad records stops the stage")
    dead_run: int = Field(default=1000, ge=1, description="so many bad records in a row stop the stage")
    records_per_batch: int = Field(default=100_000, ge=100, description="most offsets per partition and batch")

    @model_validator(mode="before")
    @classmethod
    def _one_topic(cls, raw: Any) -> Any:
        if not isinstance(raw, dict) or "topic" not in raw:
            return raw
        if "topics" in raw:
            raise ValueError("give either `topic` or `topics`")
        own = {name: value for name, value in raw.items() if name in IndexTopic.model_fields and name != "generation"}
        rest = {name: value for name, value in raw.items() if name not in own and name != "topic"}
        own |= {"generation": rest.pop("topic_generation")} if "topic_generation" in rest else {}
        return {**rest, "topics": {raw["topic"]: own}}

    @property
    def topic(self) -> str:
        """Its topic, where it is the only one; raises `SettingsError` for an index of several."""
        if len(self.topics) != 1:
            raise SettingsError("the index is filled by several topics", allowed=sorted(self.topics), fix="Name one.")
        return next(iter(self.topics))

    @property
    def refresh_s(self) -> float:
        """`refresh_interval` in seconds."""
        text = self.refresh_interval
        return int(text[:-2]) / 1000 if text.endswith("ms") else float(text[:-1])

    @property
    def entities(self) -> list[str]:
        """Names of the bodies in its documents, sorted."""
        return sorted({each.entity for each in self.topics.values()})


def declared_indexes(deployment: Deployment) -> dict[str, IndexDefinition]:
    """All entries, by alias; raises `SettingsError` naming file and path."""
    definitions = deployment.section(SECTION, IndexDefinition)
    for name, definition in definitions.items():
        IndexName(name, definition.generation)
        for topic in definition.topics:
            topics.readable(topic)
    return definitions


def index_named(deployment: Deployment, name: str) -> IndexDefinition:
    """The entry of that alias; raises `SettingsError` with the names that there are."""
    found = declared_indexes(deployment).get(name)
    if found is None:
        raise unknown_name(deployment, (SECTION,), name, SECTION)
    return found


def indexes_of_application(deployment: Deployment, application: str) -> dict[str, IndexDefinition]:
    """All entries that `application` writes, by alias; raises `SettingsError` where there is none."""
    definitions = {
        alias: each for alias, each in declared_indexes(deployment).items() if each.application == application
    }
    if not definitions:
        raise deployment.error(
            (SECTION,),
            "an indexing application needs an index that names it",
            application=application,
            fix=f"Set `application: {application}` in an entry of `{SECTION}`.",
        )
    return definitions


def alias_of(deployment: Deployment, name: str) -> str:
    """The alias of that name, or of the one index that the topic of that name fills; raises `SettingsError`."""
    declared = declared_indexes(deployment)
    filled = [alias for alias, each in declared.items() if name in each.topics]
    if name in declared or not filled:
        return name
    if len(filled) > 1:
        raise deployment.error((SECTION,), "topic fills several indexes", got=name, allowed=filled)
    return filled[0]
