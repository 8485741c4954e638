"""The tasks of Spark's workers: ranges of the log in, folded signals or the newest versions of keys out.

Apart from `assembler_spark`, so that a worker imports neither Spark's driver side nor the database's client.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from include.document.signals import Inputs, SignalFold, Signals
from include.log.kafka.log import record_of
from include.log.planning.slices import Slice, cached_consumer, slices_in
from include.log.registry.confluent import ConfluentRegistry
from include.log.running.worker_memory import keep_imports
from include.record import version as versions
from include.record.codec import Decoder
from include.settings.connections import Registry

__all__ = ["KEY_SCHEMA", "fold", "keys"]

KEY_SCHEMA: Final = "key binary, version long, live boolean"
_ROWS: Final = 20_000


def fold(
    inputs: Inputs, bootstrap: str, options: Mapping[str, Any], registry: Registry, slices: Sequence[Slice]
) -> Signals:
    """The signals of the records in `slices`; called once a task. Raises as consumer and registry do."""
    signals = SignalFold(inputs, _decoder(registry))
    with cached_consumer(bootstrap, options) as consumer:
        for messages in consumer.read(slices):
            for message in messages:
                signals.on_record(record_of(message))
    return signals.signals


def keys(bootstrap: str, options: Mapping[str, Any], batches: Iterable[Any]) -> Iterator[Any]:
    """One task over rows of `SLICE_SCHEMA`: rows of `KEY_SCHEMA`, of each key the newest that this task has read."""
    import pyarrow

    pa: Any = pyarrow
    names = ("key", "version", "live")
    slices = slices_in(batches)
    newest: dict[bytes, tuple[int, bool]] = {}
    if slices:
        with cached_consumer(bootstrap, options) as consumer:
            for messages in consumer.read(slices):
                for message in messages:
                    key = message.key()
                    if key is not None:
                        at = versions.from_headers(message.headers() or ()), message.value() is not None
                        newest[key] = max(at, newest.get(key, at))
    keep_imports()
    rows = iter([(key, *at) for key, at in newest.items()])
    while some := list(itertools.islice(rows, _ROWS)):
        kinds = (pa.binary(), pa.int64(), pa.bool_())
        columns = [pa.array(column, kind) for column, kind in zip(zip(*some, strict=True), kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=names)


@functools.cache
def _decoder(registry: Registry) -> Decoder:
    """Kept for the worker's life: schemas are fetched and parsed once."""
    return Decoder(ConfluentRegistry(registry).schema)
