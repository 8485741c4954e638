"""Joins of 60,000 random histories against SQL: no table may be wrong."""

from __future__ import annotations

import pytest

from tests.support.joins.histories import History, Run, expected, table_of

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]


@pytest.mark.parametrize("grouped", [False, True])
def test_no_history_gives_another_table_than_sql(grouped: bool) -> None:
    wrong = []
    for seed in range(30_000):
        history = History(seed, changes=60, grouped=grouped)
        run = Run(history, buckets=seed % 4 + 1)
        run.to_the_end()
        history.draw.shuffle(run.outputs)
        if table_of(run.outputs) != expected(history):
            wrong.append(seed)
    assert wrong == []
