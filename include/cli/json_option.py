"""The option `--json`, which commands that tell something have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["json_option"]

F = TypeVar("F", bound=Callable[..., Any])


def json_option(text: str = "Print one JSON object, nothing else.") -> Callable[[F], F]:
    """A decorator that gives a command `--json`, as its argument `as_json`; errors are told as JSON then, too."""
    return click.option("--json", "as_json", is_flag=True, help=text)
