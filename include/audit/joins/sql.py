"""The join as SQL, over views of the inputs' newest rows: `input_<i>(key, version, join_key, grouped, shown)`.

Another way to the same table than the join's own: it combines whole tables, once. It is SQL that Spark and SQLite both
read.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["EXPECTED", "expected_sql"]

EXPECTED = ("key", "vector", "shown")
"""The columns that it gives."""


def expected_sql(optional: Sequence[bool], absent: Sequence[tuple[str, str]]) -> str:
    """SELECT of what the joined topic has to hold.

    Args:
        optional: of each input, whether an output may lack it.
        absent: of each input, what stands for no row: `grouped` and `shown`.

    Rows that compete for one key: the greatest versions are shown, inputs in order, then their keys.
    """
    inputs = range(len(optional))
    joined = "input_0 t0"
    for i in inputs[1:]:
        joined += f" {'LEFT' if optional[i] else 'INNER'} JOIN input_{i} t{i} ON t{i}.join_key = t0.join_key"
    grouped = " || ".join(f"coalesce(t{i}.grouped, {_text(absent[i][0])})" for i in inputs)
    shown = " || ".join(f"coalesce(t{i}.shown, {_text(absent[i][1])})" for i in inputs)
    vector = " || ',' || ".join(f"coalesce(cast(t{i}.version AS STRING), '')" for i in inputs)
    order = ", ".join([*(f"coalesce(t{i}.version, 0) DESC" for i in inputs), *(f"t{i}.key DESC" for i in inputs)])
    return (
        f"SELECT key, vector, shown FROM (SELECT {grouped} AS key, {vector} AS vector, {shown} AS shown, "  # noqa: S608
        f"row_number() OVER (PARTITION BY {grouped} ORDER BY {order}) AS place FROM {joined}) AS combined "
        "WHERE place = 1"
    )


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
