"""A polite end of a rebuild: what it put aside comes back when its task is stopped, not only when it fails."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn

__all__ = ["ending_on_sigterm"]

_STATUS = 128 + signal.SIGTERM


@contextlib.contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """In the main thread SIGTERM raises `SystemExit`, so that `finally` is done; elsewhere nothing changes.

    A second one ends the process at once, as by default.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.exit(_STATUS)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
