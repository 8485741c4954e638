"""Finds in what a server wrote why it ended: the line with the error, not the last lines of its stack trace."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["cause"]

_LAST_LINES = 5
_LONGEST_LINE = 300

# [2026-11-02T18:00:20,000][   2026-11-02 18:00:20 0 [   2026/11/02 18:00:20   2026-11+00-02 18:00:20
_STAMP = re.compile(r"\[?(?:\d{4}[-/]\d|\d{6} )[\d+\-/T :.,Z]*\]?\s*(?:\{[^}]*\} )?")
_LEVEL = re.compile(r"\[?(?:ERROR|FATAL|CRITICAL|SEVERE|error|critical)\b")
# What runtimes write without a time: Java, Go, Python's argparse.
_PLAIN = re.compile(
    r"(?:Exception in thread|Error occurred during|Terminating due to|Error:|panic:|fatal error:|[\w ]+ error:)"
)
_TRACE = "Traceback (most recent call last):"
_THROWN = re.compile(r"(?:[\w$]+\.)+[\w$]+(?::|$)")
_CAUSED = "Caused by: "
# Quarkus tells each observer that the start is over, before it says why.
_AFTERMATH = "DefaultAsyncObserverExceptionHandler"


def cause(text: str) -> list[str]:
    """The first record of an error in `text`, and what its stack trace names as the root; each line cut at 300.

    A log without a record of an error may hold a stack trace all the same: the last one is taken. With neither it is
    the last five lines that say something; of an empty log none.
    """
    records = list(_records(line.rstrip() for line in text.splitlines() if line.strip()))
    error = next((record for record in records if _is_error(record[0])), None)
    if error is not None:
        root = _root(error[1:])
        told = [error[0], root] if root and root not in error[0] else [error[0]]
    else:
        roots = [root for record in records if (root := _root(record))]
        told = roots[-1:] or [line for record in records for line in record][-_LAST_LINES:]
    return [line[:_LONGEST_LINE] for line in told]


def _records(lines: Iterable[str]) -> Iterable[list[str]]:
    """Lines grouped by what was logged at once: a line with a time, or an error without, begins a group."""
    record: list[str] = []
    for line in lines:
        if record and (_STAMP.match(line) or _is_error(line)):
            yield record
            record = []
        record.append(line)
    if record:
        yield record


def _is_error(line: str) -> bool:
    if _AFTERMATH in line:
        return False
    stamp = _STAMP.match(line)
    if _LEVEL.match(line, stamp.end() if stamp else 0):
        return True
    return stamp is None and bool(_PLAIN.match(line))


def _root(lines: list[str]) -> str:
    """The innermost cause of the first stack trace; empty where there is none."""
    if _TRACE in lines:
        # Python prints the innermost first: what follows was raised because of it, or while it was handled.
        after = lines[lines.index(_TRACE) + 1 :]
        return next((line for line in after if not line[0].isspace()), "")
    root = ""
    for line in lines:
        if line.startswith(_CAUSED):
            root = line.removeprefix(_CAUSED)
        elif _THROWN.match(line):
            if root:
                break
            root = line
    return root
