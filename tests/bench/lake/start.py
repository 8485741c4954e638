"""`python -m tests.bench.lake.start`: how long a group with 10,000 partitions takes to know where it stands.

Its chains lie on the local S3 server, a cut in each; the log is told, not asked, so what is measured is the driver and
its requests. Two ways: the revision that wrote them begins again, and a newer one takes them over. Also told is the
longest time between two reports, which a guardian takes for a stall when it is too long. Ends with 1 when a bound is
missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Final

from include.clock import SystemClock
from include.errors import LyrebirdError
from include.lake.definition import LakeGroup
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit
from include.lake.protocol.generations import take_over
from include.lake.reading.group_log import TopicIdPartition
from include.lake.writing.driver import Driver
from include.lake.writing.planner import TopicRecreated
from include.lake.writing.task import Outcome, Task
from include.log.planning.survey import HiddenOffsets
from include.log.ports import TopicInfo
from include.settings.connections import StoreSettings
from include.store.s3 import S3Store, store_of
from tests.bench.lake.place import lake_placed

__all__ = ["main"]

_WITHIN_S: Final = 120
_MOST_SILENT_S: Final = 30
_TOPICS: Final = 4
_AT_ONCE: Final = 16


class _Told:
    """Log, pool and watcher of a driver that begins nothing; each partition has ten records more than are stored."""

    slots, together = 0, 1

    def __init__(self, partitions: int) -> None:
        self.infos = [TopicInfo(f"events{n}", f"id{n}", partitions // _TOPICS) for n in range(_TOPICS)]

    def close(self) -> None:
        pass

    def topics(self) -> list[TopicInfo]:
        return self.infos

    def edges(self, tps: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, tuple[int, int]]:
        return dict.fromkeys(tps, (0, 20))

    def hidden(self, tps: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, HiddenOffsets]:
        return {}

    def begun_ms(self, tp: TopicIdPartition, offset: int) -> int:
        return -1

    def timestamps_ms(self, offsets: Mapping[TopicIdPartition, int]) -> dict[TopicIdPartition, int]:
        return dict.fromkeys(offsets, 0)

    def epoch_before(self, tp: TopicIdPartition, offset: int) -> int | None:
        return 0

    def submit(self, *tasks: Task) -> None:
        raise AssertionError(tasks)

    def finished(self) -> list[Outcome]:
        return []

    def on_outcome(self, outcome: Outcome) -> None:
        raise AssertionError(outcome)

    def on_lost(self, remade: TopicRecreated) -> None:
        raise AssertionError(remade)

    def on_gone(self, tp: TopicIdPartition, first: int, until: int) -> None:
        raise AssertionError(tp, first, until)

    def on_refused(self, tp: TopicIdPartition, error: LyrebirdError) -> None:
        raise error

    def on_away(self, error: LyrebirdError) -> None:
        raise error

    def on_back(self) -> None:
        """It was never away."""


def _note(reports: list[float]) -> None:
    reports.append(time.perf_counter())


def _group(revision: int) -> LakeGroup:
    return LakeGroup.model_validate(
        {
            "kind": "backup",
            "application": "lake",
            "topics": ["events*"],
            "prefix": "raw",
            "revision": revision,
            "rules": [{"topics": "*", "format": {"sequence": {"layout": "verbatim"}}}],
        }
    )


def _store_a_cut_of_each(store: S3Store, told: _Told) -> None:
    topics = [TopicKey("raw", info.name, info.named_id) for info in told.infos]
    for topic, info in zip(topics, told.infos, strict=True):
        take_over(store, topic, 1, info.partitions, lambda chains: dict.fromkeys(chains, 0))
    chains = [
        ChainKey(topic, 1, p) for topic, info in zip(topics, told.infos, strict=True) for p in range(info.partitions)
    ]
    commit = Commit(0, 10, "0" * 32, 0, 0, 0, None, None, (), 0, "c", {}, ()).to_bytes()
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for _ in threads.map(lambda chain: store.put_if_absent(chain.commit(0), commit), chains):
            pass


def main() -> int:
    """Measure; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    partitions: int = parser.parse_args().partitions
    held = True
    with lake_placed(apart=True) as place:
        settings = StoreSettings.model_validate(place.store)
        store = store_of(settings)
        store.ensure_bucket()
        told = _Told(partitions)
        _store_a_cut_of_each(store, told)
        # Taking over looks up as many heads twice, and what the log says of them: once for a revision.
        for what, revision, within_s in (
            ("begins again", 1, _WITHIN_S),
            ("is taken over by a newer revision", 2, 3 * _WITHIN_S),
        ):
            reports = [time.perf_counter()]
            driver = Driver("raw", _group(revision), told, store, told, SystemClock(), told, "bench")
            while not driver.planner.tps or driver.planner.headless() or driver.planner.unaged():
                driver.step("", partial(_note, reports))
                _note(reports)
            took_s = reports[-1] - reports[0]
            silent_s = max(after - before for before, after in pairwise(reports))
            held &= took_s < within_s and silent_s < _MOST_SILENT_S
            print(
                f"a group with {partitions} partitions {what}: {took_s:.1f} s (wanted: < {within_s}), "
                f"{len(reports)} reports, at most {silent_s:.1f} s apart (wanted: < {_MOST_SILENT_S})",
                flush=True,
            )
        store.close()
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
