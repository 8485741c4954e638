"""A binlog file's first event: who wrote the file, and whether its events have checksums.

Body: format u16, server version 50 bytes, created u32, size of an event header u8, size of each type's fixed part;
servers that know checksums add their algorithm and always four bytes of footer, of which the footer is a checksum only
where the algorithm says so. Which servers do is told by their version, as the servers themselves decide it.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Final

from include.errors import Terminal
from include.record.gtid import Flavour
from include.source.binlog.event_type import SPOILT

__all__ = ["DESCRIPTION_BYTES", "FormatDescription", "parse_format_description"]

DESCRIPTION_BYTES: Final = 19 + 57
"""The least that such an event has."""
_FIXED: Final = struct.Struct("<H50sIB")
_FORMAT, _HEADER_BYTES = 4, 19
# Fixed parts that the parsers of bodies rest on, by type: QUERY, TABLE_MAP, rows of version 1 and 2.
_EXPECTED: Final = {2: 13, 19: 8, 23: 8, 24: 8, 25: 8, 30: 10, 31: 10, 32: 10}
# MariaDB describes its own types from 160 on, whatever version text a DBA has given the server.
_MARIADB_TYPES: Final = 160
_NUMBERS: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """`created` is not 0 where the server began the file at its own start; `footer`: four bytes end the event."""

    server_version: str
    flavour: Flavour
    checksum: bool
    created: int
    footer: bool = True


def parse_format_description(data: bytes, file: str) -> FormatDescription:
    """Read the whole event, header and all; raises `Terminal` for a format or algorithm that is not known."""
    form, raw, created, header = _FIXED.unpack_from(data, 19)
    version = raw.rstrip(b"\0").decode("utf-8", "replace")
    if form != _FORMAT or header != _HEADER_BYTES:
        raise Terminal(
            "the binlog has a format that is not read",
            file=file,
            format=form,
            header=header,
            server_version=version,
            fix="MySQL 5.0 and all later servers write format 4, with headers of 19 bytes.",
        )
    numbers = _NUMBERS.match(version)
    if numbers is None:
        raise Terminal("format description without a server version", file=file, server_version=version, fix=SPOILT)
    number = tuple(map(int, numbers.groups()))
    named = "mariadb" in version.lower() or "-maria-" in version.lower()
    footer = number >= ((5, 3, 0) if named else (5, 6, 1))
    sizes = data[DESCRIPTION_BYTES : len(data) - 5 if footer else len(data)]
    flavour: Flavour = "mariadb" if named or len(sizes) >= _MARIADB_TYPES else "mysql"
    if footer and len(data) < DESCRIPTION_BYTES + 5:
        raise Terminal("format description is cut short", file=file, fix=SPOILT)
    for code, size in _EXPECTED.items():
        # MySQL from 8.4 on knows version 1 of rows no more and describes it as of size 0.
        if code <= len(sizes) and sizes[code - 1] not in (0, size):
            raise Terminal(
                "the binlog describes its events in a way that is not read", file=file, type=code, fix=SPOILT
            )
    algorithm = data[-5] if footer else 0
    if algorithm not in (0, 1):
        raise Terminal(
            "the binlog's checksums are of a kind that is not known",
            file=file,
            algorithm=algorithm,
            allowed=[0, 1],
            fix="Set binlog_checksum = CRC32, or NONE.",
        )
    return FormatDescription(version, flavour, algorithm == 1, created, footer)
