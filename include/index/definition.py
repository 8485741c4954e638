"""Section `indexes` of the deployment: which topic goes into which index, and how.

The entry's name is the alias that readers ask (`orders`); the index behind it is `<name>-v<generation>`.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import Field

from include.errors import SettingsError
from include.index.generation import IndexName
from include.log import topics
from include.settings.deployment import Deployment, Strict, unknown_name

__all__ = ["IndexDefinition", "declared_indexes", "index_named", "index_of_application", "index_of_topic", "mapping_of"]

SECTION = "indexes"


class IndexDefinition(Strict):
    """One index and the topic that fills it."""

    application: str = Field(description="the only application that writes this index")
    topic: str = Field(description="a topic of documents: plain Avro values, tombstones for deletes")
    entity: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="name of the body in the document, e.g. order")
    mapping: str = Field(description="mapping file, relative to the deployment folder")
    generation: int = Field(default=1, ge=1, description="number of the index behind the alias")
    topic_generation: int = Field(default=1, ge=1, description="raised when the topic was made anew")
    versions: Literal["header"] = Field(default="header", description="where a record's version stands")
    shards: int = Field(default=1, ge=1)
    replicas: int = Field(default=0, ge=0)
    refresh_interval: str = Field(default="500ms", pattern=r"^[1-9][0-9]*(ms|s)$")
    bulk_bytes: int = Field(default=5_000_000, ge=10_000, le=50_000_000, description="most bytes of one request")
    dead_ratio: float = Field(default=0.5, gt=0, le=1, description="a greater part of bad records stops the stage")
    dead_run: int = Field(default=1000, ge=1, description="so many bad records in a row stop the stage")
    records_per_batch: int = Field(default=20_000, ge=100, description="most offsets per partition and batch")


def declared_indexes(deployment: Deployment) -> dict[str, IndexDefinition]:
    """All entries, by alias; raises `SettingsError` naming file and path."""
    found = deployment.section(SECTION, IndexDefinition)
    for name, definition in found.items():
        IndexName(name, definition.generation)
        topics.declared(definition.topic)
    return found


def index_named(deployment: Deployment, name: str) -> IndexDefinition:
    """The entry of that alias; raises `SettingsError` with the names that there are."""
    found = declared_indexes(deployment).get(name)
    if found is None:
        raise unknown_name(deployment, (SECTION,), name, SECTION)
    return found


def index_of_application(deployment: Deployment, application: str) -> tuple[str, IndexDefinition]:
    """Alias and entry that `application` writes; raises `SettingsError` unless there is exactly one."""
    found = [(n, d) for n, d in declared_indexes(deployment).items() if d.application == application]
    if len(found) != 1:
        raise deployment.error(
            (SECTION,),
            "an indexing application needs exactly one index that names it",
            got=[name for name, _ in found],
            application=application,
            fix=f"Set `application: {application}` in one entry of `{SECTION}`.",
        )
    return found[0]


def index_of_topic(deployment: Deployment, topic: str) -> tuple[str, IndexDefinition]:
    """Alias and entry that `topic` fills; raises `SettingsError` unless there is exactly one."""
    found = [(n, d) for n, d in declared_indexes(deployment).items() if d.topic == topic]
    if len(found) != 1:
        raise deployment.error((SECTION,), "no single index is filled by this topic", topic=topic)
    return found[0]


def mapping_of(deployment: Deployment, definition: IndexDefinition) -> dict[str, Any]:
    """The declared mapping of the whole document (`<entity>` and `metadata`); raises `SettingsError`."""
    file = deployment.folder / definition.mapping
    try:
        mapping: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError("mapping cannot be read", file=str(file), reason=str(error)) from error
    properties = mapping.get("properties") if isinstance(mapping, dict) else None
    if not isinstance(properties, dict) or set(properties) != {definition.entity, "metadata"}:
        raise SettingsError(
            "mapping describes another document",
            file=str(file),
            path="properties",
            allowed=[definition.entity, "metadata"],
        )
    return dict(mapping)
