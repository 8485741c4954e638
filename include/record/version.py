"""Row versions: integers below 2**53 that grow with each change of a key (design.md §4).

A version is epoch (9 bits) and number (44 bits): the epoch is declared and raised for a new lineage only, the
number is what the topic's scheme counts. It travels in the record header `version` as decimal ASCII digits, so
that any tool can read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from include.errors import InvalidRecord, Terminal

__all__ = [
    "HEADER",
    "MAX_EPOCH",
    "MAX_NUMBER",
    "epoch_of",
    "from_headers",
    "number_of",
    "pack",
    "to_header",
    "version_of",
]

HEADER: Final = "version"
MAX_EPOCH: Final = (1 << 9) - 1
MAX_NUMBER: Final = (1 << 44) - 1


def pack(epoch: int, number: int) -> int:
    """Version of `number` in `epoch`; raises `Terminal` when either does not fit."""
    if not 0 <= epoch <= MAX_EPOCH:
        raise Terminal("version epoch out of range", epoch=epoch, allowed=f"0..{MAX_EPOCH}")
    if not 0 <= number <= MAX_NUMBER:
        raise Terminal(
            "version number out of range",
            number=number,
            allowed=f"0..{MAX_NUMBER}",
            fix="Raise the epoch in the deployment file.",
        )
    return (epoch << 44) | number


def epoch_of(version: int) -> int:
    """The lineage."""
    return version >> 44


def number_of(version: int) -> int:
    """The count within the lineage."""
    return version & MAX_NUMBER


def to_header(version: int) -> tuple[str, bytes]:
    """The header that a record of this version carries."""
    return HEADER, b"%d" % version


def from_headers(headers: Iterable[tuple[str, bytes | None]]) -> int:
    """The version in a record's headers (the last, should there be several); raises `InvalidRecord` without one."""
    version: bytes | None = None
    for name, value in headers:
        if name == HEADER:
            version = value
    if version is None or not version.isdigit() or int(version) >= 1 << 53:
        raise InvalidRecord("record has no valid version header", reason="version", value=version)
    return int(version)


def version_of(headers: Iterable[tuple[str, bytes | None]], offset: int, *, change: bool) -> int:
    """The version of the record at `offset`; of one that has none its place in the partition, which grows as well.

    Raises `InvalidRecord` for one of a change topic without a version, and for one that is none.
    """
    headers = tuple(headers)
    if change or any(name == HEADER for name, _ in headers):
        return from_headers(headers)
    return offset + 1
