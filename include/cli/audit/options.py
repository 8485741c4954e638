"""Options that several commands of `lyrebird audit` share."""

from __future__ import annotations

import re

import click

__all__ = ["Share"]


class Share(click.ParamType[int]):
    """`1/16`, or 16."""

    name = "share"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """How many parts there are."""
        found = re.fullmatch(r"(?:1/)?([1-9][0-9]*)", str(value))
        if found is None:
            self.fail(f"{value} is no share such as 1/16", param, ctx)
        return int(found[1])
