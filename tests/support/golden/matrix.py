"""Which cases are recorded on which server, so that the folder stays small. Run as a program, it prints a table."""

from __future__ import annotations

from tests.support.golden.case import Case
from tests.support.golden.cases import CASES, cases_of
from tests.support.servers.catalogue import SERVERS

__all__ = ["as_markdown", "recorded_on"]

_EVERYWHERE = ("cascades", "savepoints-mixed", "statement-forms", "statements-logged", "xa-commit", "xa-interleaved")
_SOME = {
    "mariadb-10.1": (
        "altered-between",
        "binaries",
        "bits",
        "checksum-crc32",
        "checksum-none",
        "datetimes",
        "decimals",
        "enums",
        "floats",
        "generated",
        "geometries",
        "integers",
        "old-temporals",
        "sets",
        "statement-load",
        "statement-settings",
        "times-edge",
        "timestamps",
        "triggers",
        "varchars",
        *_EVERYWHERE,
    ),
    "mariadb-10.11": (
        "application-periods",
        "collations-uca1400",
        "compressed-columns",
        "compressed-events",
        "generated",
        "image-minimal-generated",
        "invisible",
        "json-text",
        "metadata-minimal",
        "metadata-no-log",
        "old-decimal",
        "old-decimal-among",
        "old-decimal-shapes",
        "old-temporals",
        "old-varchar",
        "hash-keys",
        "hash-keys-unnamed",
        "sequences",
        "statement-load",
        "statement-settings",
        "uuid-inet",
        "versioned",
        "versioned-history",
        "versioned-transactions",
        "versioned-ways",
        "xa-savepoint",
        *_EVERYWHERE,
    ),
    "mariadb-11.8": (
        "chars",
        "charsets-wide",
        "compressed-columns",
        "generated",
        "image-full-nodup",
        "image-minimal-generated",
        "image-mixed",
        "invisible",
        "metadata-minimal",
        "old-temporals",
        "hash-keys",
        "hash-keys-unnamed",
        "sets",
        "statement-load",
        "statement-settings",
        "timestamps",
        "timestamps-2106",
        "uuid-inet",
        "vectors",
        "versioned",
        "versioned-history",
        "versioned-ways",
        *_EVERYWHERE,
    ),
}
"""Servers between the oldest and the newest: what differs there, and a few of each kind. Others have every case."""
_LARGE = ("charsets-one-byte", "compressed-events-long", "decimal-groups", "many-events", "wide")
_LARGE_ON = ("mariadb-11.4", "mysql-9.7")


def recorded_on(server: str) -> dict[str, Case]:
    """The cases that are recorded on that server, by name."""
    there = cases_of(server)
    names = _SOME.get(server) or [name for name in there if name not in _LARGE or server in _LARGE_ON]
    return {name: there[name] for name in names}


def as_markdown() -> str:
    """The table of README.md: a row a case, a column a server."""
    recorded = {row.name: recorded_on(row.name) for row in SERVERS}
    lines = [f"| case | {' | '.join(recorded)} |", "|---" * (len(recorded) + 1) + "|"]
    for name in dict.fromkeys(case.name for case in CASES):
        marks = ("x" if name in there else "" for there in recorded.values())
        lines += [f"| {name} | {' | '.join(marks)} |"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(as_markdown(), end="")
