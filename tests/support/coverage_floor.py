"""Tells how much of `include/` the unit tests ran, by slipcover's report: `python -m tests.support.coverage_floor`.

Slipcover's own `fail-under` reads the workers' shares of a run and removes them before its report is written, which
then says 2 % (1.1.0).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from tests.support.paths import ROOT

__all__ = ["FLOOR", "main", "verdict"]

REPORT: Final = ROOT / ".coverage"
# In percent, on a machine without a C compiler too. Raise it when unit tests run more.
FLOOR: Final = 84.0
_SHOWN: Final = 5


def verdict(report: dict[str, Any]) -> tuple[bool, str]:
    """Whether as much ran as has to, and that in words, with the files of which most did not run."""
    missing = sorted(((len(file["missing_lines"]), name) for name, file in report["files"].items()), reverse=True)
    share = report["summary"]["percent_covered"]
    least = ", ".join(f"{name} {count}" for count, name in missing[:_SHOWN] if count)
    text = f"unit tests ran {share:.1f} % of the lines of include/, {FLOOR:g} % is the floor; most lines not: {least}"
    return share >= FLOOR, text


def main(path: Path = REPORT) -> int:
    """The exit code."""
    try:
        enough, text = verdict(json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, json.JSONDecodeError):
        print("error: unit tests were not measured to their end. Run `make test-unit`.", file=sys.stderr)
        return 1
    print(text if enough else f"error: {text}. Test what is new.", file=sys.stdout if enough else sys.stderr)
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
