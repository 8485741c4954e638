"""What Spark's workers do: rows of the log in, messages of folded signals out.

Apart from `stream`, so that a worker imports neither Spark's driver side nor the database's client.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any, Final

from include.document.signals import Inputs, SignalFold
from include.log.ports import Record
from include.log.registry import ConfluentRegistry
from include.log.worker_memory import keep_imports
from include.record.codec import Decoder

__all__ = ["MESSAGES", "fold"]

MESSAGES: Final = "message binary"
"""Schema of what `fold` yields; `Signals.of` reads it."""

_COLUMNS: Final = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")


def fold(inputs: Inputs, registry_url: str, batches: Iterable[Any]) -> Iterator[Any]:
    """RecordBatches of the log's rows → one of messages; called once a task."""
    import pyarrow

    arrow: Any = pyarrow
    signals = SignalFold(inputs, _decoder(registry_url))
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in _COLUMNS)
        for topic, partition, offset, at_ms, key, value, headers in zip(*columns, strict=True):
            pairs = tuple((header["key"], header["value"]) for header in headers or ())
            signals.on_record(Record(topic, partition, offset, key, value, pairs, at_ms))
    messages = list(signals.signals.chunks())
    yield arrow.RecordBatch.from_pydict({"message": messages}, arrow.schema([("message", arrow.binary())]))
    keep_imports()


@functools.cache
def _decoder(registry_url: str) -> Decoder:
    """Kept for the worker's life: schemas are fetched and parsed once."""
    return Decoder(ConfluentRegistry(registry_url).schema)
