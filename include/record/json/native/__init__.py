"""The compiled writer of JSON (Cython), where `make setup` could build it and `LYREBIRD_NATIVE` is not `0`.

Equal to the Python way (`record.codec`, `body`, `record.key`) byte by byte, and never the judge: schemas and records
that it does not take go to that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from include.record.json.native.program import JsonStep, envelope_steps, json_steps, key_steps
from include.record.native import why_not

if TYPE_CHECKING:
    from include.record.json.native._avro_json import Program

__all__ = ["WHY_NOT", "body_program", "change_program", "key_program"]

WHY_NOT: Final = why_not("include.record.json.native._avro_json", form=2)
"""Why it is not there; empty when it is."""


def body_program(schema: Any) -> Program | None:
    """What writes bodies of this schema (as fastavro parsed it); None for the Python way."""
    return None if WHY_NOT else _program(json_steps(schema))


def key_program(schema: Any) -> Program | None:
    """What writes the text of keys of this schema; None for the Python way."""
    return None if WHY_NOT else _program(key_steps(schema))


def change_program(schema: Any) -> tuple[Program, tuple[int, int, int]] | None:
    """What takes change envelopes of this schema apart, and the places that it wants; None for the Python way."""
    found = None if WHY_NOT else envelope_steps(schema)
    program = _program(found[0]) if found else None
    return (program, found[1]) if program and found else None


def _program(steps: list[JsonStep] | None) -> Program | None:
    if steps is None:
        return None
    from include.record.json.native._avro_json import Program

    return Program(steps)
