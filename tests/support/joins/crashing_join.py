"""The join application, and its workers, that die (kill -9) where a file says so, or do each batch twice.

Run by `ApplicationProcess`, in the place of spark_apps/join.py. Below `$LYREBIRD_STATE`:

* `die` names a step of the order of durable steps (`STEPS`): who comes through it first takes the file away and dies.
* `twice`: each batch's work is done twice before it is committed, and the two have to make the same, byte by byte.
  A line a batch goes to `done-twice`: how many outputs it had.

Spark runs its workers by this module as well (`DAEMON`), as what is changed here has to be changed in them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, get_args

import include.log.publishing.publisher as publishing
import include.state.bucket as buckets
from include.join.bucket import JoinBucketResult, JoinStage
from include.join.joins_spark import _Hosted, run
from include.join.work import CarryOutJoins, JoinBatch
from include.log.kafka.log import KafkaWriter
from include.log.publishing.publisher import Publisher
from include.log.running.application import main
from include.state.objects import BucketObjects
from include.state.rocks import RocksEngine

__all__ = ["DAEMON", "STEPS"]

DAEMON: Final = {
    "PYSPARK_SUBMIT_ARGS": "--conf spark.python.daemon.module=tests.support.joins.crashing_join pyspark-shell"
}

_PLACES: Final[dict[str, tuple[Any, str, bool]]] = {
    "publisher 1, writer opened": (publishing, "open_ended", True),
    "publisher 2, committed read": (Publisher, "open", True),
    "publisher 3, all appended": (Publisher, "commit", False),
    "publisher 3, batch committed": (Publisher, "commit", True),
    "publisher 4, resolved appended": (Publisher, "resolve", False),
    "publisher 4, resolved committed": (Publisher, "resolve", True),
    "publisher, any commit of the log": (KafkaWriter, "commit", True),
    "bucket 1, log put": (BucketObjects, "put_log", True),
    "bucket 2, store written": (RocksEngine, "write", True),
    "bucket 3, files of a snapshot sent": (BucketObjects, "put_snapshot", False),
    "bucket 3, snapshot listed": (BucketObjects, "put_snapshot", True),
}
"""Step -> whose call ends it; whether it dies behind the call, or before."""
STEPS: Final = tuple(_PLACES)


def _state() -> Path:
    return Path(os.environ["LYREBIRD_STATE"])


def _die(step: str) -> None:
    asked = _state() / "die"
    with contextlib.suppress(FileNotFoundError):
        if asked.read_text(encoding="utf-8") == step:
            asked.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


def _deadly(call: Callable[..., Any], before: list[str], behind: list[str]) -> Callable[..., Any]:
    @functools.wraps(call)
    def wrapped(*args: Any, **named: Any) -> Any:
        for step in before:
            _die(step)
        result = call(*args, **named)
        for step in behind:
            _die(step)
        return result

    return wrapped


def _arm() -> None:
    # Snapshots come with every third version of a bucket.
    setattr(buckets, "_MOST_LOGS", 2)  # noqa: B010 - it is final for everybody else
    for owner, name in dict.fromkeys((owner, name) for owner, name, _ in _PLACES.values()):
        mine = {step: behind for step, (of, call, behind) in _PLACES.items() if (of, call) == (owner, name)}
        before, after = ([step for step, behind in mine.items() if behind is wanted] for wanted in (False, True))
        setattr(owner, name, _deadly(getattr(owner, name), before, after))


def _twice(carry_out: CarryOutJoins) -> CarryOutJoins:
    def made(found: JoinBucketResult) -> tuple[Any, ...]:
        located = {number: each.stale for number, each in found.located.items()}
        # How its buckets were opened differs: the second time an attempt is undone.
        counts = {what: count for what, count in found.counts.items() if what[0] not in get_args(JoinStage)}
        return found.outputs, found.held, found.refused, counts, found.stale, found.products, found.place, located

    def again(work: JoinBatch) -> Iterator[tuple[int, JoinBucketResult]]:
        first, second = dict(carry_out(work)), dict(carry_out(work))
        if {b: made(each) for b, each in first.items()} != {b: made(each) for b, each in second.items()}:
            raise AssertionError(f"a batch made something else when it was done again: {first} and {second}")
        with (_state() / "done-twice").open("a", encoding="utf-8") as told:
            told.write(f"{sum(len(each.outputs) for each in second.values())}\n")
        yield from second.items()

    return again


if __name__ == "__main__":
    _arm()
    if "--application" not in sys.argv:
        from pyspark.daemon import manager

        manager()
    else:
        if (_state() / "twice").exists():
            equip = _Hosted._equip
            _Hosted._equip = lambda self, *editions: _twice(equip(self, *editions))  # type: ignore[method-assign]
        sys.exit(main(__doc__ or "", run))
