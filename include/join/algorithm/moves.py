"""From a change of a row to what it does to join keys: a row that changes its join key leaves one and enters another.

Null join keys are SQL's: they equal nothing. A row of the first input whose join key is null has an output only where
all other inputs are optional; it stands alone under a join key made of its part of the output's key, so that such rows
are spread as others are, and those that compete for one output meet. Rows of other inputs have none, and are not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from include.join.algorithm.row import Row, Touch

__all__ = ["encoded_join_key", "touches_of_change"]

_NULL: Final = b"\x00"
_VALUES: Final = b"\x01"


def encoded_join_key(values: bytes | None, alone: bytes | None) -> bytes | None:
    """The join key under which a row stands; None: nowhere.

    Args:
        values: the join key's fields, encoded one behind the other; None when one of them is null.
        alone: the row's part of the output's key where it has an output without rows of others; else None.
    """
    if values is not None:
        return _VALUES + values
    return None if alone is None else _NULL + alone


def touches_of_change(
    input: int,
    key: bytes,
    rank: int,
    version: int,
    *,
    before: bytes | None,
    after: bytes | None,
    row: Row | None,
) -> Iterator[Touch]:
    """The touches of one record.

    Args:
        input: position of the input.
        key: primary key.
        rank: the record's.
        version: the record's.
        before: join key under which the row may stand; None: under none, or nobody knows of one.
        after: join key under which it stands from now on; None: under none.
        row: the row, None when it is deleted.
    """
    if before is not None and before != after:
        yield Touch(before, rank, input, key, version, None)
    if after is not None:
        yield Touch(after, rank, input, key, version, row)
