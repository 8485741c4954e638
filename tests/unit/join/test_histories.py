"""The joined topic equals a SQL join of the tables, whatever the history, its batches and the order of the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from include.join.algorithm import floors
from include.join.algorithm.batch import JoinOutput
from include.join.algorithm.row import Touch
from tests.support.joins.histories import History, Run, expected, table_of

pytestmark = pytest.mark.unit


def wrong(
    histories: int, *, grouped: bool = False, version: Callable[[Run, JoinOutput], int] | None = None
) -> list[int]:
    """The seeds of those histories whose table is not SQL's."""
    found = []
    for seed in range(histories):
        history = History(seed, grouped=grouped)
        run = Run(history)
        run.to_the_end()
        outputs = [output._replace(version=version(run, output)) for output in run.outputs] if version else run.outputs
        history.draw.shuffle(outputs)
        if table_of(outputs) != expected(history):
            found.append(seed)
    return found


def test_the_joined_topic_equals_a_sql_join_of_the_tables() -> None:
    assert wrong(1500) == []


def test_of_rows_that_compete_for_one_output_the_newest_is_shown() -> None:
    assert wrong(1500, grouped=True) == []


def test_the_version_of_the_event_would_give_wrong_tables() -> None:
    assert wrong(300, version=lambda run, output: run.event_versions[output.version // 2])


def test_the_greatest_version_of_the_rows_would_give_wrong_tables() -> None:
    assert wrong(300, version=lambda _, output: max(version or 0 for version in output.vector))


def test_the_sum_of_the_versions_would_give_wrong_tables_of_left_joins() -> None:
    assert wrong(300, version=lambda _, output: sum(version or 0 for version in output.vector))


def test_rows_that_a_floor_spares_have_to_be_put_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def unspared(*args: object) -> Iterator[Touch]:
        return (touch for touch in floors.touches_of_floor(*args) if touch.row is None)  # type: ignore[arg-type]

    monkeypatch.setattr("tests.support.joins.histories.touches_of_floor", unspared)
    assert wrong(1500)
