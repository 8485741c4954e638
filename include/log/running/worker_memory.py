"""Keeps Python's garbage collector from walking the libraries of a Spark worker after every task.

PySpark's daemon collects after each task of a reused worker. With Spark, Arrow and the clients imported that walks
120,000 objects that never die: 57 ms of CPU for each worker and batch on the machine where it was measured, more than
a small batch itself. Objects that are frozen are not walked (0.003 ms).
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

__all__ = ["keep_imports", "to_the_end"]

S = TypeVar("S")
T = TypeVar("T")

# Records under way are many objects for a while; with Python's 700 each of them is looked at several times in vain.
_YOUNG = 20_000
_calls = itertools.count(1)


def keep_imports() -> None:
    """Freeze what is alive; call at the end of a task in a worker.

    Done after the first, second, fourth, eighth … task of a process: most is imported by the first, stragglers are
    caught, and the cost vanishes. What comes and goes between is collected as ever, but looked for more seldom.
    """
    tasks = next(_calls)
    if tasks & (tasks - 1) == 0:
        gc.set_threshold(_YOUNG)
        gc.collect()
        gc.freeze()


def to_the_end(work: Callable[[S], Iterable[T]], given: S) -> Iterator[T]:
    """What `work` makes of what a task is given, then `keep_imports`."""
    yield from work(given)
    keep_imports()
