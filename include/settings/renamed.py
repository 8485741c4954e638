"""Options and commands under the word that all commands use, where they had another one before."""

from __future__ import annotations

from typing import Any

import click
from typing_extensions import override

__all__ = ["RenamedOption"]


class RenamedOption(click.Option):
    """An option whose earlier names (`before`) still work, and stand neither in `--help` nor in the manual."""

    def __init__(self, *args: Any, before: tuple[str, ...], **more: Any) -> None:
        super().__init__(*args, **more)
        self._before = before

    @override
    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        shown = self.opts
        self.opts = [*shown, *self._before]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = shown
