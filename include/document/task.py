"""What Spark's workers do: ranges of the log in, folded signals out.

Apart from `stream`, so that a worker imports neither Spark's driver side nor the database's client.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from include.document.signals import Inputs, SignalFold, Signals
from include.log.kafka import record_of
from include.log.registry import ConfluentRegistry
from include.log.slices import Slice, cached_consumer
from include.log.worker_memory import keep_imports
from include.record.codec import Decoder

__all__ = ["fold"]


def fold(
    inputs: Inputs, bootstrap: str, options: Mapping[str, Any], registry_url: str, slices: Sequence[Slice]
) -> Signals:
    """The signals of the records in `slices`; called once a task. Raises as consumer and registry do."""
    signals = SignalFold(inputs, _decoder(registry_url))
    with cached_consumer(bootstrap, options) as consumer:
        for messages in consumer.read(slices):
            for message in messages:
                signals.on_record(record_of(message))
    keep_imports()
    return signals.signals


@functools.cache
def _decoder(registry_url: str) -> Decoder:
    """Kept for the worker's life: schemas are fetched and parsed once."""
    return Decoder(ConfluentRegistry(registry_url).schema)
