"""Ends that no retry would change: of first tasks, which check what a person asked for, and of what tasks run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from include.errors import NothingToJudge, Terminal

__all__ = ["NoRetry", "refuses", "refusing"]

P = ParamSpec("P")
R = TypeVar("R")


class NoRetry(AirflowFailException):
    """What was run says that running it again helps nobody: no retry.

    Attributes:
        run_next: a command for the mail, or "".
        told: an earlier run has mailed it, so that this one does not.
        on_mailed: called when the mail has gone out.
    """

    def __init__(
        self, text: str, run_next: str = "", *, told: bool = False, on_mailed: Callable[[], None] | None = None
    ) -> None:
        super().__init__(text)
        self.run_next, self.told, self.on_mailed = run_next, told, on_mailed


def refuses(status: int, last_line: str) -> bool:
    """Whether a `lyrebird` command that ended so says that asking again gives the same.

    An exception that nobody foresaw ends with status 1 too, but not with such a line.
    """
    return status == 1 and last_line.startswith("error: ")


def refusing(function: Callable[P, R]) -> Callable[P, R]:
    """Make `function` a task body whose `Terminal` errors fail the task at once: trying again gives the same.

    `NothingToJudge` skips it, which nobody is mailed about.
    """

    @functools.wraps(function)
    def body(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except NothingToJudge as nothing:
            raise AirflowSkipException(str(nothing)) from nothing
        except Terminal as error:
            raise AirflowFailException(str(error)) from error

    return body
