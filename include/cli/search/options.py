"""Options of the commands of `lyrebird search`, with the client and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
import orjson

from include.cli.table import table
from include.errors import SettingsError

if TYPE_CHECKING:
    from include.search.answer import Hit, Page
    from include.search.definition import SearchTarget
    from include.search.fresh import FreshSearch
    from include.search.queries import Box, Circle, Filters
    from include.settings.deployment import Deployment

__all__ = [
    "box_option",
    "filter_options",
    "filters_of",
    "fresh_search",
    "in_option",
    "page_options",
    "point_of",
    "radius_m",
    "say_page",
    "target_named",
    "written_option",
]

F = TypeVar("F", bound=Callable[..., Any])
_UNITS = {"km": 1000.0, "m": 1.0}

in_option = click.option("--in", "name", help="Entry of the section `searches`; needed when there are several.")
written_option = click.option(
    "--written", metavar="GTID", help="Your write: is it not in the index yet, the database is asked too."
)
_size = click.option("--size", type=click.IntRange(1, 1000), default=20, show_default=True, help="Most documents.")
box_option = click.option("--box", metavar="N,W,S,E", help="Only inside these degrees.")
_after = click.option("--after", help="Where the last page ended: its `next`.")


def page_options(command: F) -> F:
    """`--size` and `--after`."""
    return _size(_after(command))


def filter_options(command: F) -> F:
    """Options that become `Filters`."""
    for option in (
        click.option("--equal", "equal", multiple=True, metavar="FIELD=VALUE", help="Only with this value."),
        click.option("--until", metavar="TIME", help="Only before this time; ISO 8601, UTC without a zone."),
        click.option("--since", metavar="TIME", help="Only from this time on; ISO 8601, UTC without a zone."),
        click.option("--business", help="Only of this seller."),
    ):
        command = option(command)
    return command


def filters_of(
    business: str | None = None,
    since: str | None = None,
    until: str | None = None,
    box: str | None = None,
    equal: Sequence[str] = (),
    *,
    user: str | None = None,
    circle: Circle | None = None,
) -> Filters:
    """The options as filters; None and no `equal` filter nothing.

    Args:
        business: the seller's id.
        since: ISO 8601 time, inclusive.
        until: ISO 8601 time, exclusive.
        box: `N,W,S,E` in degrees.
        equal: `FIELD=VALUE` each.
        user: the user's id.
        circle: that documents lie in.

    Raises:
        SettingsError: an option cannot be read; it is named.
    """
    from include.search.queries import Filters

    pairs = [each.partition("=") for each in equal]
    wrong = next((text for text, (_, equals, _v) in zip(equal, pairs, strict=True) if not equals), None)
    if wrong is not None:
        raise SettingsError("not a field and its value", got=wrong, fix="Give --equal state=completed.")
    return Filters(
        user=user,
        business=business,
        since_us=_moment("--since", since),
        until_us=_moment("--until", until),
        box=_box(box),
        circle=circle,
        equal={name: value for name, _, value in pairs},
    )


def point_of(text: str) -> tuple[float, float]:
    """Latitude and longitude of `52.5,13.4`; raises `SettingsError`."""
    lat, lon = _degrees(text, 2, "LAT,LON, such as 52.5,13.4")
    return lat, lon


def radius_m(text: str) -> float:
    """Metres of `500m`, `2km`; raises `SettingsError`."""
    for unit, factor in _UNITS.items():
        number = text.strip().removesuffix(unit)
        if number != text.strip() and number.replace(".", "", 1).isdigit() and float(number) > 0:
            return float(number) * factor
    raise SettingsError("not a distance", got=text, fix="Give metres or kilometres: 500m, 2km.")


def target_named(name: str | None) -> tuple[Deployment, SearchTarget]:
    """The entry of `searches` of that name, or the only one; raises `SettingsError`."""
    from include.search.definition import targets
    from include.settings.deployment import Deployment

    deployment = Deployment.load()
    declared = targets(deployment)
    if name is not None and name in declared:
        return deployment, declared[name]
    if name is None and len(declared) == 1:
        return deployment, next(iter(declared.values()))
    if not declared:
        raise SettingsError("no search is declared", fix="Declare one in the section `searches`.")
    message = "no such search" if name is not None else "there are several searches"
    raise SettingsError(message, got=name, allowed=sorted(declared), fix="Name one of these with --in.")


def fresh_search(name: str | None) -> FreshSearch:
    """The client of the entry of that name, or of the only one."""
    from include.clock import SystemClock
    from include.search.connect import connect

    deployment, target = target_named(name)
    return connect(deployment, target, SystemClock())


def say_page(target: SearchTarget, page: Page, as_json: bool) -> None:
    """Print a page: a table, where it comes from, how the next one is had."""
    if as_json:
        click.echo(orjson.dumps(page.to_json()).decode())
        return
    if page.hits:
        click.echo(_hits(target, page.hits))
    else:
        click.echo("nothing found")
    click.echo(page.seen.line(), err=True)
    if page.next is not None:
        click.echo(f"more: add --after '{page.next}'", err=True)


def _hits(target: SearchTarget, hits: Sequence[Hit]) -> str:
    from include.search.cursor import field_of

    search = target.search
    head = ["id", search.time, *search.shown]
    far, with_lines = hits[0].distance_m is not None, search.lines is not None
    head += ["metres"] if far else []
    head += ["lines"] if with_lines else []
    rows = []
    for hit in hits:
        row = [hit.doc_id, _seconds(field_of(hit.body, search.time))]
        row += [_text(field_of(hit.body, name)) for name in search.shown]
        row += [f"{hit.distance_m:,.0f}"] if hit.distance_m is not None else []
        row += [_lines(target, hit)] if with_lines else []
        rows.append(row)
    return table(head, rows, right=["id", "metres"])


def _lines(target: SearchTarget, hit: Hit) -> str:
    lines = target.search.lines
    if lines is None:
        return ""
    shown = hit.lines or hit.body.get(lines.field) or ()
    return ", ".join(f"{line.get(lines.quantity)} × {line.get(lines.text[0])}" for line in shown)


def _seconds(value: Any) -> str:
    """An ISO moment to the second, with its zone."""
    return f"{value[:19]}Z" if isinstance(value, str) and value.endswith("Z") else _text(value)


def _text(value: Any) -> str:
    return "–" if value is None else str(value)


def _moment(option: str, text: str | None) -> int | None:
    from include.search.cursor import moment_us

    if text is None:
        return None
    try:
        return moment_us(text)
    except ValueError as error:
        raise SettingsError(
            "not a time", option=option, got=text, fix="Give ISO 8601: 2026-11-02T03:04:05Z."
        ) from error


def _box(text: str | None) -> Box | None:
    from include.search.queries import Box

    if text is None:
        return None
    north, west, south, east = _degrees(text, 4, "N,W,S,E, such as 52.7,13.0,52.3,13.8")
    if north < south:
        raise SettingsError("the box's north lies below its south", got=text, fix="Give N,W,S,E.")
    return Box(north, west, south, east)


def _degrees(text: str, count: int, form: str) -> list[float]:
    try:
        degrees = [float(part) for part in text.split(",")]
    except ValueError:
        degrees = []
    # Latitudes and longitudes take turns in both forms.
    limits = [90.0, 180.0] * 2
    if len(degrees) != count or any(not abs(value) <= limit for value, limit in zip(degrees, limits, strict=False)):
        raise SettingsError("not degrees", got=text, fix=f"Give {form}.")
    return degrees
