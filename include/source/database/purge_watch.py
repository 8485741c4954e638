"""Looks now and then at how long the server keeps the binlog, from a thread of its own: capture never waits for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Self

from include.errors import LyrebirdError
from include.record.position import BinlogPosition
from include.source.database.purge import PurgeHorizon
from include.source.definition import SourceDefinition

__all__ = ["Look", "PurgeWatch"]

log = logging.getLogger(__name__)

Look = Callable[[SourceDefinition, BinlogPosition], PurgeHorizon]
"""Asks the server; may block for seconds."""


class PurgeWatch:
    """`horizon` is what the last look found; None before the first. A look that fails leaves it, and is said once."""

    def __init__(self, look: Look, every_s: float = 30.0) -> None:
        self._look = look
        self._source: SourceDefinition | None = None
        self._every_s = every_s
        self._seen = threading.Event()
        self._ended = threading.Event()
        self._position: BinlogPosition | None = None
        self._failing = False
        self.horizon: PurgeHorizon | None = None

    def start(self) -> Self:
        """Look at once when there is a position, then every `every_s` until `close`."""
        threading.Thread(target=self._run, name="purge-watch", daemon=True).start()
        return self

    def close(self) -> None:
        """Look no more; does not wait for a look that is going on."""
        self._ended.set()
        self._seen.set()

    def move(self, source: SourceDefinition) -> None:
        """From which server capture reads from now on; what another one said holds no longer."""
        if self._source is not None and self._source.place != source.place:
            self._position = self.horizon = None
        self._source = source

    def see(self, position: BinlogPosition) -> None:
        """Where capture is."""
        self._position = position
        self._seen.set()

    def look_once(self) -> None:
        """One look; errors of the server are told and forgotten, as capture itself meets them too."""
        source, position = self._source, self._position
        if source is None or position is None:
            return
        try:
            self.horizon = self._look(source, position)
            self._failing = False
        except (LyrebirdError, OSError) as error:
            if not self._failing:
                log.warning("the age of the server's binlog is not known: %s", error)
            self._failing = True

    def _run(self) -> None:
        self._seen.wait()
        while not self._ended.is_set():
            self.look_once()
            self._ended.wait(self._every_s)
