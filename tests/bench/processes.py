"""CPU time of an application on Spark, by kind of process."""

from __future__ import annotations

import contextlib

import psutil

__all__ = ["cpu_by_kind"]


def cpu_by_kind(process: psutil.Process) -> dict[str, float]:
    """CPU seconds of the application so far, children that ended included."""
    found = {"driver": 0.0, "JVM": 0.0, "workers": 0.0}
    for each in (process, *process.children(recursive=True)):
        # One that ends just now has become a part of what its parent waited for.
        with contextlib.suppress(psutil.NoSuchProcess):
            part = "driver" if each.pid == process.pid else "JVM" if each.name() == "java" else "workers"
            found[part] += sum(each.cpu_times()[:4])
    return found
