"""A condition on a table's rows in Spark's SQL: it chooses of the copy what the server's chooses of the table.

Only of columns that both compare alike: whole numbers and decimals with numbers, dates and times with texts of such. A
date of no calendar, which a copy has beside a null, is compared as the server does: by its digits.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final

from include.record.schema import avro_name
from include.source.hashes.columns import ComparedColumn, ComparedRows
from include.source.snapshot.condition import ColumnComparison, Condition, ConditionError

__all__ = ["spark_condition"]

_LAKE_DIGITS: Final = 38
_TIMES: Final = frozenset({"date", "datetime", "timestamp"})
_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?)?")
_DAY_START: Final = " 00:00:00.000000"


def spark_condition(condition: Condition, rows: ComparedRows) -> str:
    """The condition over columns of the copy (`as_of.shown`); "" where it is true of all rows.

    Raises:
        ConditionError: it compares what the two sides do not compare alike.
    """
    if not condition.text:
        return ""
    known = {each.column.name.lower(): each for each in rows.columns}
    values = (value for each in condition.comparisons for value in _literals(condition, each, known))

    def column(name: str) -> str:
        if name.lower() not in known or "%" in name:
            raise LookupError("no column that is compared")
        return _column(known[name.lower()], rows)

    parts = condition.with_columns(column).split("%s")
    return "".join([parts[0], *(f"{value}{part}" for value, part in zip(values, parts[1:], strict=True))])


def _column(compared: ComparedColumn, rows: ComparedRows) -> str:
    name, column = avro_name(compared.column.name), compared.column
    if column.type == "decimal":
        # Text, where the copy's has other digits behind the point.
        return f"try_cast(`{name}` as decimal({column.precision or 10}, {column.scale or 0}))"
    if compared.kind not in _TIMES:
        return f"`{name}`"
    shape = "yyyy-MM-dd" if compared.kind == "date" else "yyyy-MM-dd HH:mm:ss.SSSSSS"
    more = f"'{_DAY_START}'" if compared.kind == "date" else "''"
    said = column.name.replace("\\", "\\\\").replace("'", "\\'")
    invalid = f"element_at(`{rows.invalid}`, '{said}')"
    # The server shows as many digits behind the point as the column has.
    digits = "0" * (6 - column.digits)
    point = "." if compared.kind != "date" and not column.digits else ""
    shown = f"concat({invalid}, '{_DAY_START if compared.kind == 'date' else point + digits}')"
    return f"coalesce(concat(date_format(`{name}`, '{shape}'), {more}), {shown})"


def _literals(condition: Condition, comparison: ColumnComparison, known: Mapping[str, ComparedColumn]) -> Iterator[str]:
    if not comparison.values and len(comparison.columns) == 1:
        # IS NULL: of anything.
        return
    kinds = {_kind(known[name.lower()]) for name in comparison.columns if name.lower() in known}
    if not kinds:
        kinds = {"number"}
    if len(kinds) > 1 or "" in kinds:
        raise _refused(condition, "columns of these types are not compared alike on both sides", comparison.columns)
    (kind,) = kinds
    for value in comparison.values:
        if value is None:
            yield "NULL"
        elif kind == "number" and isinstance(value, int | Decimal):
            yield str(int(value)) if isinstance(value, bool | int) else f"{value:f}BD"
        elif kind == "time" and isinstance(value, str):
            yield f"'{_moment(condition, value)}'"
        else:
            what = "a number without quotes" if kind == "number" else "a date in quotes"
            raise _refused(condition, f"{value!r} is not {what}", comparison.columns)


def _kind(compared: ComparedColumn) -> str:
    column = compared.column
    if compared.mask is not None or column.type == "bit":
        return ""
    if compared.kind == "number":
        wide = column.type == "decimal" and ((column.precision or 10) > _LAKE_DIGITS or column.old)
        return "" if wide else "number"
    return "time" if compared.kind in _TIMES else ""


def _moment(condition: Condition, text: str) -> str:
    try:
        if not _MOMENT.fullmatch(text):
            raise ValueError(text)
        at = dt.datetime.fromisoformat(text)
    except ValueError:
        raise _refused(condition, f"{text!r} is neither 2026-11-25 nor 2026-11-25 03:00:00, in UTC", ()) from None
    return at.isoformat(" ", "microseconds")


def _refused(condition: Condition, reason: str, columns: tuple[str, ...]) -> ConditionError:
    return ConditionError(
        "a condition cannot be used by an audit",
        reason=reason,
        **({"columns": list(columns)} if columns else {}),
        condition=condition.text[:200],
        fix="Compare numbers with numbers, dates and times with dates: `id > 7 AND due < '2026-12-01'`.",
    )
