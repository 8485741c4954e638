"""Completes names of the deployment files in a shell, without asking a server.

What reads those files is imported when a shell asks: every command that names something has this in its options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from include.errors import LyrebirdError

__all__ = ["declared_topics", "names_of"]


def names_of(*sections: str) -> Callable[[Any, Any, str], list[str]]:
    """For click's `shell_complete`: the entries of these sections that begin as what is typed; none without files."""

    def complete(_context: Any, _parameter: Any, typed: str) -> list[str]:
        from include.settings.deployment import Deployment

        try:
            deployment = Deployment.load()
            known = {name for section in sections for name in deployment.names(section)}
        except LyrebirdError:
            return []
        return sorted(name for name in known if name.startswith(typed))

    return complete


def declared_topics(_context: Any, _parameter: Any, typed: str) -> list[str]:
    """For click's `shell_complete`: topics that the files name, documents' among them; patterns are none."""
    from include.settings.deployment import Deployment

    try:
        deployment = Deployment.load()
        known = {*deployment.names("documents"), *_topics(deployment.values)}
    except LyrebirdError:
        return []
    return sorted(name for name in known if name.startswith(typed) and not set("*?[$") & set(name))


def _topics(value: Any) -> Iterator[str]:
    """What stands below the keys `topic` and `topics`, wherever they are."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            named = below if isinstance(below, list) else [below]
            if key in ("topic", "topics"):
                yield from (name for name in named if isinstance(name, str))
            yield from _topics(below)
    elif isinstance(value, list):
        for each in value:
            yield from _topics(each)
