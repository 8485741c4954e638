"""100,000 random histories of partitions, four interleavings of each: one output."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.support.eventtime.histories import History, Run, expected

pytestmark = [pytest.mark.prove, pytest.mark.timeout(3600)]

HISTORIES = 100_000
SHARE = 1_000
INTERLEAVINGS = 4


def wrong_of(first: int) -> list[int]:
    wrong = []
    for seed in range(first, first + SHARE):
        history = History(seed)
        outputs, late = expected(history)
        for order in range(INTERLEAVINGS):
            run = Run(history, seed * INTERLEAVINGS + order, buckets=seed % 4 + 1)
            run.to_the_end()
            if (run.outputs, run.late) != (outputs, late):
                wrong.append(seed)
    return wrong


def test_no_interleaving_and_no_cut_gives_another_output() -> None:
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        wrong = [seed for found in processes.map(wrong_of, range(0, HISTORIES, SHARE)) for seed in found]
    assert wrong == []
