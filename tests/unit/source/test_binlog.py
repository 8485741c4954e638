from __future__ import annotations

import random
import struct
import zlib

import pytest

from include.errors import Fenced, Terminal, Transient
from include.source.binlog import EventReader, EventType, Packets
from include.source.decode import RowDecoder
from include.source.definition import SourceDefinition
from include.source.tables import Catalog
from include.source.transaction import Heartbeat, Rows, SourceTransaction, TransactionBuilder
from tests.mariadb_golden import COLLATIONS, info, made_event, raw_events, sealed, transactions

SOURCE = SourceDefinition(host="db", port=3306, user="u", password="p", databases=["shop"])


class Socket:
    """Gives out prepared pieces; an empty piece is the end, None a time-out."""

    def __init__(self, *pieces: bytes | None) -> None:
        self.pieces = list(pieces)

    def recv(self, size: int) -> bytes:
        piece = self.pieces.pop(0)
        if piece is None:
            raise TimeoutError
        return piece

    def settimeout(self, seconds: float | None) -> None:
        assert seconds


def packet(payload: bytes, number: int = 0) -> bytes:
    return struct.pack("<I", len(payload))[:3] + bytes((number & 255,)) + payload


def test_packets_are_whole_wherever_the_network_cuts_them() -> None:
    wire = b"".join(packet(b"\0" + data) for data in raw_events())
    for size in (1, 7, 100, len(wire)):
        pieces = [wire[i : i + size] for i in range(0, len(wire), size)]
        packets = Packets(Socket(*pieces), SOURCE)
        assert [packets.next(1.0) for _ in raw_events()] == raw_events()


def test_nothing_is_lost_when_time_runs_out_inside_a_packet() -> None:
    wire = packet(b"\0hello")
    packets = Packets(Socket(wire[:3], None, wire[3:7], None, wire[7:]), SOURCE)
    assert [packets.next(0.1), packets.next(0.1), packets.next(0.1)] == [None, None, b"hello"]


def test_an_event_of_over_16_megabytes_comes_in_one_piece() -> None:
    data = random.Random(1).randbytes(0xFFFFFF + 10)
    first, rest = b"\0" + data[: 0xFFFFFF - 1], data[0xFFFFFF - 1 :]
    assert Packets(Socket(packet(first) + packet(rest, 1)), SOURCE).next(1.0) == data


def test_a_closed_connection_is_tried_again() -> None:
    for socket in (Socket(b""), Socket(packet(b"\xfe\0\0\0\0"))):
        with pytest.raises(Transient, match="broke"):
            Packets(socket, SOURCE).next(1.0)


def test_a_purged_binlog_stops_the_source_with_the_way_out() -> None:
    said = b"\xff" + struct.pack("<H", 1236) + b"#HY000Could not find GTID state requested by slave"
    with pytest.raises(Terminal, match=r"cannot go on.*--anew"):
        Packets(Socket(packet(said)), SOURCE).next(1.0)


def test_a_replica_of_the_same_id_fences() -> None:
    said = b"\xff" + struct.pack("<H", 1236) + b"#HY000A slave with the same server_uuid/server_id has connected"
    with pytest.raises(Fenced):
        Packets(Socket(packet(said)), SOURCE).next(1.0)


def test_every_flipped_byte_is_refused() -> None:
    described = raw_events()[:2]
    for data in raw_events()[2:6]:
        for place in range(len(data)):
            reader = EventReader()
            for before in described:
                reader.parse(before)
            broken = data[:place] + bytes((data[place] ^ 0x40,)) + data[place + 1 :]
            with pytest.raises(Terminal):
                reader.parse(broken)


def test_a_file_without_checksums_is_read_too() -> None:
    reader = EventReader()
    description = bytearray(raw_events()[1])
    description[-5] = 0
    reader.parse(bytes(description))
    plain = raw_events()[2][:-4]
    plain = plain[:9] + struct.pack("<I", len(plain)) + plain[13:]
    assert reader.parse(plain).body == EventReader().parse(raw_events()[2]).body


def test_an_event_of_any_other_type_stops_the_source() -> None:
    data = raw_events()[2]
    for code in set(range(256)) - set(EventType):
        with pytest.raises(Terminal, match=rf"type={code},"):
            EventReader().parse(sealed(data[:4] + bytes((code,)) + data[5:]))


def test_no_event_cut_short_crashes() -> None:
    tables = {("lyregold", "types"): info("lyregold.types")}
    refused = 0
    for number, data in enumerate(raw_events()):
        for cut in range(19, len(data) - 4, max(1, len(data) // 12)):
            try:
                _steps([*raw_events()[:number], sealed(data[:cut] + b"\0\0\0\0")], tables)
            except Terminal:
                refused += 1
    # What passes is text that ends early, and rows, which nobody reads before their commit.
    assert refused > 60


def test_a_rows_event_cut_at_any_byte_is_refused() -> None:
    written = [step for found in transactions() for step in found.steps if isinstance(step, Rows)]
    step = max(written, key=lambda each: len(each.body))
    decoder = RowDecoder(step.table, info("lyregold.types").schema().columns)
    assert len(list(decoder.rows(step.op, step.body))) == 1
    # After the columns' bitmap the event is a legal one without rows.
    for cut in [c for c in range(len(step.body)) if c != 1 + 7]:
        with pytest.raises(Terminal):
            list(decoder.rows(step.op, step.body[:cut]))


def test_a_heartbeat_counts_only_between_transactions() -> None:
    builder = TransactionBuilder(lambda *_: True, 1000)
    heartbeat = made_event(EventType.HEARTBEAT, b"bin.000001")
    assert isinstance(builder.on_event(heartbeat), Heartbeat)
    builder.on_event(made_event(EventType.GTID, struct.pack("<QIB", 1, 0, 0)))
    assert builder.on_event(heartbeat) is None


def test_rows_of_a_table_that_no_map_names_stop_the_source() -> None:
    builder = TransactionBuilder(lambda *_: True, 1000)
    builder.on_event(made_event(EventType.GTID, struct.pack("<QIB", 1, 0, 0)))
    with pytest.raises(Terminal, match="no map names"):
        builder.on_event(made_event(EventType.WRITE_ROWS, b"\x09\0\0\0\0\0\x01\0\x01\x01"))


def test_xa_and_oversized_transactions_are_refused_by_name() -> None:
    builder = TransactionBuilder(lambda *_: True, 10)
    with pytest.raises(Terminal, match="XA"):
        builder.on_event(made_event(EventType.GTID, struct.pack("<QIB", 1, 0, 0x40)))
    builder.on_event(made_event(EventType.GTID, struct.pack("<QIB", 2, 0, 0)))
    with pytest.raises(Terminal, match=r"larger than capture takes.*0-1-2.*transaction_bytes"):
        builder.on_event(made_event(EventType.TABLE_MAP, b"x" * 30))


def _steps(raw: list[bytes], tables: dict[tuple[str, str], object]) -> int:
    reader, builder = EventReader(), TransactionBuilder(lambda database, _table: database == "lyregold", 1 << 20)
    catalog, seen = Catalog(lambda: (tables, COLLATIONS)), 0  # type: ignore[arg-type,return-value]
    for data in raw:
        assert zlib.crc32(data[:-4]) == struct.unpack("<I", data[-4:])[0]
        item = builder.on_event(reader.parse(data))
        steps = list(item.steps) if isinstance(item, SourceTransaction) else []
        for step in steps:
            if isinstance(step, Rows) and step.table.table == "types":
                schema = catalog.schema(step.table)
                seen += len(list(RowDecoder(step.table, schema.columns).rows(step.op, step.body)))
    return seen
