"""What a Spark worker does with its share of a batch. It imports no more than that takes, as workers start often.

Rows come and go as Arrow batches; `IndexTask` does the work.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from include.clock import SystemClock
from include.index.arrow import outcome_arrow, outcome_rows, record_of
from include.index.delivery import Delivery
from include.index.elasticsearch import ElasticsearchIndex
from include.index.metadata import Origin
from include.index.port import SearchIndex
from include.index.task import IndexTask
from include.log.registry import ConfluentRegistry
from include.log.worker_memory import keep_imports
from include.record.codec import Decoder
from include.settings.connections import Elasticsearch

__all__ = ["WorkerPlan", "work_off"]

_PATIENCE_S = 15.0
_WINDOW_BYTES = 8_000_000


@dataclass(frozen=True)
class WorkerPlan:
    """What a worker needs to index records; plain values, as it travels."""

    index: str
    entity: str
    origin: Origin
    elasticsearch: Elasticsearch
    registry_url: str
    bulk_bytes: int
    epoch: int = 0
    patience_s: float = _PATIENCE_S


@functools.lru_cache(maxsize=8)
def _connections(url: str, user: str | None, password: str | None, registry: str) -> tuple[SearchIndex, Decoder]:
    """Kept for as long as the worker lives: a new connection for each batch would cost more than the batch."""
    index = ElasticsearchIndex(Elasticsearch(url=url, user=user, password=password))
    return index, Decoder(ConfluentRegistry(registry).schema)


def work_off(plan: WorkerPlan, batches: Iterable[Any]) -> Iterator[Any]:
    """One task: index the rows of its share, then give one row of counts, and those for the driver."""
    import pyarrow

    arrow: Any = pyarrow
    server = plan.elasticsearch
    index, decode = _connections(server.url, server.user, server.password, plan.registry_url)
    task = IndexTask(
        origin=plan.origin,
        entity=plan.entity,
        decode=decode,
        delivery=Delivery(
            functools.partial(index.bulk, plan.index),
            SystemClock(),
            index=plan.index,
            bulk_bytes=plan.bulk_bytes,
            patience_s=plan.patience_s,
        ),
        window_bytes=_WINDOW_BYTES,
        epoch=plan.epoch,
    )
    outcome = task.run(record_of(row) for batch in batches for row in batch.to_pylist())
    yield arrow.RecordBatch.from_pylist(list(outcome_rows(outcome)), schema=outcome_arrow())
    keep_imports()
