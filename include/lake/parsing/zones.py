"""Time zones from the pinned `tzdata` package, never from the machine: names have to be the same everywhere."""

from __future__ import annotations

from functools import cache
from importlib import import_module, resources
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator

__all__ = ["RULES", "ZoneName", "zone"]

RULES: str = import_module("tzdata").IANA_VERSION
"""Version of the zones' rules, for commit records."""


@cache
def zone(name: str) -> ZoneInfo:
    """The zone of that name; raises `ValueError` for one that there is not."""
    parts = name.split("/")
    plain = all(part.replace("_", "").replace("-", "").replace("+", "").isalnum() and part.isascii() for part in parts)
    file = resources.files("tzdata").joinpath("zoneinfo", *parts) if plain else None
    if file is None or not file.is_file():
        raise ValueError(f"no time zone {name!r}; write it as in Europe/Berlin or UTC")
    with file.open("rb") as stream:
        try:
            return ZoneInfo.from_file(stream, key=name)
        except ValueError:
            raise ValueError(f"{name!r} is no time zone; write it as in Europe/Berlin or UTC") from None


def _known(name: str) -> str:
    zone(name)
    return name


ZoneName = Annotated[str, AfterValidator(_known)]
"""A zone's name in a definition, checked when the file is read."""
