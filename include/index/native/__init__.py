"""The compiled writer of JSON (Cython), where `make setup` could build it and `LYREBIRD_NATIVE` is not `0`.

Equal to the Python way (`record.codec`, `body`, `record.key`) byte by byte, and never the judge: schemas and records
that it does not take go to that one.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any, Final

from include.index.native.program import Step, envelope_steps, key_steps, steps_of

if TYPE_CHECKING:
    from include.index.native._avro_json import Program

__all__ = ["WHY_NOT", "body_program", "change_program", "key_program"]


def _why_not() -> str:
    if os.environ.get("LYREBIRD_NATIVE") == "0":
        return "LYREBIRD_NATIVE is 0"
    try:
        found = importlib.import_module("include.index.native._avro_json")
    except ImportError as error:
        return "not built" if isinstance(error, ModuleNotFoundError) else f"cannot be loaded: {error}"
    return "" if hasattr(getattr(found, "Lines", None), "enter") else "built from an older source"


WHY_NOT: Final = _why_not()
"""Why it is not there; empty when it is."""


def body_program(schema: Any) -> Program | None:
    """What writes bodies of this schema (as fastavro parsed it); None for the Python way."""
    return None if WHY_NOT else _program(steps_of(schema))


def key_program(schema: Any) -> Program | None:
    """What writes the text of keys of this schema; None for the Python way."""
    return None if WHY_NOT else _program(key_steps(schema))


def change_program(schema: Any) -> tuple[Program, tuple[int, int, int]] | None:
    """What takes change envelopes of this schema apart, and the places that it wants; None for the Python way."""
    found = None if WHY_NOT else envelope_steps(schema)
    program = _program(found[0]) if found else None
    return (program, found[1]) if program and found else None


def _program(steps: list[Step] | None) -> Program | None:
    if steps is None:
        return None
    from include.index.native._avro_json import Program

    return Program(steps)
