"""Control records: truncate, drop and the end of a snapshot over a gap, each with the table's floor (design.md §4).

A floor says that no row of the table with a version below it lives. The greatest floor over all kinds counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

import orjson

from include.errors import InvalidRecord
from include.log import topics
from include.log.ports import Record

__all__ = ["ControlKind", "ControlRecord", "floors_of"]

ControlKind = Literal["truncate", "drop", "gap", "schema", "left_out"]
"""truncate, drop: the statement; gap: a snapshot over a gap has ended; schema: columns changed (removes nothing);
left_out: the source's policy drops the table from here on, so that it is not covered (removes nothing)."""


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """One control record about `database`.`table`; `floor` is a version, 0: none; `gtid` names its cause."""

    kind: ControlKind
    database: str
    table: str
    floor: int
    gtid: str = ""

    def key(self) -> bytes:
        """(table, kind) as text."""
        return f"{self.database}.{self.table}/{self.kind}".encode()

    def value(self) -> bytes:
        """JSON, keys sorted."""
        return orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)

    @classmethod
    def parse(cls, data: bytes) -> ControlRecord:
        """Inverse of `value`; raises `InvalidRecord`."""
        try:
            return cls(**orjson.loads(data))
        except (orjson.JSONDecodeError, TypeError) as error:
            raise InvalidRecord("not a control record", reason=repr(error), head=data[:80].hex()) from error


def floors_of(source: str, records: Iterable[Record]) -> dict[str, int]:
    """Change topic → its floor, by the control records of a source; what is none is passed over."""
    floors: dict[str, int] = {}
    for record in records:
        try:
            control = None if record.value is None else ControlRecord.parse(record.value)
        except InvalidRecord:
            continue
        if control is not None and control.floor:
            topic = topics.change(source, control.database, control.table)
            floors[topic] = max(control.floor, floors.get(topic, 0))
    return floors
