"""Checks that topics fit an index's mapping: what the indexer will add, what becomes of each field's values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from include.errors import Terminal
from include.index.definition import IndexDefinition, IndexTopic
from include.index.mapping.check import MappingFinding, compare
from include.index.mapping.evolution import evolve
from include.index.mapping.topic_types import body_form
from include.index.mapping.value_types import Form
from include.log.ports import SchemaRegistry

__all__ = ["TopicFit", "index_forms", "newest_form", "topic_fits"]


@dataclass(frozen=True)
class TopicFit:
    """One topic beside the mapping. `schema_id` None: nobody has registered a schema yet, so nothing can be said.

    `stops` are reasons for which the indexer would stop at the first record: it never coerces what nobody accepted.
    """

    topic: str
    entity: str
    schema_id: int | None
    findings: tuple[MappingFinding, ...] = ()
    adds: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()


def newest_form(registry: SchemaRegistry, topic: str, own: IndexTopic) -> tuple[int, Form] | None:
    """The newest schema's id and the form of its documents' bodies; None when the topic has no schema yet."""
    schema_id = registry.newest(f"{topic}-value")
    if schema_id is None:
        return None
    return schema_id, body_form(registry.schema(schema_id), registry.language(schema_id), own.value)


def index_forms(registry: SchemaRegistry, topics: Mapping[str, IndexTopic]) -> dict[str, tuple[int, Form]]:
    """Newest schema's id and form by topic; raises `Terminal` naming the topics that have no schema."""
    forms = {topic: newest_form(registry, topic, own) for topic, own in topics.items()}
    missing = [f"{topic}-value" for topic, newest in forms.items() if newest is None]
    if missing:
        raise Terminal(
            "the registry has no schema of the topic's values",
            subjects=missing,
            fix="Write the topic's first record, or check its name.",
        )
    return {topic: newest for topic, newest in forms.items() if newest is not None}


def topic_fits(
    registry: SchemaRegistry, definition: IndexDefinition, live: Mapping[str, Any], declared: Mapping[str, Any]
) -> list[TopicFit]:
    """Each topic of the index beside its live mapping, in the order of the declaration.

    What the former ones will add counts for the limits of the later ones.
    """
    fits, grown = [], live
    for topic, own in definition.topics.items():
        fit, grown = _fit(registry, definition, topic, own, live, grown, declared)
        fits.append(fit)
    return fits


def _fit(
    registry: SchemaRegistry,
    definition: IndexDefinition,
    topic: str,
    own: IndexTopic,
    live: Mapping[str, Any],
    grown: Mapping[str, Any],
    declared: Mapping[str, Any],
) -> tuple[TopicFit, Mapping[str, Any]]:
    newest = newest_form(registry, topic, own)
    if newest is None:
        return TopicFit(topic, own.entity, None), grown
    schema_id, form = newest
    findings = tuple(compare(form, live, own.entity))
    try:
        plan = evolve(form, own.entity, grown, declared, definition.coerced)
    except Terminal as error:
        places = error.details.get("places") or {own.entity: str(error)}
        stops = tuple(f"{place}: no type follows from the schema: {reason}" for place, reason in places.items())
        return TopicFit(topic, own.entity, schema_id, findings, (), stops), grown
    beyond = (f"{own.entity}: with the fields of the newest schema the mapping has {each}" for each in plan.beyond)
    stops = (*(str(each) for each in plan.hindrances), *beyond)
    return TopicFit(topic, own.entity, schema_id, findings, plan.places, stops), plan.after
