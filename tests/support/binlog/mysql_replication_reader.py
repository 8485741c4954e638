"""The library mysql-replication, fed with events of a file: what it makes of rows that Lyrebird reads too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from include.record.gtid import Flavour
from include.source.binlog.reader import EventType

__all__ = ["rows_of_mysql_replication"]


def rows_of_mysql_replication(
    events: Iterable[bytes], flavour: Flavour, version: tuple[int, int, int]
) -> Iterator[dict[str, Any]]:
    """Values by column of each image that it finds; raises what it raises. Checksums must be CRC32."""
    from pymysql.protocol import MysqlPacket
    from pymysqlreplication.packet import BinLogPacketWrapper
    from pymysqlreplication.row_event import DeleteRowsEvent, RowsEvent, TableMapEvent, UpdateRowsEvent, WriteRowsEvent

    kinds = frozenset((TableMapEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent))
    control = SimpleNamespace(charset="utf8", _get_dbms=lambda: flavour)
    maps: dict[int, Any] = {}
    sizes = None
    for data in events:
        if data[4] == EventType.FORMAT_DESCRIPTION:
            sizes = list(data[19 + 57 : -5])
        packet = BinLogPacketWrapper(
            MysqlPacket(b"\0" + data, "utf8"), maps, control, version, True, kinds,
            None, None, None, None, False, False, False, True, False, False, sizes,
        )  # fmt: skip
        if isinstance(packet.event, TableMapEvent):
            maps[packet.event.table_id] = packet.event.get_table()
        elif isinstance(packet.event, RowsEvent):
            for row in packet.event.rows:
                yield from (row[side] for side in ("values", "before_values", "after_values") if side in row)
