"""Keys sorted by Spark, which keeps them on disk; whoever asks for ranks holds boundaries only."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame, functions
from typing_extensions import override

from include.audit.search.views.key_list import SortedKeys

__all__ = ["SparkKeys"]

_RANKED: Final = "first long, rank long, doc_id string"


class SparkKeys(SortedKeys):
    """`SortedKeys` in a frame: keys in partitions that are ranges, each sorted; the driver holds their sizes."""

    def __init__(self, keys: DataFrame) -> None:
        self._keys = keys.orderBy("doc_id").persist(StorageLevel.DISK_ONLY)
        sizes = self._keys.groupBy(functions.spark_partition_id().alias("p")).count().collect()
        self._firsts: dict[int, int] = {}
        self._size = 0
        for row in sorted(sizes, key=lambda row: row["p"]):
            self._firsts[row["p"]] = self._size
            self._size += row["count"]

    def __len__(self) -> int:
        return self._size

    @override
    def at(self, ranks: Sequence[int]) -> list[str]:
        found = {rank: key for (rank, _), (key,) in self._read([(rank, rank + 1) for rank in ranks]).items()}
        return [found[rank] for rank in ranks]

    @override
    def spans(self, bounds: Sequence[tuple[int, int]]) -> list[Sequence[str]]:
        found = self._read(bounds)
        return [found[pair] for pair in bounds]

    def forget(self) -> None:
        """Free what is kept on disk."""
        self._keys.unpersist()

    def _read(self, bounds: Sequence[tuple[int, int]]) -> dict[tuple[int, int], list[str]]:
        """Keys of half-open ranges of ranks that do not overlap."""
        out: dict[tuple[int, int], list[str]] = {pair: [] for pair in bounds}
        wanted = {first: (first, end) for first, end in sorted(out) if first < end}
        if wanted:
            task = functools.partial(_ranked, self._firsts, list(wanted.values()))
            rows = self._keys.mapInArrow(task, _RANKED).collect()
            for first, _, key in sorted(rows, key=lambda row: row[1]):
                out[wanted[first]].append(key)
        return out


def _ranked(firsts: dict[int, int], bounds: Sequence[tuple[int, int]], batches: Iterable[Any]) -> Iterator[Any]:
    """One task: the keys of its partition whose rank is within `bounds`, which are sorted, each with its bound's first.

    Keys stay in their columns, and only those that are wanted become Python's: a pass over all of them is cheap.
    """
    import pyarrow

    pa: Any = pyarrow
    context = TaskContext.get()
    rank = firsts.get(context.partitionId() if context else 0, 0)
    bound = 0
    for batch in batches:
        end = rank + batch.num_rows
        pairs: list[tuple[int, int]] = []
        while bound < len(bounds) and bounds[bound][0] < end:
            first, last = bounds[bound]
            pairs += [(first, wanted_rank) for wanted_rank in range(max(first, rank), min(last, end))]
            if last > end:
                break
            bound += 1
        if pairs:
            of, ranks = pa.array([first for first, _ in pairs]), pa.array([wanted_rank for _, wanted_rank in pairs])
            keys = batch.column(0).take(pa.array([wanted_rank - rank for _, wanted_rank in pairs]))
            yield pa.RecordBatch.from_arrays([of, ranks, keys], names=["first", "rank", "doc_id"])
        rank = end
