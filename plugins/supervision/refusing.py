"""First tasks: plain functions of `include` that check what a person asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from airflow.sdk.exceptions import AirflowFailException

from include.errors import Terminal

__all__ = ["refusing"]

P = ParamSpec("P")
R = TypeVar("R")


def refusing(function: Callable[P, R]) -> Callable[P, R]:
    """Make `function` a task body whose `Terminal` errors fail the task at once: trying again gives the same."""

    @functools.wraps(function)
    def body(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Terminal as error:
            raise AirflowFailException(str(error)) from error

    return body
