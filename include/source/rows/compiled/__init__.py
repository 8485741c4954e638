"""Offers the functions of `native` for rows in this package's types; None, or what gives None, where it is missing.

Equal to the Python ones (`images`, `text`, `encode`) byte by byte, and never the judge: events and rows that they do
not take or cannot read go to those.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from include.source.native import WHY_NOT, RunParts
from include.source.ports import OutgoingRecord
from include.source.rows.compiled.program import by_of, keys_of, ops_of
from include.source.rows.compiled.text_program import text_columns
from include.source.rows.layout import Layout
from include.source.rows.shape import EncodedImage, TableShape

if TYPE_CHECKING:
    from include.source.native import _decoder

__all__ = [
    "OutputMaker",
    "RunMaker",
    "SnapshotMaker",
    "StampMaker",
    "decoder_of",
    "envelope_of",
    "output_maker",
    "run_maker",
    "snapshot_maker",
    "stamp_maker",
    "target_of",
    "text_rows_of",
]

StampMaker = Callable[
    [int, str, int, int, int, str | None, str | None, int | None],
    tuple[bytes, bytes, bytes, bytes, bytes | None] | None,
]
"""(server_id, file, pos, commit_us, made_us, gtid, snapshot, thread) → a stamp's attributes, or None: not for it."""

SnapshotMaker = Callable[[list[EncodedImage], bytes, bytes], list[tuple[bytes, int, bytes]]]
"""(images, head, tail) → (key, partition, value) of each: the value is `head`, the image's row and `tail`."""

OutputMaker = Callable[[list[Any], str, int, type[OutgoingRecord]], tuple[list[OutgoingRecord], int, int]]
"""(records, topic, version, `OutgoingRecord`) → (outputs, last one's version, bytes of all values): `_decoder.pyi`."""

RunMaker = Callable[
    [str, int, str, RunParts, tuple[Any, ...], int, int, type[OutgoingRecord]],
    tuple[list[OutgoingRecord], int, int, tuple[int, int, int]] | None,
]
"""See `run_outputs` of `_decoder.pyi`."""


def decoder_of(layout: Layout) -> _decoder.Decoder[EncodedImage] | None:
    """The compiled decoder of a layout; None where there is none, or for a layout that Python decodes."""
    ops = None if WHY_NOT else ops_of(layout)
    if ops is None:
        return None
    from include.source.native._decoder import Decoder

    return Decoder(ops, keys_of(layout), by_of(layout), layout.shape.dates, EncodedImage)


def text_rows_of(shape: TableShape) -> _decoder.TextRows[EncodedImage] | None:
    """The compiled reader of a SELECT's rows; None where there is none, or for a shape that Python reads."""
    columns = None if WHY_NOT else text_columns(shape)
    if columns is None:
        return None
    from include.source.native._decoder import TextRows

    try:
        return TextRows(*columns, shape.dates, EncodedImage)
    except ValueError:
        return None


def envelope_of(key_head: bytes, value_head: bytes, partitions: int) -> _decoder.Envelope | None:
    """The parts that a table's envelopes share, for `Decoder.records`; None where nothing is compiled."""
    if WHY_NOT:
        return None
    from include.source.native._decoder import Envelope

    return Envelope(key_head, value_head, partitions)


def target_of(
    decoder: _decoder.Decoder[EncodedImage], envelope: _decoder.Envelope, topic: str, who: bytes, table: bytes
) -> _decoder.Target:
    """The target of rows of runs that this decoder reads."""
    from include.source.native._decoder import Target

    return Target(decoder, envelope, topic, who, table)


def run_maker() -> RunMaker:
    """The function that makes the outputs of runs; it gives None for all where nothing is compiled."""
    if WHY_NOT:
        return lambda *_: None
    from include.source.native._decoder import run_outputs

    return run_outputs


def snapshot_maker(key_head: bytes, value_head: bytes, partitions: int) -> SnapshotMaker | None:
    """The function that makes the records of a snapshot's rows; None where nothing is compiled."""
    envelope = envelope_of(key_head, value_head, partitions)
    if envelope is None:
        return None
    from include.source.native._decoder import snapshot_records

    return partial(snapshot_records, envelope)


def output_maker() -> OutputMaker | None:
    """The function that makes outputs of records; None where nothing is compiled."""
    if WHY_NOT:
        return None
    from include.source.native._decoder import outputs_of

    return outputs_of


def stamp_maker() -> StampMaker:
    """The function that makes the attributes of an `encode.Stamp`; it gives None for all where nothing is compiled."""
    if WHY_NOT:
        return lambda *_: None
    from include.source.native._decoder import stamp_pieces

    return stamp_pieces
