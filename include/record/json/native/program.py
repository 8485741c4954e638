"""Steps of a schema (`record.native.program`) as the compiled writer of JSON takes them: with names as JSON texts."""

from __future__ import annotations

from typing import Any, Final

import orjson

from include.record.fields import envelope_places
from include.record.native.program import steps_of

__all__ = ["JsonStep", "envelope_steps", "json_steps", "key_steps"]

JsonStep = tuple[str, int, int, tuple[int, ...], tuple[bytes, ...], tuple[int, ...]]
"""A `Step` whose labels are JSON: `"name":` of a field, `"SYMBOL"` of an enum."""

_KEY_PARTS: Final = frozenset({"null", "boolean", "int", "long", "string", "bytes", "enum", "uuid", "decimal"})


def json_steps(schema: Any) -> list[JsonStep] | None:
    """The steps of a schema that fastavro has parsed; the last is the whole. None: for the Python way."""
    steps = steps_of(schema)
    if steps is None:
        return None
    ends = {"record": b":"}
    return [
        (code, a, b, children, tuple(orjson.dumps(label) + ends.get(code, b"") for label in labels), order)
        for code, a, b, children, labels, order in steps
    ]


def key_steps(schema: Any) -> list[JsonStep] | None:
    """The same for a key whose text the compiled writer knows; None: for the Python way."""
    steps = json_steps(schema)
    if steps is None or steps[-1][0] != "record" or not steps[-1][3]:
        return None
    for child in steps[-1][3]:
        branches = steps[child][3] if steps[child][0] == "union" else (child,)
        if any(steps[each][0] not in _KEY_PARTS for each in branches):
            return None
    return steps


def envelope_steps(schema: Any) -> tuple[list[JsonStep], tuple[int, int, int]] | None:
    """The steps of a change envelope, and which fields are `op`, `before` (-1: none), `after`; None: the Python way."""
    steps, places = json_steps(schema), envelope_places(schema)
    if steps is None or places is None:
        return None
    return (steps, places) if steps[steps[-1][3][places[0]]][0] == "string" else None
