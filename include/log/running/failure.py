"""Finds the error that a failed query or task speaks of, under what the layers between have added to it.

An error that is raised in a Spark worker or in the planner reaches the driver as text: a Python traceback within a
JVM exception. Its last line names class and message, and ours are one line each.
"""

from __future__ import annotations

import importlib
import re

from include.errors import LyrebirdError

__all__ = ["first_line", "lyrebird_error"]

_OURS = re.compile(r"^\s*(include(?:\.[a-z_0-9]+)+)\.([A-Z]\w*): (.+)$", re.MULTILINE)
_RAISED = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b.*)$", re.MULTILINE)
_LONGEST = 500


def lyrebird_error(text: str) -> LyrebirdError | None:
    """The last error of ours that `text` ends a traceback with, as its own class; None when there is none."""
    for module, name, message in reversed(_OURS.findall(text)):
        try:
            kind = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
        if isinstance(kind, type) and issubclass(kind, LyrebirdError):
            error: LyrebirdError = kind(message.strip())
            return error
    return None


def first_line(error: BaseException) -> str:
    """What went wrong, in one line: the last raised line of a traceback in the text, else the text's first line."""
    text = str(error).strip()
    raised = _RAISED.findall(text)
    line = raised[-1] if raised else f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"
    return " ".join(line.split())[:_LONGEST]
