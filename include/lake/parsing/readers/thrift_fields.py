"""Values of Thrift structs, by paths of field ids (`1`, `1.3`), in the binary or the compact protocol."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Literal

from include.lake.parsing.fields import ReadFields, WantedValue, invalid, plan, shown
from include.lake.parsing.readers.thrift_binary import walk_binary
from include.lake.parsing.readers.thrift_compact import walk_compact

__all__ = ["ThriftProtocol", "thrift_reader"]

ThriftProtocol = Literal["binary", "compact"]


def thrift_reader(wanted: Sequence[WantedValue], protocol: ThriftProtocol) -> ReadFields:
    """Reads the values of a bare struct (no call around it), texts as bytes; the struct is walked to its last byte.

    `ValueError` for a path with anything but field ids.
    """
    for want in wanted:
        if not all(isinstance(step, int) and -(1 << 15) <= step < 1 << 15 for step in want.path):
            raise ValueError(f"{shown(want.path)} is no path of field ids, as in 1.3")
    tree, count = plan(wanted), len(wanted)
    walk = walk_binary if protocol == "binary" else walk_compact

    def read(data: bytes) -> Sequence[Any]:
        values: list[Any] = [None] * count
        try:
            end = walk(data, 0, tree, values)
        except (IndexError, struct.error):
            end = len(data) + 1
        except ValueError as error:
            raise invalid("the message is no Thrift struct", f"Thrift: {error}", head=data) from None
        if end != len(data):
            what = "is cut short" if end > len(data) else "goes on after its end"
            raise invalid(f"the Thrift struct {what}", "Thrift", size=len(data), head=data)
        return values

    return read
