"""Names that somebody chooses from: those that a section declares, and the nearest ones to a name that is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from include.errors import SettingsError
from include.settings.deployment import Deployment
from include.settings.nearest import nearest

__all__ = ["declared", "require_known", "unknown"]


def declared(deployment: Deployment, section: str) -> list[str]:
    """The sorted names of a section's entries.

    Raises:
        SettingsError: it has none.
    """
    names = sorted(str(name) for name in deployment.values.get(section) or ())
    if not names:
        raise SettingsError(
            "nothing is declared", file=str(deployment.folder), path=section, fix=f"Add an entry under `{section}:`."
        )
    return names


def unknown(got: str, known: Iterable[str], message: str, **details: Any) -> SettingsError:
    """The error for a name that is none of `known`, with the nearest ones that are."""
    names = sorted(set(known))
    if not names:
        return SettingsError(message, got=got, fix="There is none yet.", **details)
    found = nearest(got, names)
    return SettingsError(message, got=got, nearest=found, names=len(names), fix=f"Did you mean {found[0]}?", **details)


def require_known(got: str, known: Iterable[str], message: str, **details: Any) -> None:
    """Raise the error of `unknown` unless `got` is one of `known`."""
    names = set(known)
    if got not in names:
        raise unknown(got, names, message, **details)
