"""Groups of commands that are imported when they are called, so that `--help` answers at once."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import click
from typing_extensions import override

from include.settings.environment import checkout

__all__ = ["Lazy", "LazyCommand"]

_LIBRARY: Final = "include.cli"


@dataclass(frozen=True)
class LazyCommand:
    """Where a command lives (`include.cli.<module>`, the name in it), and its line in `--help`.

    One of another package than the library's, which pip does not install, needs a checkout. A `hidden` one, an earlier
    name, works and is not listed.
    """

    module: str
    help: str
    attribute: str = "command"
    package: str = _LIBRARY
    hidden: bool = False

    def load(self) -> click.Command:
        """The command, imported now. Raises `SettingsError` for one that needs a checkout where there is none."""
        if self.package != _LIBRARY:
            checkout()
        module = f"{self.package}.{self.module}"
        command = getattr(importlib.import_module(module), self.attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}.{self.attribute} is no command")
        return command


class Lazy(click.Group):
    """Lists commands from a table, in its order; imports the one that is called."""

    def __init__(self, *args: Any, table: Mapping[str, LazyCommand], **more: Any) -> None:
        super().__init__(*args, **more)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table: the order in which a newcomer needs them."""
        return [name for name, entry in self._table.items() if not entry.hidden]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        entry = self._table.get(cmd_name)
        return None if entry is None else entry.load()

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it; a name that is none is refused with those that it may have meant."""
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in self._table:
            alike = difflib.get_close_matches(args[0], known, 3, 0.5)
            meant = f" Did you mean {' or '.join(alike)}?" if alike else ""
            raise click.UsageError(f"No such command {args[0]!r}.{meant}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Names and lines of the table, without an import."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self._table.items() if not entry.hidden])
