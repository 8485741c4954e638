"""Completes names of the deployment files in a shell, without asking a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from include.errors import LyrebirdError
from include.settings.deployment import Deployment

__all__ = ["names_of"]


def names_of(*sections: str) -> Callable[[Any, Any, str], list[str]]:
    """For click's `shell_complete`: the entries of these sections that begin as what is typed; none without files."""

    def complete(_context: Any, _parameter: Any, typed: str) -> list[str]:
        try:
            deployment = Deployment.load()
            known = {name for section in sections for name in deployment.names(section)}
        except LyrebirdError:
            return []
        return sorted(name for name in known if name.startswith(typed))

    return complete
