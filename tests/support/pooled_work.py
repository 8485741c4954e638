"""Tasks for pools, importable by the processes that they run in."""

from __future__ import annotations

import os
import signal

from include.errors import Terminal

__all__ = ["DEADLY", "OURS", "squared"]

DEADLY, OURS = 7, 8


def squared(number: int) -> tuple[int, int | str]:
    """The number and its square; some numbers end their process, or raise an error of ours."""
    if number == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == OURS:
        raise Terminal("no square of this one", number=number)
    return number, number * number
