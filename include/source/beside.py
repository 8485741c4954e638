"""Ask something that takes a while beside the stream, which waits for no answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["beside"]

T = TypeVar("T")


def beside(question: Callable[[], T], name: str) -> Future[T]:
    """Ask in a thread of that name; the answer, or what was raised instead, is in the future.

    A question without an end does not keep the process, as those of an executor would.
    """
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            told = question()
        except BaseException as error:  # noqa: BLE001 - raised again by whoever takes the answer
            answer.set_exception(error)
        else:
            answer.set_result(told)

    threading.Thread(target=ask, name=name, daemon=True).start()
    return answer
