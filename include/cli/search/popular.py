"""`lyrebird search popular`, `categories`: what stands in most lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click
import orjson

from include.cli.json_option import json_option
from include.cli.search.options import (
    box_option,
    filter_options,
    filters_of,
    fresh_search,
    in_option,
    point_of,
    radius_m,
)
from include.cli.table import table

if TYPE_CHECKING:
    from include.search.queries import Circle

__all__ = ["categories", "popular"]

_size = click.option("--size", type=click.IntRange(1, 1000), default=10, show_default=True, help="Most names.")
_near = click.option("--near", metavar="LAT,LON", help="Only around this point; with --within.")
_within = click.option("--within", default="2km", show_default=True, help="Radius around --near: 500m, 2km.")


@click.command(name="popular")
@click.option("--category", help="Only lines of this category.")
@filter_options
@box_option
@_near
@_within
@_size
@in_option
@json_option()
def popular(
    category: str | None,
    near: str | None,
    within: str,
    size: int,
    name: str | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """Rank items by the lines they stand in, e.g. `lyrebird search popular --business 4`.

    Beside it the documents that such lines belong to, and the pieces.
    """
    _say("item", category, near, within, size, name, as_json, filters)


@click.command(name="categories")
@filter_options
@box_option
@_near
@_within
@_size
@in_option
@json_option()
def categories(near: str | None, within: str, size: int, name: str | None, as_json: bool, **filters: Any) -> None:
    """Rank categories by the lines of them, e.g. `lyrebird search categories --near 52.5,13.4 --within 5km`."""
    _say("category", None, near, within, size, name, as_json, filters)


def _say(
    by: Literal["item", "category"],
    category: str | None,
    near: str | None,
    within: str,
    size: int,
    name: str | None,
    as_json: bool,
    filters: dict[str, Any],
) -> None:
    search = fresh_search(name)
    result = search.index.popular(by, filters_of(**filters, circle=_circle(near, within)), size, category)
    if as_json:
        click.echo(orjson.dumps(result.to_json()).decode())
        return
    if not result.rows:
        click.echo("nothing found")
    else:
        rows = [[row.name, f"{row.lines:,}", f"{row.documents:,}", f"{row.pieces:,.0f}"] for row in result.rows]
        head = [by, "lines", f"{search.index.target.search.entity}s", "pieces"]
        click.echo(table(head, rows, right=head[1:]))
    if result.others:
        click.echo(f"{result.others:,} lines of other names", err=True)
    if result.error:
        click.echo(f"each number may be too small by {result.error:,} at most", err=True)
    click.echo(result.seen.line(), err=True)


def _circle(near: str | None, within: str) -> Circle | None:
    from include.search.queries import Circle

    return Circle(*point_of(near), radius_m(within)) if near is not None else None
