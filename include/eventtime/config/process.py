"""Processes by their dotted names: found, and looked at, before anything runs."""

from __future__ import annotations

import importlib
from typing import Any

from include.errors import SettingsError
from include.eventtime.algorithm.calls import Calls
from include.eventtime.model.handlers import faults
from include.eventtime.model.process import Process
from include.settings.deployment import Strict

__all__ = ["process_class", "require_sound"]


def process_class(name: str) -> type[Process[Any]]:
    """The class of a dotted name, `package.module.Class`; raises `SettingsError` where it is no process."""
    module, _, attribute = name.rpartition(".")
    try:
        candidate = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError("no such process", got=name, reason=str(error)) from error
    if not (isinstance(candidate, type) and issubclass(candidate, Process) and candidate is not Process):
        raise SettingsError(
            "this is no process", got=name, fix="Derive it from `include.eventtime.model.process.Process`."
        )
    return candidate


def require_sound(process: type[Process[Any]], settings: Strict) -> None:
    """Raise `SettingsError` for a process whose types cannot be kept, or whose handlers would make a replay differ."""
    if process.key not in (str, int):
        raise SettingsError("a process's keys are texts or numbers", got=repr(process.key), allowed="str, int")
    try:
        Calls(process(settings), [])
    except TypeError as error:
        raise SettingsError(
            "a type of the process cannot be kept", process=process.__name__, reason=str(error)
        ) from error
    findings = faults(process)
    if findings:
        raise SettingsError(
            "a handler would make a replay differ from the live run",
            process=process.__name__,
            at=f"{findings[0].file}:{findings[0].line}",
            reason=findings[0].text,
            more=len(findings) - 1,
            fix="Compute everything from the element, the state and the settings.",
        )
