"""Which tests may be skipped, and what becomes of another skip where CI runs.

A machine without a C compiler has no compiled modules: tests that need them are marked `compiled` and skipped here.
Servers that the one-machine stack does not have, and runs of many minutes, belong to `make prove-…`. With
`LYREBIRD_NO_SKIPS=1` (`.ci/run` sets it) a skip for any other reason is a failure: the machine has what the test needs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Final

import pytest

from include.join.native import WHY_NOT as JOIN
from include.record.json.native import WHY_NOT as JSON
from include.record.native import WHY_NOT as RECORD
from include.source.native import WHY_NOT as SOURCE

__all__ = ["NOT_COMPILED", "STRICT", "refuse", "skip_uncompiled", "unexpected"]

STRICT: Final = "LYREBIRD_NO_SKIPS"
NOT_COMPILED: Final = next(filter(None, (SOURCE, RECORD, JSON, JOIN)), "")
"""Why a compiled module cannot be used; empty when all of them can."""
_COMPILED: Final = "`make setup` builds the compiled modules"
_PROOFS: Final = ("LYREBIRD_PROVE=1", "set LYREBIRD_PROVE", "run `make prove-capture`")


def skip_uncompiled(item: pytest.Item) -> None:
    """Skip a test that is marked `compiled` where nothing is compiled."""
    if NOT_COMPILED and item.get_closest_marker("compiled") is not None:
        item.add_marker(pytest.mark.skip(reason=f"{_COMPILED}: {NOT_COMPILED}"))


def unexpected(reason: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a skip for this reason is a failure here."""
    if environment.get(STRICT) != "1" or any(words in reason for words in _PROOFS):
        return False
    return not reason.startswith(_COMPILED) or any(shutil.which(name) for name in ("cc", "gcc", "clang"))


def refuse(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Make an unexpected skip a failure."""
    if not report.skipped or hasattr(report, "wasxfail") or not isinstance(report.longrepr, tuple):
        return
    reason = report.longrepr[2].removeprefix("Skipped: ")
    if unexpected(reason):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, and {STRICT}=1 allows it only for proofs: {reason}"
