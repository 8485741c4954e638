"""Assigns a key of a join's state to one of any number of buckets, and to what it is counted as."""

from __future__ import annotations

from include.errors import Terminal
from include.join.algorithm.row import incomplete_join_key, left_place, row_place
from include.record.key import partition_of
from include.state.transfer import Home

__all__ = ["home_of"]


def home_of(buckets: int) -> Home:
    """For a state of so many buckets."""

    def home(stage: str, key: bytes) -> tuple[int, str]:
        if stage == "whereabouts":
            # A mark, the input, then the row's primary key, by which that stage is spread.
            return partition_of(key[2:], buckets), ""
        if stage != "rows":
            raise Terminal("no join has such a stage", got=stage)
        held = incomplete_join_key(key)
        if held is not None:
            return partition_of(held, buckets), "incomplete"
        left = left_place(key)
        if left is not None:
            return partition_of(left[0], buckets), ""
        join_key, number, _ = row_place(key)
        return partition_of(join_key, buckets), f"input_{number}"

    return home
