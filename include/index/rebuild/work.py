"""One range of a rebuild, worked off in whatever process it is given to."""

from __future__ import annotations

from typing import Any

from include.index.arrow import outcome_of
from include.index.outcome import TaskOutcome
from include.index.worker import WorkerPlan, work_off
from include.log.slices import Slice

__all__ = ["work"]


def work(plan: WorkerPlan, part: Slice) -> TaskOutcome:
    """Index the records of `part`, as a task of the application does; may be done again, by anybody."""
    import pyarrow

    arrow: Any = pyarrow
    row = {
        "topic": part.topic,
        "topic_id": part.topic_id,
        "partition": part.partition,
        "start": part.start,
        "end": part.end,
    }
    batches = work_off(plan, [arrow.RecordBatch.from_pylist([row])])
    return outcome_of(found for batch in batches for found in batch.to_pylist())
