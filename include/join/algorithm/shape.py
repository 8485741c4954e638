"""The shape of a join: how many inputs it has, which of them are optional, how rows become outputs.

It is the same for rows in Avro and in JSON: an output's key and value are made of parts of rows, one behind the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, Self

from include.join.algorithm.row import OutputShare, PlainTouch, Row, Touch
from include.join.config.definition import JoinFile
from include.join.config.fields import FieldPlan

__all__ = ["JoinShape", "KeyFrame", "Projection"]


class Projection(Protocol):
    """Makes of rows what they bring to outputs. Pure: the same row always brings the same."""

    def entry(self, input: int, key: bytes, row: Row) -> OutputShare | None:
        """Gives what the row brings; None when the input's `where` leaves it out."""

    def absent(self, input: int) -> OutputShare:
        """Gives what stands for the rows of an optional input under a join key that has none; its version is None."""


@dataclass(frozen=True, slots=True)
class KeyFrame:
    """What stands around the parts of a record. An empty part takes no separator."""

    prefix: bytes = b""
    separator: bytes = b""
    suffix: bytes = b""

    def around(self, parts: Iterable[bytes]) -> bytes:
        """One record."""
        if self.separator:
            parts = filter(None, parts)
        return self.prefix + self.separator.join(parts) + self.suffix


@dataclass(frozen=True, slots=True)
class JoinShape:
    """A join.

    Args:
        optional: of each input, whether an output may lack it (`type: left`); never of the first.
        distinct: of each input, whether each row has a group of its own, as its primary key is part of it.
        sole: of each input, whether a join key has one row of it at most.
        projection: see there.
        key: what stands around an output's key.
        key_fields: its fields, in order: input, and place in `Entry.group`. The join key is the first input's.
        value: what stands around an output's value.
        max_product: most outputs that one record may change.
        slots: of each input, the number by which touches and the state know it; without, its position. Rows of other
            slots are kept, and no output shows them.
        compiled: does what `batch.apply` does for this shape; None: nobody does.
    """

    optional: tuple[bool, ...]
    distinct: tuple[bool, ...]
    sole: tuple[bool, ...]
    projection: Projection
    key: KeyFrame
    key_fields: tuple[tuple[int, int], ...]
    value: KeyFrame
    max_product: int = 100_000
    slots: tuple[int, ...] = ()
    compiled: Callable[[Iterable[Touch | PlainTouch], Any], Any] | None = None

    @classmethod
    def of(
        cls,
        join: JoinFile,
        plan: FieldPlan,
        projection: Projection,
        key: KeyFrame,
        value: KeyFrame,
        slots: tuple[int, ...] = (),
    ) -> Self:
        """Makes the shape of a join by its file and the plan of its fields.

        Args:
            join: the file.
            plan: of the output's fields.
            projection: makes parts of outputs of rows.
            key: what stands around an output's key.
            value: what stands around an output's value.
            slots: of each input, its number in the state; empty: its position.
        """
        places: list[tuple[int, int]] = []
        for each in plan.key:
            places.append((each.input, sum(other == each.input for other, _ in places)))
        optional = tuple(each.type == "left" for each in join.join)
        most = join.max_product_per_change
        return cls(optional, plan.distinct, plan.sole, projection, key, tuple(places), value, most, slots)

    @property
    def places(self) -> dict[int, int]:
        """Slot → position of the input."""
        return {slot: place for place, slot in enumerate(self.slots or range(len(self.optional)))}

    @property
    def alone(self) -> bool:
        """Whether a row of the first input has an output without rows of others."""
        return all(self.optional[1:])

    def probe_order(self, input: int) -> list[int]:
        """The other inputs, those first that most likely end the search: required ones, with few rows (MJoin)."""
        others = [other for other in range(len(self.optional)) if other != input]
        return sorted(others, key=lambda other: (self.optional[other], not self.sole[other], other))
