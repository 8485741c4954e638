"""Compiled readers of records (Cython), where `make setup` could build them and `LYREBIRD_NATIVE` is not `0`.

Equal to the Python ones (`record.plain_fields`, `record.key`) byte by byte, and never the judge: what they refuse goes
to those.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any, Final

from include.record.native.program import steps_of

if TYPE_CHECKING:
    from include.record.native import _avro

__all__ = ["WHY_NOT", "columnar_of", "fields_of", "why_not"]


def why_not(*modules: str, form: int) -> str:
    """Why these compiled modules cannot be used; empty when all of them can.

    `form` is what their `FORM` has to be: their sources and the modules that use them raise it together.
    """
    if os.environ.get("LYREBIRD_NATIVE") == "0":
        return "LYREBIRD_NATIVE is 0"
    for module in modules:
        try:
            found = importlib.import_module(module)
        except ImportError as error:
            return "not built" if isinstance(error, ModuleNotFoundError) else f"cannot be loaded: {error}"
        if getattr(found, "FORM", 0) != form:
            return "built from other sources than these: `make setup`"
    return ""


WHY_NOT: Final = why_not("include.record.native._avro", form=3)
"""Why they are not there; empty when they are."""


def fields_of(schema: Any) -> _avro.Fields | None:
    """What finds the fields of this schema's records (as fastavro parsed it); None for the Python way."""
    steps = None if WHY_NOT else steps_of(schema)
    if steps is None or steps[-1][0] != "record":
        return None
    from include.record.native._avro import Fields

    return Fields(steps)


def columnar_of(schema: Any) -> _avro.Columnar | None:
    """What makes columns of records of this schema; None as `fields_of`."""
    steps = None if WHY_NOT else steps_of(schema)
    if steps is None or steps[-1][0] != "record":
        return None
    from include.record.native._avro import Columnar

    return Columnar(steps)
