"""The recipes of the table's services: how each is configured, started and asked whether it is ready."""

from __future__ import annotations

from typing import Protocol, cast

from include.local.process import Launch
from include.local.services import Service
from include.local.site import Site

__all__ = ["Recipe", "recipe"]


class Recipe(Protocol):
    """The functions that a module of this package offers. All may be called again and change nothing then."""

    def prepare(self, site: Site, row: Service) -> tuple[Launch, ...]:
        """Write configuration, make first data, return the processes to start. May take seconds."""

    def ready(self, site: Site, row: Service) -> bool:
        """Whether the service answers as `row.ready` says; False for every failure to answer."""

    def finish(self, site: Site, row: Service) -> None:
        """Bring the running service into its first state (accounts, buckets)."""


def recipe(row: Service) -> Recipe:
    """The module for a row of the table."""
    import importlib

    return cast("Recipe", importlib.import_module(f"include.local.recipes.{row.program}"))
