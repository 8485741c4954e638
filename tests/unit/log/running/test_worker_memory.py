from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator

import pytest

from include.log.running import worker_memory


@pytest.fixture(autouse=True)
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker_memory, "_calls", itertools.count(1))
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_what_is_alive_after_the_first_task_is_not_walked_again() -> None:
    worker_memory.keep_imports()
    assert gc.get_freeze_count() > 1000


def test_garbage_of_a_later_task_is_collected_as_ever() -> None:
    worker_memory.keep_imports()
    worker_memory.keep_imports()
    frozen = gc.get_freeze_count()
    loop: list[object] = []
    loop.append(loop)
    worker_memory.keep_imports()
    assert gc.get_freeze_count() <= frozen
    del loop
    assert gc.collect() >= 1


def test_a_task_gives_all_that_its_work_makes_and_freezes_behind_it() -> None:
    made = worker_memory.to_the_end(lambda given: map(str, given), [1, 2])
    assert [(each, gc.get_freeze_count()) for each in made] == [("1", 0), ("2", 0)]
    assert gc.get_freeze_count() > 1000
