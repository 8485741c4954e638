"""Names that somebody chooses from: refuses one that is wrong, with the nearest ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from include.errors import SettingsError
from include.settings.nearest import nearest

__all__ = ["require_known", "unknown"]


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
