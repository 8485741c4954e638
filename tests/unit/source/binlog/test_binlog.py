"""Packets, headers, checksums, positions, and which types of events pass."""

from __future__ import annotations

import random
import socket
import ssl
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from include.errors import Fenced, Terminal, Transient
from include.source.binlog.reader import EventReader, EventType, Packets
from include.source.definition import SourceDefinition
from tests.support.binlog.builder import description, query_body, raw, rotate
from tests.support.binlog.recorded_mariadb import raw_events, sealed

SOURCE = SourceDefinition(host="db", port=3306, user="u", password=SecretStr("p"), databases=["shop"])
# What a server may write that carries no rows, or rows that we decode.
ROWLESS = {3, 5, 9, 11, 13, 14, 17, 28, 35, 36, 37, 161, 163}
DECODED = {2, 4, 15, 16, 18, 19, 27, 29, 33, 34, 38, 40, 41, 42, 160, 162, 165}
ROWS = {23, 24, 25, 30, 31, 32, 39, *range(166, 172)}


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


def test_a_reader_without_time_takes_what_is_here_and_does_not_wait() -> None:
    wire = packet(b"\0hello")
    ours, server = socket.socketpair()
    with ours, server:
        packets = Packets(ours, SOURCE)
        server.sendall(wire[:3])
        assert packets.next(0.0) is None
        assert packets.next(0.0) is None
        server.sendall(wire[3:])
        assert packets.next(0.0) == b"hello"


@pytest.mark.parametrize("busy", [ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError])
def test_a_connection_that_may_not_wait_is_not_taken_for_broken(busy: type[OSError]) -> None:
    class Busy(Socket):
        def recv(self, _size: int) -> bytes:
            raise busy

    assert Packets(Busy(), SOURCE).next(1.0) is None


@pytest.mark.parametrize("size", [0xFFFFFE, 0xFFFFFF, 0xFFFFFF + 10])
def test_an_event_of_over_16_megabytes_comes_in_one_piece(size: int) -> None:
    data = random.Random(1).randbytes(size)
    first, rest = b"\0" + data[: 0xFFFFFF - 1], data[0xFFFFFF - 1 :]
    wire = packet(first) + (packet(rest, 1) if len(first) == 0xFFFFFF else b"")
    assert Packets(Socket(wire), SOURCE).next(1.0) == data


def test_a_closed_connection_is_tried_again() -> None:
    for closed in (Socket(b""), Socket(packet(b"\xfe\0\0\0\0"))):
        with pytest.raises(Transient, match=r"broke"):
            Packets(closed, SOURCE).next(1.0)


def test_a_purged_binlog_stops_the_source_with_the_way_out() -> None:
    said = b"\xff" + struct.pack("<H", 1236) + b"#HY000Could not find GTID state requested by slave"
    with pytest.raises(Terminal, match=r"cannot go on.*--anew"):
        Packets(Socket(packet(said)), SOURCE).next(1.0)


def test_a_replica_of_the_same_id_fences() -> None:
    said = b"\xff" + struct.pack("<H", 1236) + b"#HY000A slave with the same server_uuid/server_id has connected"
    with pytest.raises(Fenced):
        Packets(Socket(packet(said)), SOURCE).next(1.0)


@pytest.mark.parametrize("code", range(256))
def test_each_type_of_event_is_known_to_be_harmless_or_decoded_or_stops_the_source(code: int) -> None:
    data = raw(code, query_body("BEGIN"), end=777)
    if code in ROWLESS | (DECODED | ROWS) - {4, 15}:
        assert EventReader().parse(data).type == code
    elif code in (4, 15):
        with pytest.raises(Terminal, match=r"rotate event|format"):
            EventReader().parse(data)
    else:
        with pytest.raises(Terminal, match=rf"type that is not read \(type={code}, file='bin.000009', pos=777\)\. .+"):
            EventReader("bin.000009").parse(data)


def test_no_flag_makes_an_event_of_unknown_type_pass() -> None:
    with pytest.raises(Terminal, match=r"type that is not read"):
        EventReader().parse(raw(99, b"", flags=0x80))


def test_encryption_stops_the_reader_of_a_file_but_not_of_what_the_server_decrypted() -> None:
    with pytest.raises(Terminal, match="read it over a connection") as refused:
        EventReader().parse(raw(164, b"\x01" + bytes(16), end=300))
    assert refused.value.details["type"] == 164
    reader = EventReader()
    reader.parse(rotate("bin.000001", 5000))
    reader.parse(description())
    assert reader.parse(raw(164, b"\x01" + bytes(16), flags=0x80)).log_pos == 5000
    assert reader.parse(raw(2, b"x", end=5024)).log_pos == 5024


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


def test_checksums_are_as_each_file_describes_them() -> None:
    reader = EventReader()
    for summed in (True, False, True):
        reader.parse(rotate("bin.000001"))
        reader.parse(description(checksum=summed))
        assert reader.parse(raw(2, b"body", checksum=summed)).body == b"body"


