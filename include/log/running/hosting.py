"""An application of one or several streams: all over one Spark session, each in a thread of its own."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from include.clock import SystemClock
from include.log.planning.plan import BatchPlan
from include.log.running import batches_spark
from include.log.running.supervised import once_there, run_beside
from include.metrics.exporter import Metrics
from include.metrics.progress import RunFolder
from include.settings.environment import state_folder

__all__ = ["Host", "host"]

T = TypeVar("T")


@dataclass(frozen=True)
class Host:
    """Where one stream of an application runs.

    Args:
        spark: the session, shared.
        application: its name.
        run_folder: where the stream's progress goes and the stop request comes from.
        metrics: of the application.
        asked: set when the application is to stop.
        trigger_s: least time between the begins of two batches.
        part: which stream of the application this is; '' where it has one.
    """

    spark: Any
    application: str
    run_folder: RunFolder
    metrics: Metrics
    asked: threading.Event
    trigger_s: float
    part: str

    def once_there(self, make: Callable[[], T], missing: type[Exception]) -> T | None:
        """What `make` gives as soon as it does not raise `missing` any more; None when the stream is asked to stop."""
        return once_there(
            make,
            missing,
            application=self.application,
            run_folder=self.run_folder,
            asked=self.asked,
            clock=SystemClock(),
        )

    def run(
        self,
        rows: Any,
        on_batch: Callable[[Any, BatchPlan], Mapping[str, Any] | None],
        *,
        asked: threading.Event | None = None,
        every_s: float = 0.0,
    ) -> None:
        """`batches_spark.run`, of this one; `asked`: another event that ends it; `every_s`: no batch begins earlier."""
        batches_spark.run(
            rows,
            on_batch,
            application=self.application,
            run_folder=self.run_folder,
            metrics=self.metrics,
            part=self.part,
            trigger_s=max(every_s, self.trigger_s),
            keep_session=True,
            asked=asked or self.asked,
        )


def host(application: str, works: Mapping[str, Callable[[Host], None]], *, keep_session: bool = False) -> None:
    """Run the streams of an application, by their names, until it is asked to stop; returns after a clean end.

    Raises what the first of them raised that failed; the others are stopped then.
    """
    metrics = Metrics(application).serve(state_folder())
    run_folder = RunFolder.from_environment(application, state_folder())
    spark = batches_spark.session(application)
    asked, told, several = threading.Event(), dict[str, dict[str, Any]](), len(works) > 1
    trigger_s = batches_spark.trigger_s(len(works))
    try:
        runs = []
        for name, work in works.items():
            folder = run_folder.of_part(name, told) if several else run_folder
            part = name if several else ""
            runs.append(functools.partial(work, Host(spark, application, folder, metrics, asked, trigger_s, part)))
        run_beside(runs, asked)
    finally:
        if not keep_session:
            spark.stop()
