"""Row versions and their header."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import InvalidRecord, Terminal
from include.record.version import MAX_EPOCH, MAX_NUMBER, epoch_of, from_headers, number_of, pack, to_header

parts = st.tuples(st.integers(0, MAX_EPOCH), st.integers(0, MAX_NUMBER))


@given(parts, parts)
def test_versions_are_ordered_by_epoch_then_number(a: tuple[int, int], b: tuple[int, int]) -> None:
    assert (pack(*a) < pack(*b)) == (a < b)
    assert (epoch_of(pack(*a)), number_of(pack(*a))) == a


@given(parts)
def test_a_version_is_exact_in_json_and_survives_its_header(part: tuple[int, int]) -> None:
    version = pack(*part)
    assert int(float(version)) == version
    assert from_headers([to_header(version)]) == version


@pytest.mark.parametrize(("epoch", "number"), [(-1, 0), (MAX_EPOCH + 1, 0), (0, -1), (0, MAX_NUMBER + 1)])
def test_what_does_not_fit_is_refused(epoch: int, number: int) -> None:
    with pytest.raises(Terminal, match="out of range"):
        pack(epoch, number)


@pytest.mark.parametrize("value", [None, b"", b"x", b"-1", b"1.0", b"%d" % (1 << 53)])
def test_a_header_that_is_no_version_is_an_invalid_record(value: bytes | None) -> None:
    with pytest.raises(InvalidRecord, match="version"):
        from_headers([("version", value)])


def test_the_last_of_several_headers_counts_and_others_are_passed_over() -> None:
    assert from_headers([("version", b"1"), ("version", b"2"), ("other", b"3")]) == 2
    with pytest.raises(InvalidRecord):
        from_headers([])
