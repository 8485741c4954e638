"""Records as outputs: the compiled way against the Python one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from include.source.ports import OutgoingRecord
from include.source.rows.group_rows import outputs_of, plain_outputs_of

key, partition, value = st.binary(max_size=9), st.integers(0, 400), st.binary(max_size=30)
rows = st.tuples(key, partition, value)
changes = st.tuples(st.sampled_from("cud"), key, partition, value)


@given(st.lists(rows) | st.lists(changes), st.integers(0, 2**53))
def test_outputs_are_numbered_on_and_a_delete_is_followed_by_its_tombstone(records: list[object], version: int) -> None:
    found, last, size = outputs_of(records, "topic", version, OutgoingRecord)
    assert (found, last, size) == plain_outputs_of(records, "topic", version, OutgoingRecord)
    assert all(type(each) is OutgoingRecord for each in found)
    assert last == version + len(records)
    made = [each for each in found if each.value is not None]
    assert [each.version for each in made] == list(range(version + 1, last + 1))
    assert size == sum(len(each.value or b"") for each in made)


def test_a_tombstone_has_the_number_of_its_delete() -> None:
    row, gone = outputs_of([("d", b"k", 3, b"v")], "topic", 7, OutgoingRecord)[0]
    assert (row, gone) == (OutgoingRecord("topic", b"k", b"v", 8, 3), OutgoingRecord("topic", b"k", None, 8, 3))
