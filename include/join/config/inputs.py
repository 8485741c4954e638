"""The topics that a join reads: which they are, what their records look like, and whether they can be joined at all."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Self

from include.errors import InvalidRecord, SettingsError
from include.join.config.definition import InputDefinition, JoinFile
from include.join.config.schema import InputSchema
from include.log.ports import SchemaRegistry, TopicAdmin, UnknownSchema
from include.settings.deployment import Deployment
from include.settings.nearest import nearest

__all__ = ["Input", "NotThereYet", "find_inputs"]

_LOG: Final = logging.getLogger(__name__)
_VALUE: Final = "-value"
_POLICY: Final = "cleanup.policy"


@dataclass(frozen=True, slots=True)
class Input:
    """An input as it is there.

    Args:
        topic: its topic.
        schema: the newest schemas of its keys and rows.
        located: a first stage finds where its rows stood: their records do not say, or not in order.
    """

    topic: str
    schema: InputSchema
    located: bool


class NotThereYet(SettingsError):
    """What an input needs is missing, and comes when its writer starts: who runs the join may wait for it."""

    @classmethod
    def of(cls, error: SettingsError) -> Self:
        """The same error, of this kind."""
        return cls(error.message, fix=error.fix, **error.details)


def find_inputs(
    places: Deployment,
    join: JoinFile,
    registry: SchemaRegistry,
    admin: TopicAdmin,
    *,
    forgetting: Collection[str] = (),
    spread: Collection[str] = (),
) -> list[Input]:
    """Look the inputs up.

    Args:
        places: the join's file, for errors.
        join: what it says.
        registry: of the inputs' schemas.
        admin: of the log that has them.
        forgetting: topics that may be other than compacted.
        spread: change topics whose rows are partitioned by other columns than their key.

    Raises:
        NotThereYet: a topic is not there, or has no schema.
        SettingsError: a schema of no topic or of several, a topic that forgets rows.
        Transient: registry or log do not answer.
    """
    names = admin.names()
    inputs: list[Input] = []
    for number, definition in enumerate(join.join):
        topic = _topic(places, number, definition, registry, names)
        if any(other.topic == topic for other in inputs):
            raise places.error(
                ("join", number), "a topic is joined with itself", topic=topic, fix="Join a copy of it by another name."
            )
        if topic == join.output.topic:
            raise places.error(("join", number), "a join cannot read what it writes", topic=topic)
        if topic not in forgetting:
            _require_compacted(places, number, topic, admin)
        schema = InputSchema.of(
            _newest(places, number, f"{topic}-key", registry),
            _newest(places, number, f"{topic}{_VALUE}", registry),
            topic=topic,
        )
        fixed = not schema.change and schema.holds(definition.join_keys)
        inputs.append(Input(topic, schema, topic in spread if schema.change else not fixed))
    return inputs


def _topic(
    places: Deployment, number: int, definition: InputDefinition, registry: SchemaRegistry, names: list[str]
) -> str:
    if definition.topic is not None:
        if definition.topic in names:
            return definition.topic
        raise NotThereYet.of(
            places.error(
                ("join", number, "topic"),
                "there is no such topic",
                got=definition.topic,
                fix=f"Is it {' or '.join(nearest(definition.topic, names)) or 'written yet'}? See `lyrebird status`.",
            )
        )
    where, schema_id = ("join", number, "schema_id"), definition.schema_id or 0
    try:
        subjects = registry.subjects(schema_id)
    except UnknownSchema as error:
        raise NotThereYet.of(
            places.error(where, "nobody registered a schema of this id", got=schema_id, fix="Name the topic.")
        ) from error
    topics = [subject.removesuffix(_VALUE) for subject in subjects if subject.endswith(_VALUE)]
    known = [topic for topic in topics if topic in names]
    if len(known) == 1:
        return known[0]
    raise places.error(
        where,
        "the schema is that of several topics" if known else "the schema is that of no topic's values",
        got=schema_id,
        topics=known or topics or list(subjects),
        fix="Give `topic` instead.",
    )


def _require_compacted(places: Deployment, number: int, topic: str, admin: TopicAdmin) -> None:
    settings = admin.settings(topic)
    if settings is None:
        _LOG.warning("%s may forget rows: this account may not see its settings (DescribeConfigs)", topic)
    elif settings[_POLICY] != "compact":
        raise places.error(
            ("join", number),
            "the topic forgets rows, so a join would lose their outputs",
            topic=topic,
            policy=settings[_POLICY],
            fix="Compact it alone, or name it under `forgetting` of the join's entry in `joins`.",
        )


def _newest(places: Deployment, number: int, subject: str, registry: SchemaRegistry) -> dict[str, Any]:
    schema_id = registry.newest(subject)
    if schema_id is None:
        raise NotThereYet.of(
            places.error(
                ("join", number), "the registry has no schema of this topic", subject=subject, fix="Is it written yet?"
            )
        )
    try:
        language = registry.language(schema_id)
        if language != "AVRO":
            raise places.error(
                ("join", number), "a join reads records in Avro", subject=subject, got=language, allowed="AVRO"
            )
        return registry.schema(schema_id)
    except InvalidRecord as error:
        raise SettingsError(error.message, subject=subject, **error.details) from error
