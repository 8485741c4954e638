"""Bodies of records whose schema the index was made fit for first: how tasks keep mappings ahead of documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import override

from include.errors import Terminal
from include.index.definition import IndexDefinition
from include.index.mapping.evolution import Evolver
from include.index.server.port import IndexInfo
from include.log.ports import SchemaRegistry
from include.record.json.formats import ValueForm, Values

__all__ = ["BodyOf", "EvolvingBodies", "MappingEvolution"]

BodyOf = Callable[[bytes | None], bytes | None]
"""A record's value → its document's body, None of a deletion (`formats.Values`)."""

_HEAD = 5


class EvolvingBodies(Values):
    """`bodies`, where `meet(schema id)` is called before the first body of each schema is handed out.

    Values that are not what their schema says are never met, so that no broken record touches a mapping. What `meet`
    raises comes through, and the schema is met again with its next value. Kept as long as the index lives, as each
    schema costs a look at the server.
    """

    def __init__(self, bodies: BodyOf, meet: Callable[[int], None]) -> None:
        self._bodies = bodies
        self._meet = meet
        self._met: set[bytes] = set()

    @override
    def __call__(self, value: bytes | None) -> bytes | None:
        body = self._bodies(value)
        # For every record: a slice and a look into a set.
        if body is not None and value is not None and value[:_HEAD] not in self._met:
            head = value[:_HEAD]
            self._meet(int.from_bytes(head[1:], "big"))
            self._met.add(head)
        return body


@dataclass(frozen=True, slots=True)
class MappingEvolution:
    """An index that grows with its topics' schemas; plain values, as it travels to workers.

    `declared` is the whole declared mapping as JSON; `accepted` are the places that may be coerced. `uuid` is another
    one when the index was made anew, and all schemas are new to it.
    """

    index: str
    uuid: str
    declared: str
    accepted: tuple[str, ...] = ()

    @classmethod
    def of(cls, info: IndexInfo, definition: IndexDefinition, declared: Mapping[str, Any]) -> MappingEvolution:
        """The live index `info` as it is declared."""
        return cls(info.name, info.uuid, json.dumps(declared), tuple(definition.coerced))

    def on(self, info: IndexInfo) -> MappingEvolution:
        """The same of another generation."""
        return replace(self, index=info.name, uuid=info.uuid)

    def bodies(
        self,
        bodies: BodyOf,
        describe: Callable[[str], IndexInfo | None],
        put_mapping: Callable[[str, Mapping[str, Any]], None],
        registry: SchemaRegistry,
        topic: str,
        entity: str,
        value: ValueForm,
    ) -> EvolvingBodies:
        """Wraps `bodies` of one topic, so that the index is made fit for its schemas.

        Args:
            bodies: reads the body out of a record's value.
            describe: of an index's name gives the index as it is.
            put_mapping: adds fields to an index's mapping.
            registry: of the topic's schemas.
            topic: name of the topic.
            entity: name of the body's field in documents.
            value: what the values are: bodies, or change envelopes.

        Returns:
            The same bodies; errors of `Evolver` come through and name the topic.
        """
        declared = json.loads(self.declared)
        evolver = Evolver(
            describe, put_mapping, self.index, entity=entity, value=value, declared=declared, accepted=self.accepted
        )

        def meet(schema_id: int) -> None:
            schema, language = registry.schema(schema_id), registry.language(schema_id)
            try:
                evolver(schema_id, schema, language)
            except Terminal as error:
                raise type(error)(error.message, fix=error.fix, topic=topic, **error.details) from error

        return EvolvingBodies(bodies, meet)
