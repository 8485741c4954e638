"""Records of a table's rows → what a group holds of them, numbered on; in C where that is compiled."""

from __future__ import annotations

from typing import Any, Final

from include.source.ports import OutgoingRecord
from include.source.rows.compiled import OutputMaker, RunMaker, output_maker, run_maker

__all__ = ["outputs_of", "plain_outputs_of", "run_outputs"]


def plain_outputs_of(
    records: list[Any], topic: str, version: int, kind: type[OutgoingRecord]
) -> tuple[list[OutgoingRecord], int, int]:
    """(outputs, the last one's version, bytes of all values), numbered from `version` + 1 on.

    A record is (key, partition, value), or the same behind its operation: after a delete, its tombstone of one number.
    """
    outputs: list[OutgoingRecord] = []
    size = 0
    for record in records:
        key, partition, value = record[-3:]
        version += 1
        size += len(value)
        outputs.append(kind(topic, key, value, version, partition))
        if len(record) > 3 and record[0] == "d":
            outputs.append(kind(topic, key, None, version, partition))
    return outputs, version, size


outputs_of: Final[OutputMaker] = output_maker() or plain_outputs_of
"""As `plain_outputs_of`."""

run_outputs: Final[RunMaker] = run_maker()
"""See `_decoder.pyi`."""
