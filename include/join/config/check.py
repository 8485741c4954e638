"""A join's file against what is there: its inputs, what it would write, and what an operator should know of that."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from include.join.config.definition import JoinFile
from include.join.config.fields import FieldPlan, field_plan
from include.join.config.inputs import Input, find_inputs
from include.join.config.schema import OutputSchemas, check_join_keys, output_schemas
from include.log.ports import SchemaRegistry, TopicAdmin
from include.settings.deployment import Deployment

__all__ = ["CheckedJoin", "checked_join"]


@dataclass(frozen=True)
class CheckedJoin:
    """A join that can run. `notes`: what its file brings about, in sentences."""

    join: JoinFile
    inputs: tuple[Input, ...]
    plan: FieldPlan
    output: OutputSchemas
    notes: tuple[str, ...]


def checked_join(
    places: Deployment,
    join: JoinFile,
    registry: SchemaRegistry,
    admin: TopicAdmin,
    *,
    forgetting: Collection[str] = (),
    spread: Collection[str] = (),
) -> CheckedJoin:
    """Matches the file with the topics and schemas that are there.

    Args:
        places: the join's file, for errors.
        join: what it says.
        registry: of the inputs' schemas.
        admin: of the log that has them.
        forgetting: topics that may be other than compacted.
        spread: change topics whose rows are partitioned by other columns than their key.

    Raises:
        NotThereYet: a topic is not there, or has no schema.
        SettingsError: what the file says does not fit topics, schemas or fields.
        Terminal: a schema is no record with fields.
        Transient: registry or log do not answer.
    """
    inputs = find_inputs(places, join, registry, admin, forgetting=forgetting, spread=spread)
    schemas = [each.schema for each in inputs]
    plan = field_plan(places, join, [schema.fields for schema in schemas])
    check_join_keys(places, join, schemas)
    notes = []
    shared = [each.topic for each, distinct in zip(inputs, plan.distinct, strict=True) if not distinct]
    if shared:
        notes.append(
            f"rows of {' and '.join(shared)} compete for one output: `pkey` does not determine one, the newest is shown"
        )
    notes += [
        f"where rows of {each.topic} stood is kept in a state of its own, as its records do not say"
        for each in inputs
        if each.located
    ]
    return CheckedJoin(join, tuple(inputs), plan, output_schemas(join, plan, schemas), tuple(notes))
