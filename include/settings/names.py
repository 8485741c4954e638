"""The names that a section declares, for whoever offers them as a choice without knowing their models."""

from __future__ import annotations

from include.errors import SettingsError
from include.settings.deployment import Deployment

__all__ = ["declared"]


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
