"""Rows in JSON: a join without registry and topics, for users' tests (`lyrebird join replay`).

A row's body is its JSON object. Outputs are JSON objects too, made of pieces such as `"state":"final"`. A field that a
row lacks is null, as it is in Avro.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from typing_extensions import override

from include.errors import InvalidRecord
from include.join.algorithm.row import OutputShare, Row
from include.join.algorithm.shape import JoinShape, KeyFrame, Projection
from include.join.config.definition import JoinFile
from include.join.config.fields import FieldPlan

__all__ = ["JsonProjection", "json_join_key", "json_shape"]

_FRAME: Final = KeyFrame(b"{", b",", b"}")


@dataclass(frozen=True)
class JsonProjection(Projection):
    """`shape.Projection` for JSON."""

    join: JoinFile
    plan: FieldPlan

    @override
    def entry(self, input: int, key: bytes, row: Row) -> OutputShare | None:
        fields: dict[str, Any] = {**orjson.loads(row.body), **orjson.loads(key)}
        for field, values in self.join.join[input].where.items():
            if not any(_same(fields.get(field), value) for value in values):
                return None
        group = tuple(_piece(each.name, fields.get(each.field)) for each in self.plan.key if each.input == input)
        part = b",".join(_piece(name, fields.get(field)) for field, name in self.plan.values[input])
        return OutputShare(row.version, key, group, part)

    @override
    def absent(self, input: int) -> OutputShare:
        group = tuple(_piece(each.name, None) for each in self.plan.key if each.input == input)
        return OutputShare(None, b"", group, b",".join(_piece(name, None) for _, name in self.plan.values[input]))

    def alone(self, key: bytes, row: Row) -> bytes:
        """The first input's part of an output's key, for a row that joins nothing."""
        fields = {**orjson.loads(row.body), **orjson.loads(key)}
        return b",".join(_piece(each.name, fields.get(each.field)) for each in self.plan.key if each.input == 0)


def json_shape(join: JoinFile, plan: FieldPlan) -> JoinShape:
    """The join as the algorithm sees it."""
    return JoinShape.of(join, plan, JsonProjection(join, plan), _FRAME, _FRAME)


def json_join_key(fields: Mapping[str, Any], names: Sequence[str]) -> bytes | None:
    """The values of these fields; None when one of them is null. Raises `InvalidRecord` for what is never equal."""
    values = [fields.get(name) for name in names]
    for name, value in zip(names, values, strict=True):
        if isinstance(value, float | list | dict):
            raise InvalidRecord(
                "a join key is a number without fraction, a text or a truth value", reason="join_key", field=name
            )
    return None if None in values else orjson.dumps(values)


def _piece(name: str, value: Any) -> bytes:
    return orjson.dumps(name) + b":" + orjson.dumps(value)


def _same(value: Any, wanted: Any) -> bool:
    return type(value) is type(wanted) and value == wanted
