"""The compiled event loop of `include.source.native`: raw events → runs of plain source transactions.

A group of events is plain when each of them is whole, fits its checksum and is one of: GTID of either flavour or
MySQL's anonymous one, QUERY BEGIN and COMMIT, ANNOTATE, ROWS_QUERY, TABLE_MAP that is known, uncompressed rows of
version 1 and 2 of tables announced in their statement, XID; without XA, orphans, or more bytes than memory may hold.
Not for use from several threads.
"""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from include.record.position import BinlogPosition
from include.source.native import RunParts

R = TypeVar("R")
"""`binlog.step.PlainRun`."""
T = TypeVar("T")
"""`binlog.step.SourceTransaction`."""

class PlainGroups(Generic[R, T]):
    """`known`: what follows the id in a map's body → an object whose `table` is the map, None: nobody captures it.

    Raises `ValueError` for classes of other slots than it knows.
    """

    def __init__(
        self,
        known: Mapping[bytes, object],
        run: type[R],
        transaction: type[T],
        rows: type[Any],
        place: type[BinlogPosition],
        text: type[Any],
        memory_bytes: int,
    ) -> None: ...
    def forget(self) -> None:
        """`known` was emptied."""

    def take(
        self, data: bytes | bytearray, at: int, framed: bool, file: str, end: int, checksum: bool
    ) -> tuple[list[R], int, int, bool]:
        """Runs from `data[at]` on; where they end there, and in `file`; whether more bytes may give more.

        `framed`: each event in a packet; `end`: the byte in `file` where the first event begins, 0 when not known.
        """
    def transactions(self, prefix: str, first: int, file: str, tables: tuple[Any, ...], parts: RunParts) -> list[T]:
        """Those of a run; raises `ValueError` for parts that do not fit together."""

def crc32(data: bytes, ways: int = 2) -> int:
    """The checksum as zlib has it; `ways` 1, 0: as on processors that multiply less at once, or not at all."""

FORM: int
