"""Outputs as Avro: schemas derived from the dataclasses of a process, and records written by them."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from include.eventtime.algorithm.calls import Emitted
from include.eventtime.model.process import Process
from include.eventtime.model.typed import DataclassFields
from include.record.codec import Encoder

__all__ = ["EVENT_TIME", "Ids", "JobOutput", "OutputWriter", "key_schema", "value_schema"]

EVENT_TIME: Final = "event_time"
"""Header of each output: the event time (µs, decimal digits) of the element or timer that it came of."""
_SIMPLE: Final[Mapping[Any, str]] = {bool: "boolean", int: "long", float: "double", str: "string"}

Ids = tuple[int, int]
"""Ids of an output's key and value schema."""


class JobOutput(NamedTuple):
    """An output as it is written: `number` counts the outputs of its key, `time` is the event time, µs."""

    output: str
    key: bytes
    value: bytes
    number: int
    time: int


def key_schema(field: str, kind: type) -> dict[str, Any]:
    """The schema of the keys: a record of one field, named as in the first source."""
    name = field.rpartition(".")[2]
    return {"type": "record", "name": "Key", "fields": [{"name": name, "type": _SIMPLE[kind]}]}


def value_schema(kind: type) -> dict[str, Any]:
    """The schema of an output's values; a field that may be None, or has a plain default, has that by default."""
    typed = DataclassFields(kind)
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    fields = []
    for name, hint in typed.hints.items():
        field: dict[str, Any] = {"name": name, "type": _avro(hint)}
        if isinstance(field["type"], list):
            field["default"] = None
        elif isinstance(defaults[name], bool | int | float | str):
            field["default"] = defaults[name]
        fields.append(field)
    doc = (kind.__doc__ or "").strip().partition("\n")[0]
    return {"type": "record", "name": kind.__name__, "doc": doc, "fields": fields}


class OutputWriter:
    """Writes outputs of a process by schemas that are registered.

    Args:
        process: the job.
        key: name of the keys' field.
        ids: output → the ids of its schemas.
    """

    def __init__(self, process: Process[Any], key: str, ids: Mapping[str, Ids]) -> None:
        schema = key_schema(key, process.key)
        (self._field,) = (field["name"] for field in schema["fields"])
        self._keys = {output: Encoder(of_key, schema) for output, (of_key, _) in ids.items()}
        self._values = {
            output: Encoder(of_value, value_schema(process.outputs[output])) for output, (_, of_value) in ids.items()
        }

    def write(self, emitted: Sequence[Emitted]) -> list[JobOutput]:
        """The same outputs as bytes."""
        return [
            JobOutput(
                emission.output,
                self._keys[emission.output]({self._field: emission.key}),
                self._values[emission.output](emission.value),
                emission.version,
                emission.moment.time,
            )
            for emission in emitted
        ]


def _avro(hint: Any) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (each for each in args if each is not type(None))
        return ["null", _avro(inner)]
    if origin is Annotated:
        return {"type": "long", "logicalType": "timestamp-micros"}
    if origin is Literal:
        return "string"
    if origin is list:
        return {"type": "array", "items": _avro(args[0])}
    if origin is dict:
        return {"type": "map", "values": _avro(args[1])}
    return _SIMPLE[hint]
