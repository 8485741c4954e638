"""A topic whose cuts are made up as they are asked for: a year of many partitions in little memory, requests counted.

Each partition has one object in each cut; summaries are there as the nightly audit leaves them.
"""

from __future__ import annotations

import bisect
import datetime as dt
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from include.lake.definition import LakeGroup
from include.lake.protocol.chain import SUMMARY_COMMITS
from include.lake.protocol.chain_key import ChainKey, CutKey, TopicKey
from include.lake.protocol.cut import Commit, CutObject
from include.lake.protocol.object_key import digits
from include.lake.protocol.pointer import ReadersPointer
from include.lake.reading.group_log import TopicIdPartition
from include.log.planning.survey import HiddenOffsets
from include.log.ports import TopicInfo
from include.store.memory import MemoryStore
from include.store.object_store import ObjectInfo, StoredObject

__all__ = ["GROUP", "HOUR_MS", "SimulatedTopic"]

HOUR_MS = 3_600_000
_PARSER = {"format": "json", "time": {"field": ["at"], "unit": "ms"}, "names": [{"by": "hour"}]}
GROUP = LakeGroup.model_validate(
    {
        "kind": "partition",
        "application": "lake",
        "topics": ["events"],
        "prefix": "dates",
        "finalise": {"lateness_s": 600, "zone": "UTC"},
        "rules": [
            {
                "topics": "*",
                "format": {"json_lines": {}},
                "versions": [
                    {
                        "version": 1,
                        "added": "2026-01-01T00:00:00Z",
                        "parser": {
                            "format": "json",
                            "time": {"field": ["at"], "unit": "ms"},
                            "names": [{"by": "hour"}],
                        },
                    }
                ],
            }
        ],
    }
)
_OFFSETS = 10
_PAGE = 1000


class SimulatedTopic(MemoryStore):
    """`ObjectStore` and log at once. `ends_ms` are the ends of the cuts of each partition, in order; they may grow.

    `requests` counts LIST (a page of 1,000 keys each), GET, HEAD and PUT.
    """

    def __init__(self, partitions: int, ends_ms: list[int]) -> None:
        super().__init__()
        self.key = TopicKey("dates", "events", "id1")
        self.partitions, self.ends_ms = partitions, ends_ms
        self.life = "a"
        """Another one has other commits of the same offsets."""
        self.requests: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._sorted: list[str] = []
        pointer = ReadersPointer().reserve("revision 1", "live").upgrade(1, {})
        self.put(self.key.pointer, pointer.to_bytes())
        self.requests.clear()

    def took(self) -> dict[str, int]:
        """What was asked since the last time."""
        with self._counting:
            found, self.requests = dict(sorted(self.requests.items())), Counter()
        return found

    # The log: all is stored.

    def topics(self) -> list[TopicInfo]:
        return [TopicInfo("events", "id1", self.partitions)]

    def edges(self, tps: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, tuple[int, int]]:
        return dict.fromkeys(tps, (0, len(self.ends_ms) * _OFFSETS))

    def hidden(self, tps: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, HiddenOffsets]:
        return {}

    def begun_ms(self, tp: TopicIdPartition, offset: int) -> int:
        return -1

    def timestamps_ms(self, offsets: Mapping[TopicIdPartition, int]) -> dict[TopicIdPartition, int]:
        return dict.fromkeys(offsets, -1)

    def epoch_before(self, tp: TopicIdPartition, offset: int) -> int | None:
        return None

    # The store.

    def get(self, key: str) -> StoredObject | None:
        self._count("GET")
        body = self._made(key)
        if body is None:
            return super().get(key)
        return StoredObject(self._info(key), body)

    def head(self, key: str) -> ObjectInfo | None:
        self._count("HEAD")
        return self._info(key) if self._made(key) else super().head(key)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        self._count("LIST")
        for number, key in enumerate(self._keys(prefix, start_after), 1):
            if not number % _PAGE:
                self._count("LIST")
            yield self._info(key)

    def _write(self, key: str, body: bytes, metadata: Mapping[str, str] | None) -> ObjectInfo:
        self._count("PUT")
        if key not in self._objects:
            bisect.insort(self._sorted, key)
        return super()._write(key, body, metadata)

    def _count(self, kind: str) -> None:
        with self._counting:
            self.requests[kind] += 1

    def _info(self, key: str) -> ObjectInfo:
        return ObjectInfo(key, 1, f'"{self.life}{key}"')

    def _keys(self, prefix: str, after: str) -> Iterator[str]:
        """Whatever a listing below `_chain/<topic>` meets first: what was written, generation 1 by partition."""
        chains = f"{self.key}/1/"
        if prefix.startswith(chains):
            if prefix.startswith(f"{chains}summary/"):
                chain = ChainKey(self.key, 1, int(prefix.split("/")[-2]))
                made = range(0, len(self.ends_ms) // SUMMARY_COMMITS)
                yield from (chain.summary(number * SUMMARY_COMMITS * _OFFSETS) for number in made)
                return
            below = prefix.removeprefix(chains).partition("/")[0]
            for name in [below] if below else sorted(map(str, range(self.partitions))):
                chain = ChainKey(self.key, 1, int(name))
                if f"{chain}0" > after:
                    yield from self._cuts(chain, after)
            return
        at = bisect.bisect_right(self._sorted, after)
        if chains.startswith(prefix) and after < chains:
            yield next(self._keys(chains, ""))
        for key in self._sorted[max(at, bisect.bisect_left(self._sorted, prefix)) :]:
            if not key.startswith(prefix):
                return
            yield key

    def _cuts(self, chain: ChainKey, after: str) -> Iterator[str]:
        begin = int(after.removeprefix(f"{chain}/").partition(".")[0]) // _OFFSETS if f"{chain}/" < after else 0
        for number in range(begin, len(self.ends_ms)):
            for key in (chain.commit(number * _OFFSETS), chain.intent(number * _OFFSETS)):
                if key > after:
                    yield key

    def _made(self, key: str) -> bytes | None:
        if not key.endswith((".commit", ".commits")):
            return None
        cut = CutKey.parse(key, self.key.prefix)
        number = cut.first // _OFFSETS
        if cut.kind == "commits":
            return b"\n".join(self._commit(cut.chain, at) for at in range(number, number + SUMMARY_COMMITS))
        return self._commit(cut.chain, number) if number < len(self.ends_ms) else None

    def _commit(self, chain: ChainKey, number: int) -> bytes:
        first, end_ms = number * _OFFSETS, self.ends_ms[number]
        at = dt.datetime.fromtimestamp((end_ms - 1) / 1000, dt.UTC)
        key = chain.data((f"dt={at.date()}", f"hr={at.hour:02d}"), first, ".jsonl")
        times = (end_ms - 600_000, end_ms - 1)
        file = CutObject(str(key), 1000, self.life * 44 + digits(first), _OFFSETS, first, first + _OFFSETS - 1, *times)
        return Commit(first, first + _OFFSETS, "0" * 32, _OFFSETS, 0, 0, *times, (), 0, "c", {}, (file,)).to_bytes()
