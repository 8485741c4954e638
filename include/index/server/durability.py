"""Refuses an index that may lose what it has acknowledged when its node loses power."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from include.errors import Terminal
from include.index.server.admin import IndexAdmin

__all__ = ["require_durable"]

_SETTING: Final = "translog.durability"


def require_durable(admin: IndexAdmin, names: Iterable[str]) -> None:
    """Raises `Terminal` for an index that acknowledges writes before they are on disk.

    Progress follows acknowledgements: what such an index loses with its node would never be sent again.
    """
    for name in names:
        value = admin.settings(name).get(_SETTING, "request")
        if value.lower() != "request":
            raise Terminal(
                "index may lose what it has acknowledged",
                index=name,
                setting=f"index.{_SETTING}",
                value=value,
                fix=f'Set it to "request" (PUT {name}/_settings).',
            )
