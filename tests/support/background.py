"""What goes on while a test does something else."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

__all__ = ["Background"]


class Background:
    """Work in a thread for as long as a `with` lasts; what it raises is raised at the end. May be entered again."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    def work(self) -> None:
        """What is done; it looks at `over` often."""
        raise NotImplementedError

    def _guarded(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            self.failure = error

    def __enter__(self) -> Self:
        self.over.clear()
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.over.set()
        if self._thread is not None:
            self._thread.join()
        if self.failure is not None and error is None:
            raise self.failure
