"""A reader that asks all the time which objects of a topic to read, and reads them."""

from __future__ import annotations

import time

from typing_extensions import override

from include.lake.inspect.listing import list_topic
from tests.support.background import Background
from tests.support.lake.hosted_harness import EVER, HostedLakeHarness, read

__all__ = ["PollingReader"]


class PollingReader(Background):
    """Looks again and again for the length of a `with`; at each look no record may be there twice.

    `records`: how many the last look at each group found, the same in both.
    """

    def __init__(self, world: HostedLakeHarness, topic: str, every_s: float = 0.5) -> None:
        super().__init__()
        self._world, self._topic, self._every_s = world, topic, every_s
        self._known: dict[str, list[int]] = {}
        self.looks = 0
        self.counts: dict[str, int] = {}

    @property
    def records(self) -> int:
        (count,) = set(self.counts.values())
        return count

    def again(self, within_s: float = 60) -> None:
        """Return when a look has ended that began after this was called."""
        wanted, end_s = self.looks + 2, time.monotonic() + within_s
        while self.looks < wanted:
            if self.failure is not None:
                raise self.failure
            assert time.monotonic() < end_s, f"no look within {within_s:.0f} s"
            time.sleep(0.05)

    @override
    def work(self) -> None:
        while not self.over.is_set():
            for group in self._world.groups:
                self.counts[group] = self._look(group)
            self.looks += 1
            self.over.wait(self._every_s)

    def _look(self, group: str) -> int:
        seen: set[tuple[int, int]] = set()
        for each in list_topic(self._world.store, group, self._topic, EVER):
            for offset in self._offsets(group, each.key):
                assert (each.partition, offset) not in seen, f"{each.partition}/{offset} is in two objects: {each.key}"
                seen.add((each.partition, offset))
        return len(seen)

    def _offsets(self, group: str, key: str) -> list[int]:
        if key not in self._known:
            found = self._world.store.get(key)
            assert found is not None, f"{key} is listed and gone"
            self._known[key] = [offset for offset, _ in read(group, found.body)]
        return self._known[key]
