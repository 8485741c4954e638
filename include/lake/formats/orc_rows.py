"""Reads ORC files, row by row: the lake writes none, but archives have them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, Final

import orjson

from include.errors import Terminal
from include.lake.formats.parquet_rows import plain
from include.lake.message import Message

__all__ = ["ORC", "read_orc"]

ORC: Final = b"ORC"
"""What a file begins with."""


def read_orc(body: bytes) -> Iterator[Message]:
    """The rows of a file as JSON, without offsets (-1): times as text, bytes as `{"base64": …}`.

    Raises `Terminal` naming the stripe that is damaged, after the rows of those before it.
    """
    import pyarrow.lib as pa
    from pyarrow.orc import ORCFile

    stripe = 0
    try:
        reader: Any = ORCFile
        file = reader(io.BytesIO(body))
        for stripe in range(file.nstripes):
            for row in file.read_stripe(stripe).to_pylist():
                yield Message(-1, None, orjson.dumps(row, default=plain, option=orjson.OPT_NON_STR_KEYS))
    except (pa.ArrowException, OSError) as error:
        raise Terminal(
            "ORC file is damaged", stripe=stripe, cause=str(error), fix="Fetch it again from whoever wrote it."
        ) from error
