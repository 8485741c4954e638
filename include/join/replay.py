"""A join over a file of changes, without topics, registry and Spark: users' own tests of their joins.

One JSON object a line: `{"input": 0, "op": "c|u|d", "key": {…}, "value": {…}|null, "version": n}`; `input` counts the
inputs of the join from 0, the version grows with each change of a row and is the line's number where it is left out.
The algorithm is the platform's, so are the versions of the outputs: those of inputs with one partition each, whose
records have the changes' versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

import orjson
from pydantic import Field, ValidationError

from include.errors import InvalidRecord, SettingsError
from include.join.algorithm.batch import JoinOutput, apply
from include.join.algorithm.moves import encoded_join_key
from include.join.algorithm.row import Row
from include.join.algorithm.whereabouts import RowSighting, locate
from include.join.config.definition import JoinFile, read_join
from include.join.config.fields import InputFields, field_plan
from include.join.rows.json_rows import JsonProjection, json_join_key, json_shape
from include.settings.deployment import Strict
from include.state.reading import MemoryRows

__all__ = ["JoinReplay", "ReplayedChange", "fields_of", "final_table", "of_batch", "read_changes", "replay", "shuffled"]


class ReplayedChange(Strict):
    """A line."""

    input: int = Field(ge=0, description="position of the input in the join")
    op: Literal["c", "r", "u", "d"] = Field(description="created, read, updated, deleted")
    key: dict[str, Any] = Field(min_length=1, description="the row's primary key")
    value: dict[str, Any] | None = Field(default=None, description="the row; null when it is deleted")
    version: int = Field(default=0, ge=0, lt=1 << 53, description="grows with each change of the row")


@dataclass(frozen=True)
class JoinReplay:
    """What a replay made: `outputs` in order, batch by batch, and what the algorithm held or found stale."""

    outputs: list[JoinOutput]
    held: int
    stale: int


def read_changes(file: Path, inputs: int) -> dict[int, ReplayedChange]:
    """The changes by line; raises `SettingsError` with file and line for what is no change of one of so many inputs."""
    changes = {}
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise SettingsError("cannot read the changes", file=str(file), reason=str(error)) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            change = ReplayedChange.model_validate(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            raise SettingsError("not a JSON object", file=str(file), line=number, reason=str(error)) from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise SettingsError("not a change", file=str(file), line=number, path=where, reason=first["msg"]) from error
        if change.input >= inputs:
            raise SettingsError(
                "no such input", file=str(file), line=number, got=change.input, allowed=f"0..{inputs - 1}"
            )
        if (change.value is None) != (change.op == "d"):
            raise SettingsError(
                "a deleted row has no value, any other has one", file=str(file), line=number, op=change.op
            )
        changes[number] = change if change.version else change.model_copy(update={"version": number})
    return changes


def replay(config: Path, changes: Mapping[int, ReplayedChange], batch: int = 1) -> JoinReplay:
    """Join the changes, so many in each batch; raises `SettingsError` for a configuration that does not fit them."""
    places, join = read_join(config)
    plan = field_plan(places, join, [fields_of(changes.values(), i) for i in range(len(join.join))])
    shape = json_shape(join, plan)
    projection = JsonProjection(join, plan)
    alone = shape.alone
    rows, whereabouts = MemoryRows(), MemoryRows()
    done, numbered = JoinReplay([], 0, 0), list(changes.items())
    for start in range(0, len(numbered), batch):
        # By input, as `Ranks` has them.
        ranked = sorted(numbered[start : start + batch], key=lambda each: each[1].input)
        sightings = [
            _sighting(change, line, rank, join, projection, alone=alone and change.input == 0)
            for rank, (line, change) in enumerate(ranked, start)
        ]
        located = locate(sightings, whereabouts, complete=False)
        whereabouts.take(located.rows)
        applied = apply(located.touches, rows, shape)
        rows.take(applied.rows)
        done = JoinReplay(
            [*done.outputs, *of_batch(applied.outputs)],
            done.held + len(applied.held),
            done.stale + located.stale + applied.stale,
        )
    return done


def of_batch(outputs: Iterable[JoinOutput]) -> list[JoinOutput]:
    """What a batch has come to: the newest record of each key, by version."""
    return sorted(_newest(outputs).values(), key=lambda output: (output.version, output.key))


def final_table(outputs: Iterable[JoinOutput]) -> list[JoinOutput]:
    """What a sink holds in the end, sorted by key: the newest record of each key, without tombstones."""
    newest = _newest(outputs)
    return [newest[key] for key in sorted(newest) if newest[key].value is not None]


def shuffled(outputs: Sequence[JoinOutput], seed: int) -> list[JoinOutput]:
    """The same outputs in another order, as partitions hand them out; one seed gives one order."""
    mixed = list(outputs)
    Random(seed).shuffle(mixed)  # noqa: S311 - an order, no secret
    return mixed


def fields_of(changes: Iterable[ReplayedChange], number: int) -> InputFields:
    """The fields that an input's changes show, each where it is first seen."""
    mine = [change for change in changes if change.input == number]
    key = dict.fromkeys(name for change in mine for name in change.key)
    row = dict.fromkeys(name for change in mine for name in change.value or {})
    return InputFields(tuple(key), tuple(row))


def _newest(outputs: Iterable[JoinOutput]) -> dict[bytes, JoinOutput]:
    newest: dict[bytes, JoinOutput] = {}
    for output in outputs:
        other = newest.get(output.key)
        if other is None or other.version < output.version:
            newest[output.key] = output
    return newest


def _sighting(
    change: ReplayedChange, line: int, rank: int, join: JoinFile, projection: JsonProjection, *, alone: bool
) -> RowSighting:
    key = orjson.dumps(change.key, option=orjson.OPT_SORT_KEYS)
    if change.value is None:
        return RowSighting(change.input, key, rank, change.version, None, None)
    row = Row(change.version, 0, orjson.dumps(change.value))
    try:
        values = json_join_key({**change.value, **change.key}, join.join[change.input].join_keys)
    except InvalidRecord as error:
        raise SettingsError(error.message, line=line, field=error.details.get("field")) from error
    join_key = encoded_join_key(values, projection.alone(key, row) if alone and values is None else None)
    return RowSighting(change.input, key, rank, change.version, join_key, row)
