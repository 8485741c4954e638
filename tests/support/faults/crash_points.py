"""Kills a process before or after any durable call of its writers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from include.log.memory import MemoryLog
from include.log.ports import LogWriter


class Killed(Exception):
    """The process is gone."""


class CrashPoint:
    """Ends the process at the n-th durable call over all writers: before it happens, or right after."""

    def __init__(self, at: int, *, after: bool, error: type[Exception] = Killed) -> None:
        self.left, self.after, self.error = at, after, error
        self.burnt: str | None = None

    def around(self, name: str, call: Any) -> Any:
        self.left -= 1
        if self.left == 0 and not self.after:
            self.burnt = name
            raise self.error(name)
        result = call()
        if self.left == 0 and self.after:
            self.burnt = name
            raise self.error(name)
        return result


class CrashingWriter:
    """A writer whose calls are counted."""

    def __init__(self, inner: LogWriter, fuse: CrashPoint) -> None:
        self._inner, self._fuse = inner, fuse

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)
        if name in ("close", "abort"):
            return call
        return lambda *args, **named: self._fuse.around(name, lambda: call(*args, **named))


def crashing(fuse: CrashPoint) -> Callable[[LogWriter], LogWriter]:
    """Makes of a writer one whose calls are counted."""
    return lambda writer: CrashingWriter(writer, fuse)


class CrashOfKafka(CrashPoint):
    """Kafka, too, goes down with the process: what ends next is not told to some partitions."""

    def __init__(self, at: int, log: MemoryLog, places: list[tuple[str, int]], *, after: bool) -> None:
        super().__init__(at, after=after)
        self._log, self._places = log, places

    def around(self, name: str, call: Any) -> Any:
        if self.left == 1:
            self._log.forget(*self._places)
        return super().around(name, call)
