"""A table's copy as of several moments in Spark's SQL, from an earlier version of it and the changes since.

| frame | rows |
|---|---|
| base | of a version that each moment has, or none |
| changes | records behind it: columns as the base's, and those of `change_rows` |

A row of a range is the newest of the changes that the range's moment has, else the base's. Rows are those of
`hashed_rows`: hashes or texts in the place of a table's columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from include.audit.merkle.change_rows import LIVE, OFFSET, PLACE
from include.lake.tables.columns import KEY, VERSION

__all__ = ["PART", "as_of_sql", "changed_sql"]

PART: Final = "_lyrebird_part"
_NEWEST: Final = "_lyrebird_newest"


def as_of_sql(
    base: str, changes: str, columns: Sequence[str], places: Sequence[int], floor: int, *, few: bool = False
) -> str:
    """SELECT the columns, and `PART`, of all rows as of their range's moment.

    Args:
        base: a view of rows, with `PART`; "" for none.
        changes: a view of changes, with `PART`.
        columns: that both have, beside `_key` and `_version`.
        places: of each range's moment, among those that changes are placed in.
        floor: version below which no row lives.
        few: of changes, so that each task is sent all.
    """
    listed = ", ".join(f"`{name}`" for name in columns)
    newest = (
        f"select {KEY}, max_by(struct({VERSION}, {LIVE}, {PART}, {listed}), struct({VERSION}, {OFFSET})) as {_NEWEST} "  # noqa: S608 - quoted
        f"from {changes} where {KEY} is not null and {PLACE} <= {_at(places)} group by {KEY}"
    )
    own = ", ".join(f"{_NEWEST}.`{name}`" for name in columns)
    changed = f"select {own}, {_NEWEST}.{PART} from newest where {_NEWEST}.{LIVE} and {_NEWEST}.{VERSION} >= {floor}"  # noqa: S608 - quoted
    if not base:
        return f"with newest as ({newest}) {changed}"
    hint = "/*+ broadcast(newest) */ " if few else ""
    kept = (
        f"select {hint}{listed}, b.{PART} from {base} b left anti join newest on b.{KEY} = newest.{KEY} "  # noqa: S608 - quoted
        f"and {_NEWEST}.{VERSION} >= b.{VERSION}"
    )
    return f"with newest as ({newest}) {kept} union all {changed}"


def changed_sql(changes: str, key_text: str, lows: Sequence[int], highs: Sequence[int]) -> str:
    """SELECT (part, text of the key) of the changes that came within the span of their range's moment."""
    within = f"{PLACE} > {_at(lows)} and {PLACE} <= {_at(highs)}"
    return f"select distinct {PART}, {key_text} from {changes} where {KEY} is not null and {within}"  # noqa: S608 - quoted


def _at(places: Sequence[int]) -> str:
    """The place of a row's range."""
    if len(set(places)) == 1:
        return str(places[0])
    return f"element_at(array({', '.join(map(str, places))}), {PART} + 1)"
