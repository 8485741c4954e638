"""Which index serves an alias, and how far it is: asked for once a second at most, whatever the number of readers.

Searches go to the concrete index that was found, so that answer and position belong together also while an alias moves.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from include.clock import Clock
from include.errors import Terminal
from include.index.fed import serving_or_none
from include.index.port import SearchIndex
from include.index.progress import read_progress
from include.record.position import SourcePosition

__all__ = ["NoIndex", "Serving", "Standing"]

_KEPT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Standing:
    """An index and how far it is. Single documents are whole up to `complete`, lists up to `visible`.

    Neither speaks for changes of the tables in `uncovered`.
    """

    name: str
    complete: SourcePosition | None
    visible: SourcePosition | None
    uncovered: tuple[str, ...] = ()


class NoIndex(Terminal):
    """Nothing stands behind an alias: the index was never made, or is lost."""


class Serving:
    """Of one alias and topic; safe to use from several threads."""

    def __init__(self, index: SearchIndex, alias: str, topic: str, clock: Clock, kept_s: float = _KEPT_S) -> None:
        self._index = index
        self._alias = alias
        self._topic = topic
        self._clock = clock
        self._kept_s = kept_s
        self._lock = threading.Lock()
        self._found: tuple[float, Standing] | None = None

    def now(self, newer_than_s: float | None = None) -> Standing:
        """The standing as it was a second ago at most; `newer_than_s`: at that time of the clock, or later.

        Raises `NoIndex` when nothing stands behind the alias, and what the server's port raises.
        """
        with self._lock:
            now_s = self._clock.monotonic_s()
            oldest = now_s - self._kept_s if newer_than_s is None else newer_than_s
            if self._found is None or self._found[0] < oldest:
                # The time before the question: what is read is not older than it.
                self._found = (now_s, self._read())
            return self._found[1]

    def forget(self) -> None:
        """Ask again at the next call: the index that was known has gone."""
        with self._lock:
            self._found = None

    def _read(self) -> Standing:
        info = serving_or_none(self._index, self._alias)
        if info is None:
            raise NoIndex(
                "no index serves this alias", alias=self._alias, fix=f"Run `lyrebird index create {self._alias}`."
            )
        progress = read_progress(self._index, info, self._topic)
        if progress is None:
            return Standing(info.name, None, None)
        return Standing(info.name, progress.complete, progress.visible, progress.uncovered)
