"""`python -m tests.support.servers list | fetch NAME… | fetch all`."""

from __future__ import annotations

import sys

from include.clock import SystemClock
from include.errors import LyrebirdError
from tests.support.servers.catalogue import SERVERS, known
from tests.support.servers.fetch import fetch, home, is_here

__all__ = ["main"]


def main(words: list[str]) -> int:
    """Run one command; returns the exit code."""
    match words:
        case ["list"]:
            for row in SERVERS:
                print(f"{row.name:14} {row.version:8} {home(row) if is_here(row) else 'not fetched'}")
            return 0
        case ["fetch", *names] if names:
            try:
                for row in SERVERS if names == ["all"] else [known(name) for name in names]:
                    print(f"{row.name:14} {fetch(row, SystemClock())}")
            except LyrebirdError as error:
                print(f"error: {error}", file=sys.stderr)
                return 1
            return 0
    print("usage: python -m tests.support.servers list | fetch NAME… | fetch all", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
