"""Finds the index that serves an alias, and how far it is: asks once a second at most, for any number of readers.

Searches go to the concrete index that was found, so that answer and position belong together also while an alias moves.
The question goes to the cluster's master, which may be slow while the index itself answers: then readers go on with
what was known last, and one thread waits for all of them.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Final

from include.clock import Clock
from include.errors import BackPressure, Terminal, Transient
from include.index.generations.active import serving_or_none
from include.index.progress.document import read_progress
from include.index.server.port import SearchIndex
from include.record.position import SourcePosition

__all__ = ["NoIndex", "Serving", "ServingIndex"]

_KEPT_S: Final = 1.0
# How long a reader waits for a newer standing where an older one would do.
_GRACE_S: Final = 0.05
# An alias may have moved since, and a generation that is left behind may be dropped.
_STALE_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class ServingIndex:
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
        self._found: tuple[float, ServingIndex] | None = None
        self._asked: Future[tuple[float, ServingIndex]] | None = None

    def now(self, newer_than_s: float | None = None) -> ServingIndex:
        """The standing as it was a second ago at most; fifteen where the server takes long to say.

        `newer_than_s`: at that time of the clock, or later, however long that takes. Raises `NoIndex` when nothing
        stands behind the alias, and what the server's port raises, where nothing is known that would do.
        """
        while True:
            with self._lock:
                now_s = self._clock.monotonic_s()
                oldest = now_s - self._kept_s if newer_than_s is None else newer_than_s
                known = self._found
                if known is not None and known[0] >= oldest:
                    return known[1]
                others = self._asked is not None
                asked = self._asked = self._asked or self._ask(now_s)
            if newer_than_s is None and known is not None and now_s - known[0] <= _STALE_S:
                # Only who has put the question waits for the answer, and not for long.
                wait([asked], 0 if others else _GRACE_S)
                passing = not asked.done() or isinstance(asked.exception(), Transient | BackPressure)
                return known[1] if passing else asked.result()[1]
            answer = asked.result()
            if newer_than_s is None or answer[0] >= newer_than_s:
                return answer[1]

    def forget(self) -> None:
        """Ask again at the next call: the index that was known has gone."""
        with self._lock:
            self._found = self._asked = None

    def _ask(self, now_s: float) -> Future[tuple[float, ServingIndex]]:
        asked: Future[tuple[float, ServingIndex]] = Future()

        def answer() -> None:
            try:
                # The time before the question: what is read is not older than it.
                standing = now_s, self._read()
            except BaseException as error:  # noqa: BLE001 - raised again to whoever waits
                self._answered(asked, None)
                asked.set_exception(error)
            else:
                self._answered(asked, standing)
                asked.set_result(standing)

        threading.Thread(target=answer, name=f"serving-{self._alias}", daemon=True).start()
        return asked

    def _answered(self, asked: Future[tuple[float, ServingIndex]], found: tuple[float, ServingIndex] | None) -> None:
        with self._lock:
            # A question from before `forget` says nothing any more.
            if self._asked is asked:
                self._asked, self._found = None, found or self._found

    def _read(self) -> ServingIndex:
        info = serving_or_none(self._index, self._alias)
        if info is None:
            raise NoIndex(
                "no index serves this alias", alias=self._alias, fix=f"Run `lyrebird index create {self._alias}`."
            )
        progress = read_progress(self._index, info, self._topic)
        if progress is None:
            return ServingIndex(info.name, None, None)
        return ServingIndex(info.name, progress.complete, progress.visible, progress.uncovered)
