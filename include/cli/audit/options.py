"""Options that several commands of `lyrebird audit` share."""

from __future__ import annotations

import re
from typing import Any

import click
from typing_extensions import override

__all__ = ["Share"]


class Share(click.IntRange):
    """`1/16`, or 16: how many parts there are, one of which is looked at."""

    name = "share"

    def __init__(self, most: int | None = None) -> None:
        super().__init__(1, most)

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        parts = re.fullmatch(r"(?:1/)?([0-9]+)", str(value))
        if parts is None:
            self.fail(f"{value} is no share such as 1/16", param, ctx)
        return super().convert(int(parts[1]), param, ctx)
