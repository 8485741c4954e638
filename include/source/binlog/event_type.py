"""The types of events that are read, and what to do about those that are not."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

__all__ = ["ADVICE", "KINDS", "SPOILT", "EventType"]


class EventType(IntEnum):
    """The types that may stand in a binlog that we read; all others are refused.

    Without rows, and passed: STOP, IGNORABLE, PREVIOUS_GTIDS, TRANSACTION_CONTEXT, VIEW_CHANGE, CHECKPOINT,
    GTID_LIST; and what belongs to a statement that is logged as text: INTVAR, RAND, USER_VAR, and the file of a LOAD
    DATA in APPEND_BLOCK, DELETE_FILE, BEGIN_LOAD_QUERY. Every other one is decoded. START_ENCRYPTION passes where a
    server marks it as one to ignore, as it does when it sends what it has decrypted; in a file it says that the rest
    cannot be read.
    """

    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    APPEND_BLOCK = 9
    DELETE_FILE = 11
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    WRITE_ROWS = 23
    UPDATE_ROWS = 24
    DELETE_ROWS = 25
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS_V2 = 30
    UPDATE_ROWS_V2 = 31
    DELETE_ROWS_V2 = 32
    MYSQL_GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    TAGGED_GTID = 42
    ANNOTATE = 160
    CHECKPOINT = 161
    GTID = 162
    GTID_LIST = 163
    START_ENCRYPTION = 164
    QUERY_COMPRESSED = 165
    WRITE_ROWS_COMPRESSED = 166
    UPDATE_ROWS_COMPRESSED = 167
    DELETE_ROWS_COMPRESSED = 168
    WRITE_ROWS_COMPRESSED_V2 = 169
    UPDATE_ROWS_COMPRESSED_V2 = 170
    DELETE_ROWS_COMPRESSED_V2 = 171


_READ: Final = {int(kind): kind for kind in EventType if kind is not EventType.START_ENCRYPTION}
KINDS: Final[tuple[EventType | None, ...]] = tuple(_READ.get(code) for code in range(256))
"""The type of each code from 0 to 255; None: refused, but for START_ENCRYPTION as said there."""
ADVICE: Final[dict[int, str]] = {
    1: "The binlog is of a server before MySQL 5.0.",
    **dict.fromkeys((6, 7, 8, 10, 12), "LOAD DATA was logged in a form of before MySQL 5.0."),
    **dict.fromkeys((20, 21, 22), "The server writes rows in a form of before MySQL 5.1."),
    26: "The server lost events (INCIDENT): run `lyrebird capture run --source … --snapshot --anew`.",
    164: "The file is encrypted: read it over a connection, or set encrypt_binlog = OFF.",
    172: "MariaDB split a large rows event: raise binlog_row_event_fragment_threshold.",
}
"""The next step where a code is refused for a reason that is known."""
SPOILT: Final = "Check the server's disk and the network; capture goes on from its last position when started."
"""The next step where bytes are not as they should be."""
