"""CPU time of the row decoders on 16 mixed columns, made up in memory: `python -m tests.bench.capture.decoders [ROWS]`.

One line for each way: rows a second of the process's CPU time, the best of five rounds, interleaved.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from random import Random

from include.record.schema import Column, TableSchema
from include.source.binlog.events import RowOp
from include.source.binlog.step import RowsEvent
from include.source.binlog.table_map import TableMap
from include.source.rows.columns import column_of
from include.source.rows.decoder import NativeImages
from include.source.rows.encode import Stamp, TableEncoder
from include.source.rows.images import RowImages
from include.source.rows.layout import Field, Layout
from include.source.rows.records import RowRecords, encoded
from include.source.rows.shape import TableShape
from tests.support.binlog.random_row_images import value

LABELS = ("new", "paid", "packed", "sent", "done", "void")
SEED = 1
ROUNDS = 5
MAP = TableMap(1, "bench", "t", b"\x08", (0,), (False,), (), signs_known=False)


def bench_layout() -> Layout:
    """The table of the capture bench."""
    fields = (
        Field(Column("id", "bigint", unsigned=True), "int", 8, 1),
        Field(Column("a", "int", unsigned=True), "int", 4, 1),
        Field(Column("b", "int"), "int", 4),
        Field(Column("c", "enum", charset="utf8mb4", labels=LABELS), "enum", 1, labels=LABELS),
        Field(Column("d", "smallint"), "int", 2),
        Field(Column("e", "tinyint"), "int", 1),
        Field(column_of("f", "decimal(12,2)"), "decimal", 12, 2),
        Field(column_of("g", "decimal(10,4)"), "decimal", 10, 4),
        Field(Column("h", "double"), "float", 8),
        Field(Column("i", "float"), "float", 4),
        Field(Column("j", "datetime", digits=6), "datetime", 6),
        Field(Column("k", "timestamp", digits=3), "timestamp", 3),
        Field(Column("l", "date"), "date"),
        Field(Column("m", "varchar", charset="utf8mb4", length=100), "text", 2),
        Field(Column("n", "longtext", charset="utf8mb4"), "text", 4),
        Field(Column("o", "blob"), "binary", 2),
    )
    columns = tuple(field.column for field in fields)
    return Layout(TableShape(columns, TableSchema("bench", "t", columns, ("id",))), fields)


def image(random: Random, layout: Layout, number: int) -> bytes:
    """A row as the bench has them: 9 nullable columns, of which 5 to 30 % are null."""
    nullable = {4: 0.1, 7: 0.3, 8: 0.2, 9: 0.2, 11: 0.1, 12: 0.1, 14: 0.3, 15: 0.3}
    nulls = sum(1 << i for i, share in nullable.items() if random.random() < share)
    out = [nulls.to_bytes(2, "little"), number.to_bytes(8, "little")]
    for i, field in enumerate(layout.fields[1:], 1):
        if nulls >> i & 1:
            continue
        if field.kind == "text":
            text = '{"k": "' + "v" * random.randrange(60) + '"}' if i == 14 else "é" * random.randrange(2) + "name " * 6
            out.append(len(text.encode()).to_bytes(field.a, "little") + text.encode())
        elif field.kind == "binary":
            data = random.randbytes(random.randrange(40))
            out.append(len(data).to_bytes(field.a, "little") + data)
        elif field.kind == "datetime":
            out.append(bytes.fromhex("99b52ac000") + random.randrange(10**6).to_bytes(3, "big"))
        elif field.kind == "date":
            out.append((2026 << 9 | random.randint(1, 12) << 5 | random.randint(1, 28)).to_bytes(3, "little"))
        elif field.kind == "timestamp":
            out.append(
                random.randrange(1 << 30, 1 << 31).to_bytes(4, "big") + random.randrange(10**4).to_bytes(2, "big")
            )
        else:
            while True:
                found = value(random, field)
                if field.kind not in ("decimal", "enum") or _fits(field, found):
                    break
            out.append(found)
    return b"".join(out)


def _fits(field: Field, data: bytes) -> bool:
    from include.source.rows.number import number_writer

    try:
        number_writer(field)(data)
    except ValueError:
        return False
    return True


def events(layout: Layout, rows: int) -> list[tuple[RowOp, bytes]]:
    """Half inserts (100 an event), three tenths updates (20), two tenths deletes (50)."""
    random = Random(SEED)
    images = [image(random, layout, number) for number in range(2000)]
    found: list[tuple[RowOp, bytes]] = []
    mix: tuple[tuple[RowOp, int, int], ...] = (("c", 5, 100), ("u", 3, 20), ("d", 2, 50))
    for op, share, many in mix:
        sides = 2 if op == "u" else 1
        for _ in range(rows * share // 10 // many):
            chosen = (images[random.randrange(len(images))] for _ in range(many))
            found.append((op, b"\x10" + b"\xff\xff" * sides + b"".join(each * sides for each in chosen)))
    return found


def main() -> None:
    """Print the table."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    layout = bench_layout()
    body = events(layout, rows)
    small = events(layout, rows // 10)
    native, plain = NativeImages(layout), RowImages(layout)
    records = RowRecords(layout, TableEncoder("bench", layout.shape.schema, 1, 2, 12))
    stamp = Stamp(server_id=1, file="bin.000001", pos=4, commit_us=10**15, made_us=10**15, gtid="0-1-5")

    def compiled(op: RowOp, data: bytes) -> object:
        return records.of(RowsEvent(MAP, op, data), stamp)

    def python(op: RowOp, data: bytes) -> object:
        return encoded(plain.rows(op, data), records.encoder, stamp, 0, 1, None)

    assert [native.rows(*each) for each in small] == [plain.rows(*each) for each in small]
    assert [records.of(RowsEvent(MAP, *each), stamp)[0] for each in small] == [python(*each) for each in small]
    ways: dict[str, tuple[Callable[[RowOp, bytes], object], list[tuple[RowOp, bytes]], int]] = {
        "images, compiled": (native.decoder.rows, body, rows),
        "images, Python": (plain.rows, small, rows // 10),
        "records, compiled": (compiled, body, rows),
        "records, Python": (python, small, rows // 10),
    }
    best = dict.fromkeys(ways, 0.0)
    for _ in range(ROUNDS):
        for name, (function, work, count) in ways.items():
            start = time.process_time()
            for op, data in work:
                function(op, data)
            best[name] = max(best[name], count / (time.process_time() - start))
    for name, rate in best.items():
        print(f"{name:20} {rate:12,.0f} rows/s")


if __name__ == "__main__":
    main()
