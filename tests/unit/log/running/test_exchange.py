"""What tasks of an exchange do on both sides of its shuffle."""

from __future__ import annotations

import pickle
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.log.running import exchange
from include.log.running.exchange import (
    FramePiece,
    InlineResults,
    StoredResults,
    applied,
    frames_of,
    near,
    partition_of_bucket,
    placed,
    shared,
    whole,
)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_PIECE", 4)


@given(st.integers(1, 64), st.integers(1, 64))
def test_neighbouring_buckets_go_to_one_task_and_each_task_has_some(buckets: int, tasks: int) -> None:
    tasks = min(tasks, buckets)
    found = [partition_of_bucket(bucket, buckets, tasks) for bucket in range(buckets)]
    assert found == sorted(found)
    assert set(found) == set(range(tasks))


@pytest.mark.parametrize("bucket", [-1, 16])
def test_a_bucket_that_is_none_is_a_fault(bucket: int) -> None:
    with pytest.raises(ValueError, match="of 16"):
        partition_of_bucket(bucket, 16, 2)


@given(st.lists(st.dictionaries(st.integers(0, 5), st.binary(max_size=20)), max_size=4), st.randoms())
def test_a_bucket_gets_its_frames_by_task_however_they_arrive(frames: list[dict[int, bytes]], random: Random) -> None:
    arrived = [each for numbered in enumerate(frames) for each in frames_of(lambda share: share, numbered)]
    random.shuffle(arrived)
    results = whole(applied(lambda bucket, found: (bucket, found), arrived))
    expected = [
        (bucket, [share[bucket] for share in frames if bucket in share])
        for bucket in sorted({bucket for share in frames for bucket in share})
    ]
    assert [pickle.loads(result) for _, result in results] == expected


def test_an_empty_frame_is_one() -> None:
    arrived = list(frames_of(lambda _: {3: b""}, (0, None)))
    assert [pickle.loads(each) for _, each in whole(applied(lambda *found: found, arrived))] == [(3, [b""])]
    assert list(applied(lambda *found: found, [])) == []


@given(st.lists(st.lists(st.binary(max_size=30), max_size=5), max_size=4), st.integers(0, 60), st.integers(1, 40))
def test_results_come_whole_and_in_order_near_or_in_shares(
    tasks: list[list[bytes]], most: int, share_bytes: int
) -> None:
    results = [
        [piece for bucket, data in enumerate(task) for piece in exchange._pieces(number * 10 + bucket, data)]
        for number, task in enumerate(tasks)
    ]
    found = [next(iter(near(most, iter(task)))) for task in results]
    shares, count = shared(found, share_bytes)
    by_share: list[list[FramePiece]] = [[] for _ in range(count)]
    for number, task in enumerate(results):
        for share, piece in placed(shares, number, iter(task)):
            by_share[share].append(piece)
    assert all(by_share)
    for each in by_share:
        assert sum(len(piece.data) for piece in each) <= share_bytes or len(each) == 1
    far = iter([piece for share in by_share for piece in share])
    pieces: list[Any] = []
    for result in found:
        pieces += result.pieces if isinstance(result, InlineResults) else [next(far) for _ in result.sizes]
        assert isinstance(result, StoredResults) or sum(len(piece.data) for piece in result.pieces) <= most
    assert list(whole(pieces)) == [
        (number * 10 + bucket, data) for number, task in enumerate(tasks) for bucket, data in enumerate(task)
    ]


def test_results_that_are_near_are_not_made_again() -> None:
    def made() -> Any:
        raise AssertionError
        yield

    assert list(placed({1: [0]}, 0, made())) == []


def test_results_of_another_number_than_told_are_a_fault() -> None:
    piece = FramePiece(0, 0, True, b"")
    for results in ([piece], [piece] * 3):
        with pytest.raises(ValueError, match="zip"):
            list(placed({0: [0, 0]}, 0, results))


def test_a_hole_among_pieces_is_a_fault() -> None:
    with pytest.raises(RuntimeError, match="piece 1 of 7 came where 0 was to come"):
        list(whole([FramePiece(7, 1, True, b"")]))
    with pytest.raises(RuntimeError, match="did not come"):
        list(whole([FramePiece(7, 0, False, b"")]))
