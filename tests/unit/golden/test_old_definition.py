"""Widths of DECIMALs as text, as the recordings of them show."""

from __future__ import annotations

import pytest

from tests.support.golden.old_definition import OldDecimal, definition
from tests.support.golden.recording import load


@pytest.mark.parametrize(
    ("column", "width"),
    [
        (OldDecimal("a", 10, 2), 12),
        (OldDecimal("a", 10, 2, unsigned=True), 11),
        (OldDecimal("a", 5, 3), 7),
        (OldDecimal("a", 4, 0), 5),
        (OldDecimal("a", 8, 2, zerofill=True), 9),
    ],
)
def test_a_value_has_digits_a_sign_and_a_point(column: OldDecimal, width: int) -> None:
    assert column.width == width


@pytest.mark.parametrize("server", ["mariadb-10.2", "mariadb-11.4", "mysql-5.6"])
def test_information_schema_takes_a_sign_off_an_unsigned_precision(server: str) -> None:
    """So the width is its precision + 1 and the point, whatever the sign; COLUMN_TYPE tells the declared precision."""
    (description,) = load(server, "old-decimal-shapes").descriptions().values()
    widths = [11, 7, 9, 5, 3, 5, 62]
    said = [(column["NUMERIC_PRECISION"], column["NUMERIC_SCALE"]) for column in description.columns]
    assert [precision + 1 + (scale > 0) for precision, scale in said] == widths


@pytest.mark.parametrize("count", [0, 8])
def test_more_columns_than_null_bits_of_one_byte_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match="one to seven"):
        definition([OldDecimal(f"c{number}", 5, 2) for number in range(count)])
