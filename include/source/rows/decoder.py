"""Chooses the decoder of a table's rows: the compiled one, else the Python one. Both give the same bytes."""

from __future__ import annotations

from include.source.binlog.events import RowOp
from include.source.native import WHY_NOT
from include.source.rows.compiled import decoder_of
from include.source.rows.images import Pair, RowImages
from include.source.rows.layout import Layout

__all__ = ["NativeImages", "decoders_told", "images_of"]


class NativeImages:
    """`RowImages` with a compiled decoder; `plain` reads what that one hands over. Not for use from several threads.

    Raises `ValueError` where the compiled decoders are not there, or do not read this layout.
    """

    def __init__(self, layout: Layout) -> None:
        decoder = decoder_of(layout)
        if decoder is None:
            raise ValueError(f"no compiled decoder for {layout.shape.table}: {WHY_NOT or 'sizes that no server has'}")
        self.layout = layout
        self.shape = layout.shape
        self.decoder = decoder
        self.plain = RowImages(layout)

    def rows(self, op: RowOp, body: bytes, partial: bool = False) -> list[Pair]:
        """As `RowImages.rows`."""
        found = None if partial else self.decoder.rows(op, body)
        return self.plain.rows(op, body, partial) if found is None else found


def images_of(layout: Layout) -> RowImages | NativeImages:
    """The fastest decoder of a layout's rows that there is here."""
    try:
        return NativeImages(layout)
    except ValueError:
        return RowImages(layout)


def decoders_told() -> str:
    """Names the decoders that run here, for a person."""
    return f"pure Python row decoders ({WHY_NOT})" if WHY_NOT else "compiled row decoders"
