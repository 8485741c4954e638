"""Threads that read chunks: the stream's thread never waits for a server, and a key that changes loses no range."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from include.clock import SystemClock
from include.errors import Transient
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.record.schema import Column, TableSchema
from include.source.database.table_info import TableInfo
from include.source.definition import SourceDefinition
from include.source.rows.shape import EncodedImage, TableShape
from include.source.snapshot.chunk import Chunk, ChunkFailed, ChunkPiece
from include.source.snapshot.held import SpooledRows
from include.source.snapshot.reader import DescribedTable, Measure
from include.source.snapshot.readers import ChunkReaders
from include.source.snapshot.table_reading import TableReading
from include.source.snapshot.watermark_window import SnapshotSpan, StreamPlace
from include.source.state.key_range import WHOLE

COLUMNS = (Column("id", "int"), Column("other", "int"))
SHAPE = TableShape(COLUMNS, TableSchema("s", "t", COLUMNS, ("id",)))
AT = SourcePosition("mariadb", MariadbGtidSet(), BinlogPosition("bin.000001", 4), 0)
PATIENCE_S = 10.0


class Server:
    """Has one table, of 40 rows by any of its two keys; the three `on_…` are told which reader asks, and may wait."""

    def __init__(self) -> None:
        self.key = "id"
        self.readers = 0
        # Lists of images that a SELECT gives.
        self.lists = 1
        self.on_open: Callable[[int], None] = lambda _reader: None
        # The second: whether a snapshot is open.
        self.on_describe: Callable[[int, bool], None] = lambda _reader, _open: None
        self.on_end: Callable[[int], None] = lambda _reader: None

    def reader(self, *_: Any) -> Any:
        self.readers += 1
        return Reader(self, self.readers)


class Reader:
    def __init__(self, server: Server, number: int) -> None:
        self.server, self.number, self.opened = server, number, False

    def describe(self, database: str, table: str) -> DescribedTable:
        self.server.on_describe(self.number, self.opened)
        info = TableInfo(database, table)
        info.columns, info.key = list(COLUMNS), (self.server.key,)
        return DescribedTable(info, self.server.key)

    def measure(self, *_: str) -> Measure:
        return Measure(40, 400)

    def open(self, _beyond: SourcePosition) -> SnapshotSpan:
        self.server.on_open(self.number)
        self.opened = True
        return SnapshotSpan(AT, AT)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The key that ends a chunk: its tenth row's."""
        after = int(sql.partition(" > ")[2].split()[0]) if " > " in sql else 0
        return [(after + 10,)] if after + 10 < 40 else []

    def select(self, sql: str, _shape: TableShape) -> Iterator[list[EncodedImage]]:
        for _ in range(self.server.lists):
            yield [EncodedImage(sql.encode(), b"", None)]

    def end(self) -> None:
        self.opened = False
        self.server.on_end(self.number)

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        pass


def readers(server: Server, workers: int) -> ChunkReaders:
    source = SourceDefinition(
        host="h", port=1, user="u", password=SecretStr("p"), databases=["s"], snapshot_workers=workers
    )
    reading = TableReading("s.t", (WHOLE,), "", "", 10, 1 << 20)
    return ChunkReaders(source, SystemClock(), [reading], 0, lambda _info: SHAPE, StreamPlace(0, AT), server.reader)


def within_patience(action: Callable[[], Any]) -> bool:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    return not thread.is_alive()


def test_the_streams_thread_does_not_wait_while_the_server_lets_a_reader_wait() -> None:
    asked, answers = threading.Event(), threading.Event()

    def wait(*_: Any) -> None:
        asked.set()
        answers.wait(PATIENCE_S * 3)

    server = Server()
    server.on_describe = wait
    made = readers(server, 2)
    try:
        assert asked.wait(PATIENCE_S)
        assert within_patience(made.oldest)
        assert within_patience(lambda: made.leave_out("s.t"))
        assert made.take() is None
    finally:
        answers.set()
        made.stop()


def test_a_key_that_changes_under_several_readers_leaves_no_range_unread() -> None:
    both, anew, server = threading.Barrier(2), threading.Event(), Server()

    def on_describe(_reader: int, opened: bool) -> None:
        if opened and server.key == "id":
            both.wait(PATIENCE_S)
            server.key = "other"

    def on_open(reader: int) -> None:
        if server.key == "other" and reader == 1:
            anew.set()

    def on_end(reader: int) -> None:
        # The slower one, which knows of the other key, comes when the table has been begun anew.
        if reader == 2:
            anew.wait(PATIENCE_S)

    server.on_describe, server.on_open, server.on_end = on_describe, on_open, on_end
    made = readers(server, 2)
    read: list[str] = []
    try:
        assert within_patience(lambda: finished(made, read))
    finally:
        both.abort()
        anew.set()
        made.stop()
    assert sorted(sql.partition("WHERE ")[2] for sql in read) == [
        "`other` <= 10", "`other` > 10 AND `other` <= 20", "`other` > 20 AND `other` <= 30", "`other` > 30",
    ]  # fmt: skip


def finished(made: ChunkReaders, read: list[str]) -> None:
    """Take in all pieces until nothing is left; `read` gets the SELECT of each chunk that counted."""
    rows: dict[int, str] = {}
    while True:
        item = made.take()
        assert not isinstance(item, ChunkFailed), item
        if not isinstance(item, ChunkPiece):
            continue
        if item.images:
            rows[id(item.chunk)] = item.images[0].row.decode()
        elif item.last:
            left = made.finish(item.chunk)
            if left is not None:
                read.append(rows[id(item.chunk)])
                if not left.ranges:
                    return


def test_no_snapshot_is_open_while_a_chunk_waits_for_the_stream() -> None:
    ended, server = threading.Event(), Server()
    # More than there is room for, and nobody takes any.
    server.lists = 200
    server.on_end = lambda _reader: ended.set()
    made = readers(server, 1)
    try:
        assert ended.wait(PATIENCE_S)
        # It is handed over only then.
        end = time.monotonic() + PATIENCE_S
        while (piece := made.take()) is None and time.monotonic() < end:
            time.sleep(0.01)
        assert isinstance(piece, ChunkPiece)
    finally:
        made.stop()


def test_a_chunk_larger_than_memory_waits_on_disk_and_comes_out_whole(tmp_path: Path) -> None:
    held = SpooledRows(1000, str(tmp_path))
    chunk = Chunk("s.t", WHOLE, StreamPlace(0, AT))
    pieces = [
        ChunkPiece(chunk, [EncodedImage(b"%d" % n * 300, b"key%d" % n, None if n % 2 else b"")] * 2, AT)
        for n in range(9)
    ] + [ChunkPiece(chunk, [], AT, last=True)]
    for piece in pieces:
        held.append(piece)
    assert list(held) == pieces
    assert sum(bool(piece.images) for piece in held._pieces) == 1
    assert list(tmp_path.iterdir()) == []
    held.close()


def test_a_disk_that_cannot_hold_a_chunk_is_told_with_its_folder(tmp_path: Path) -> None:
    held = SpooledRows(0, str(tmp_path / "missing"))
    with pytest.raises(Transient, match="missing"):
        held.append(ChunkPiece(Chunk("s.t", WHOLE, StreamPlace(0, AT)), [EncodedImage(b"row", b"key", None)], AT))
