"""`lyrebird search near`, `area`: by place."""

from __future__ import annotations

from typing import Any

import click

from include.cli.json_option import json_option
from include.cli.search.options import (
    box_option,
    filter_options,
    filters_of,
    fresh_search,
    in_option,
    page_options,
    point_of,
    radius_m,
    say_page,
)

__all__ = ["area", "near"]

# Degrees may begin with a minus: what is no option is an argument.
_SIGNED = {"ignore_unknown_options": True}


@click.command(name="near", context_settings=_SIGNED)
@click.argument("point", metavar="LAT,LON")
@click.option("--within", default="2km", show_default=True, help="Radius: 500m, 2km.")
@click.option("--user", help="Only of this user.")
@filter_options
@box_option
@in_option
@page_options
@json_option()
def near(
    point: str,
    within: str,
    user: str | None,
    name: str | None,
    size: int,
    after: str | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """List what is near a point, nearest first: `lyrebird search near 52.5,13.4 --within 1km`.

    South and west are negative.
    """
    from include.search.queries import Circle

    search = fresh_search(name)
    circle = Circle(*point_of(point), radius_m(within))
    say_page(search.index.target, search.index.near(circle, filters_of(**filters, user=user), size, after), as_json)


@click.command(name="area", context_settings=_SIGNED)
@click.argument("box", metavar="N,W,S,E")
@click.option("--user", help="Only of this user.")
@filter_options
@in_option
@page_options
@json_option()
def area(
    box: str,
    user: str | None,
    name: str | None,
    size: int,
    after: str | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """List what lies inside a box of degrees, newest first: `lyrebird search area 52.7,13.0,52.3,13.8`.

    The west may be greater than the east: the box then spans the 180th meridian.
    """
    search = fresh_search(name)
    page = search.index.listed(filters_of(**{**filters, "box": box}, user=user), size, after)
    say_page(search.index.target, page, as_json)