def test_a_file_of_a_server_without_checksums_is_read_by_its_version() -> None:
    for version in ("5.5.62-log", "5.6.0", "5.2.14-MariaDB"):
        reader = EventReader()
        reader.parse(description(version, checksum=None, types=27))
        assert reader.parse(raw(2, b"body", checksum=False)).body == b"body"
    for version in ("5.6.1", "5.3.0-MariaDB"):
        reader = EventReader()
        reader.parse(description(version, checksum=True, types=34))
        assert reader.parse(raw(2, b"body")).body == b"body"


def test_an_unknown_algorithm_of_checksums_is_refused() -> None:
    data = bytearray(description())
    data[-5] = 2
    with pytest.raises(Terminal, match="of a kind that is not known") as refused:
        EventReader().parse(sealed(bytes(data)))
    assert refused.value.details["algorithm"] == 2


def test_a_binlog_of_another_format_is_refused() -> None:
    data = bytearray(description())
    data[19] = 3
    with pytest.raises(Terminal, match="format that is not read") as refused:
        EventReader().parse(sealed(bytes(data)))
    assert refused.value.details["format"] == 3


def test_a_file_that_was_copied_while_in_use_keeps_its_checksum() -> None:
    data = bytearray(description(created=9))
    data[17] |= 1
    assert EventReader().parse(bytes(data)).type is EventType.FORMAT_DESCRIPTION


def test_the_first_rotate_may_have_a_checksum_or_not_whatever_the_file_has() -> None:
    for sent in (True, False):
        for stored in (True, False):
            reader = EventReader()
            event = reader.parse(rotate("mysql-bin.000042", 4711, checksum=sent))
            assert (event.file, event.log_pos) == ("mysql-bin.000042", 4711)
            reader.parse(description(checksum=stored))
            assert reader.parse(raw(2, b"x", checksum=stored)).file == "mysql-bin.000042"


def test_a_rotate_to_a_place_that_no_file_has_is_refused() -> None:
    with pytest.raises(Terminal, match=r"names a place that no file has"):
        EventReader().parse(rotate("bin.000001", 1 << 63))


def test_a_rotate_whose_checksum_fails_is_refused() -> None:
    data = bytearray(rotate("bin.000001"))
    data[-1] ^= 0xFF
    with pytest.raises(Terminal, match=r"rotate event fails its checksum"):
        EventReader().parse(bytes(data))


@pytest.mark.parametrize(
    ("version", "types", "flavour"),
    [
        ("5.6.21-log", 35, "mysql"),
        ("8.0.40", 41, "mysql"),
        ("10.1.13-MariaDB", 163, "mariadb"),
        ("11.4.5-MariaDB-log", 171, "mariadb"),
        ("10.6.12-8-mariadb-enterprise", 171, "mariadb"),
        ("8.0.99-hidden", 171, "mariadb"),
    ],
)
def test_the_flavour_is_told_by_the_description(version: str, types: int, flavour: str) -> None:
    reader = EventReader()
    reader.parse(description(version, types=types))
    assert (reader.flavour, reader.server_version) == (flavour, version)
    assert reader.parse(raw(2, b"")).flavour == flavour


def test_positions_grow_beyond_32_bits() -> None:
    reader = EventReader()
    start = 2**32 - 50
    reader.parse(rotate("bin.000001", start))
    reader.parse(description())
    first = raw(2, b"x" * 60)
    assert reader.parse(raw(2, b"x" * 60, end=start + len(first))).log_pos == start + len(first)
    reader.parse(raw(2, b"not stated"))
    end = start + 3 * len(first)
    assert reader.parse(raw(2, b"x", end=end)).log_pos == end


def test_a_dump_that_begins_far_inside_of_a_file_knows_where() -> None:
    for end in (3 * 2**30, 2**32 - 10):
        reader = EventReader()
        reader.parse(rotate("bin.000001"))
        reader.parse(description())
        assert reader.parse(raw(162, bytes(19), end=end)).log_pos == end


@given(
    st.lists(st.tuples(st.integers(0, 300), st.booleans(), st.integers(0, 2**32 - 100_000)), max_size=40),
    st.integers(4, 2**40),
)
def test_positions_are_exact_where_they_are_stated(events: list[tuple[int, bool, int]], start: int) -> None:
    reader = EventReader()
    reader.parse(rotate("bin.000001", start))
    reader.parse(description())
    true = start
    for size, stated, left_out in events:
        true += len(raw(2, b"x" * size)) + (left_out if stated else 0)
        found = reader.parse(raw(2, b"x" * size, end=true if stated and true & 0xFFFFFFFF else 0))
        if stated and true & 0xFFFFFFFF:
            assert found.log_pos == true


def test_what_stands_in_no_file_moves_no_position() -> None:
    reader = EventReader()
    reader.parse(rotate("bin.000003", 1000))
    reader.parse(description())
    assert reader.parse(raw(163, b"\0" * 4, flags=0x20)).log_pos == 1000
    assert reader.parse(raw(27, b"bin.000003", end=1000)).log_pos == 1000
    assert reader.parse(raw(27, b"bin.000003", end=5000)).log_pos == 5000


def test_an_event_cut_inside_of_its_header_is_refused() -> None:
    for size in range(23):
        with pytest.raises(Terminal, match=r"cut short|another size"):
            EventReader().parse(raw(16, b"12345678")[:size])
