"""The compiled row decoders and event loop (Cython), where `make setup` could build them; see the stubs.

`LYREBIRD_NATIVE=0` turns them off. They know nothing of the rest of capture: `rows.compiled` and `binlog.plain` hand
them what they need.
"""

from __future__ import annotations

from typing import Final

from include.record.native import why_not

__all__ = ["WHY_NOT", "RunParts"]

RunParts = tuple[bytes, bytes, bytes]
"""Transactions, their rows' events, and the raw events: see `run.pxi`."""

# Both or neither: the half of them would be slow, and nobody would be told.
WHY_NOT: Final = why_not("include.source.native._decoder", "include.source.native._events", form=2)
"""Why the compiled code is not there; empty when it is."""
