"""One table of a snapshot: cut into chunks, each read in a snapshot of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from include.errors import Terminal
from include.source.database.table_info import TableInfo
from include.source.rows.shape import TableShape
from include.source.rows.text import select_list
from include.source.snapshot.chunk import Chunk, ChunkPiece
from include.source.snapshot.condition import Condition, leaving
from include.source.snapshot.key_order import KeyOrder, Ledger, quoted
from include.source.snapshot.plan import chunk_rows
from include.source.snapshot.reader import DescribedTable, SnapshotReader
from include.source.snapshot.wanted_keys import WantedKeys
from include.source.snapshot.watermark_window import StreamPlace
from include.source.state.key_range import WHOLE, Bound, KeyRange

__all__ = ["TableReading"]


class TableReading:
    """The ranges that are left of a table, and how they are cut. Not for several threads at once, but for `pieces`.

    What asks the server (`prepare`, `boundary`, `recut`, `pieces`) may wait long for it; nothing else does. Whoever
    cuts the table holds `cutting` meanwhile.

    Args:
        table: `database.table`.
        left: ranges of keys that are not in the log yet.
        sorted_by: what those ranges were cut by; should the key be another now, all is read from its beginning.
        where: `Condition` that chooses the rows; "": all.
        rows: most of a chunk.
        size_bytes: most of a chunk, by the server's estimate of a row.
        keys: of the only rows that are wanted, in one chunk; of those that have no row the last piece but one tells.
            (): all rows.
    """

    def __init__(
        self,
        table: str,
        left: tuple[KeyRange, ...],
        sorted_by: str,
        where: str,
        rows: int,
        size_bytes: int,
        keys: tuple[str, ...] = (),
    ) -> None:
        self.table = table
        self.cutting = threading.Lock()
        self.sorted_by = sorted_by
        self._database, _, self._name = table.partition(".")
        self._ledger = Ledger(left)
        self._order: KeyOrder | None = None
        self._where, self._rows, self._bytes, self._keys = where, rows, size_bytes, keys
        self._under_way: set[Chunk] = set()

    @property
    def left(self) -> tuple[KeyRange, ...]:
        """The ranges that are not in the log yet."""
        return self._ledger.left

    @property
    def under_way(self) -> frozenset[Chunk]:
        """Chunks that are being read or wait for the stream."""
        return frozenset(self._under_way)

    @property
    def free(self) -> KeyRange | None:
        """The range that the next chunk is cut from, None when all is taken."""
        return self._ledger.free

    def prepare(self, reader: SnapshotReader) -> None:
        """Learn the table's key, the first time; may wait for whoever alters the table."""
        if self._order is None:
            self._cut_by(reader.describe(self._database, self._name), reader)

    def take(self, free: KeyRange, at: Bound | None, now: StreamPlace) -> Chunk | None:
        """The next chunk, cut from `free` at a `boundary` of it; None when all are taken."""
        rows = self._ledger.take(lambda left: at if left == free else None)
        if rows is None:
            return None
        chunk = Chunk(self.table, rows, now, self.sorted_by)
        self._under_way.add(chunk)
        return chunk

    def finish(self, chunk: Chunk) -> None:
        """It is in the log."""
        self._under_way.discard(chunk)
        self._ledger.finish(chunk.rows)

    def again(self, chunk: Chunk) -> None:
        """It has to be read again."""
        if chunk in self._under_way:
            chunk.given_up = True
            self._under_way.discard(chunk)
            self._ledger.put_back(chunk.rows)

    def give_up(self) -> None:
        """Nothing that is under way is wanted."""
        for chunk in self._under_way:
            chunk.given_up = True
        self._under_way.clear()
        self._ledger = Ledger(self._ledger.left)

    def pieces(
        self,
        reader: SnapshotReader,
        chunk: Chunk,
        shape: Callable[[TableInfo], TableShape],
        another: Callable[[], SnapshotReader],
    ) -> Iterator[ChunkPiece]:
        """Read a chunk; the last piece has no rows. Nothing comes out when the key is not what the chunk was cut by.

        An iterator that is not read to its end leaves the reader of no use.
        """
        span = chunk.span = reader.open(chunk.since.position)
        described = reader.describe(self._database, self._name)
        if described is None:
            reader.end()
            yield ChunkPiece(chunk, [], span.high, last=True, gone=True)
            return
        if described.sorted_by != chunk.sorted_by:
            reader.end()
            return
        shaped = chunk.shape = shape(described.info)
        order = _order(described.info)
        chosen = Condition.parse(self._where).bound(leaving(shaped))
        where = f"({reader.with_values(chosen)})" if chosen.sql else ""
        wanted = WantedKeys.of(shaped, described.info.key, self._keys) if self._keys else None
        conditions = [part for part in (order.condition(chunk.rows), where, wanted.condition if wanted else "") if part]
        sql = f"SELECT {select_list(shaped)} FROM {self._quoted}"  # noqa: S608 - quoted
        if conditions:
            sql += " WHERE " + " AND ".join(conditions)
        # Rows of an engine without snapshots are of the moment at which they are read.
        beside = None if described.info.transactional else another()
        seen: set[bytes] = set()
        try:
            high = span.high
            for images in reader.select(sql, shaped):
                if beside is not None:
                    high = beside.place()
                if wanted is not None:
                    seen.update(image.key for image in images)
                yield ChunkPiece(chunk, images, high)
        finally:
            if beside is not None:
                beside.close()
        reader.end()
        if wanted is not None:
            yield ChunkPiece(chunk, wanted.absent(shaped, seen), high, absent=True)
        yield ChunkPiece(chunk, [], high, last=True)

    def recut(self, reader: SnapshotReader) -> None:
        """The key is another: begin anew, after `give_up`."""
        self._cut_by(reader.describe(self._database, self._name), reader)

    @property
    def _quoted(self) -> str:
        return f"{quoted(self._database)}.{quoted(self._name)}"

    def _cut_by(self, found: DescribedTable | None, reader: SnapshotReader) -> None:
        sorted_by = found.sorted_by if found else ""
        if sorted_by != self.sorted_by:
            if self.sorted_by:
                self._ledger = Ledger((WHOLE,))
            self.sorted_by = sorted_by
        self._order = _order(found.info) if found else KeyOrder((), ())
        measure = reader.measure(self._database, self._name)
        self._rows = chunk_rows(self._rows, self._bytes, measure)

    def boundary(self, reader: SnapshotReader, left: KeyRange) -> Bound | None:
        """The key that ends the next chunk: an index is walked, which costs little beside reading the rows."""
        order = self._order
        if order is None or not order.divides or self._keys:
            return None
        condition = order.condition(left)
        sql = f"SELECT {order.bound} FROM {self._quoted}{' WHERE ' + condition if condition else ''}"  # noqa: S608
        try:
            found = reader.ask(f"{sql} ORDER BY {order.order} LIMIT 1 OFFSET {self._rows - 1}")
        except Terminal:
            # The table is gone or altered: reading the range will tell.
            return None
        return tuple(_text(part) for part in found[0]) if found else None


def _order(info: TableInfo) -> KeyOrder:
    return KeyOrder(info.columns, info.key, prefixed=info.key_prefixed)


def _text(part: object) -> str:
    return part.decode("ascii") if isinstance(part, bytes) else str(part)
