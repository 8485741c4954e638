"""What a stage's driver reaches in a log in memory, as `log.access` gives it of a real one."""

from __future__ import annotations

from collections.abc import Callable

from include.clock import Clock
from include.log.access import LogAccess
from include.log.memory import MemoryLog
from include.log.ports import LogWriter
from include.log.registry.memory import MemoryRegistry

__all__ = ["memory_access"]


def memory_access(
    log: MemoryLog,
    registry: MemoryRegistry,
    clock: Clock,
    wrap: Callable[[LogWriter], LogWriter] = lambda writer: writer,
) -> LogAccess:
    """Log and registry; `wrap`: what stands around each writer."""
    return LogAccess(
        registry,
        log.reader(),
        log.admin(),
        lambda name: wrap(log.writer(name)),
        lambda name, places, commit: log.finish(name, places, commit=commit),
        clock,
    )
