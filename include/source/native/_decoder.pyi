"""The compiled half of `include.source.native`: bytes of binlog events → bytes of Avro.

A column is told as `(code, size, a, b, data, open, mask)`: what its bytes are (the codes: `op.pxi`), how many (or how
many its length takes), two numbers, what the code needs beside them, for a compressed value the function that opens it,
for a masked column its mask (`TableShape.masks`). Python functions are given bytes and may raise anything; what they
raise is not seen by the caller.

Methods return None for an event that is not for them, or that holds what no server writes: the Python decoders take it.
None is also the answer to a call from within a call. Not for use from several threads.
"""

from collections.abc import Sequence
from typing import Any, Generic, Literal, TypeVar

from include.record.change import Op
from include.source.native import RunParts

I = TypeVar("I")
"""`rows.shape.EncodedImage`."""
R = TypeVar("R")
"""`ports.OutgoingRecord`."""

RowOp = Literal["c", "u", "d"]
Parts = tuple[bytes, bytes, bytes, bytes | None]

class Envelope:
    """What the envelopes of one table share: the heads of keys and values (wire format), the topic's partitions."""

    def __init__(self, key_head: bytes, value_head: bytes, partitions: int) -> None: ...

class Decoder(Generic[I]):
    """Rows of one layout. `keys`: (index, whether it is a union in the key); `dates`: rows end with invalid dates.

    Raises `ValueError` (also `KeyError`, `TypeError`, `OverflowError`) for columns that it cannot read.
    """

    def __init__(
        self,
        ops: list[tuple[str, int, int, int, object, object, object]],
        keys: list[tuple[int, bool]],
        by: list[int],
        dates: bool,
        image_type: type[I],
    ) -> None: ...
    def rows(self, op: RowOp, body: bytes) -> list[tuple[I | None, I | None]] | None:
        """As `RowImages.rows`, of events whose images hold all columns."""

    def records(
        self,
        op: RowOp,
        body: bytes,
        envelope: Envelope,
        parts: Parts,
        row: int,
        of_table: int,
    ) -> tuple[list[tuple[Op, bytes, int, bytes]], int] | None:
        """((op, key, partition, value) of each record, number of rows).

        `row` and `of_table` are those of the event's first row.
        """

class Target:
    """Where rows of one layout go, of runs: `who` and `table` are the envelope's pieces around its times."""

    def __init__(self, decoder: Decoder[Any], envelope: Envelope, topic: str, who: bytes, table: bytes) -> None: ...

def run_outputs(
    prefix: str,
    first: int,
    file: str,
    parts: RunParts,
    targets: tuple[Target, ...],
    made_us: int,
    version: int,
    kind: type[R],
) -> tuple[list[R], int, int, tuple[int, int, int]] | None:
    """What a `PlainRun` leaves: (outputs, bytes of all values, bytes of the largest record, rows of each of c, u, d).

    `targets` are those of its tables. None for a run of which any row is not for it: nothing of it is told then.
    """

def json_utf8(data: bytes) -> bytes | None:
    """As `json_binary.json_text`; None for a document that is left to it, for what it holds or for its size."""

class TextRows(Generic[I]):
    """Rows of a SELECT in the text protocol; the constructor's arguments are as those of `Decoder`."""

    def __init__(
        self,
        ops: list[tuple[str, int, int, int, object, object, object]],
        keys: list[tuple[int, bool]],
        by: list[int],
        dates: bool,
        image_type: type[I],
    ) -> None: ...
    def feed(
        self, data: bytes | bytearray | memoryview, start: int, stop: int, sequence: int, found: list[I]
    ) -> tuple[int, int]:
        """Appends the images of whole packets in `data[start:stop]` to `found`; `sequence` is the first one's number.

        Returns where the first packet begins that it did not take, and the number that it should have: one that is cut
        short, goes on in another, is no row, or is a row that Python has to read.
        """

def snapshot_records(envelope: Envelope, images: list[I], head: bytes, tail: bytes) -> list[tuple[bytes, int, bytes]]:
    """(key, partition, value) of each image: the value is `head`, the image's row and `tail`."""

def stamp_pieces(
    server_id: int,
    file: str,
    pos: int,
    commit_us: int,
    made_us: int,
    gtid: str | None,
    snapshot: str | None,
    thread: int | None,
) -> tuple[bytes, bytes, bytes, bytes, bytes | None] | None:
    """`times`, `place`, `thread`, `made` and `transaction` of an `encode.Stamp`; None for texts or times too long."""

def outputs_of(
    records: Sequence[tuple[bytes, int, bytes]] | Sequence[tuple[Op, bytes, int, bytes]],
    topic: str,
    version: int,
    kind: type[R],
) -> tuple[list[R], int, int]:
    """(outputs, the last one's version, bytes of all values) of records, numbered from `version` + 1 on.

    A record is (key, partition, value), or the same behind its operation: after a delete, its tombstone of one number.
    """

FORM: int
