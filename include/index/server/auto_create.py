"""Refuses a server that would make an index of its own accord for a late write, with no mapping of ours.

A bulk that is under way while its index is dropped or lost would make it anew, with guessed types and no alias filter,
and nobody would notice. So indexes are made and written only where the server does not do that.
"""

from __future__ import annotations

import fnmatch
import logging

from include.errors import Terminal
from include.index.server.admin import IndexAdmin

__all__ = ["creates", "require_no_auto_create"]

logger = logging.getLogger(__name__)


def require_no_auto_create(admin: IndexAdmin, alias: str) -> None:
    """Raises `Terminal` where a write would make a generation of `alias`; warns where this account may not ask."""
    setting = admin.auto_create()
    if setting is None:
        logger.warning("the server does not tell action.auto_create_index: a late write may make %s-v<n> anew", alias)
    elif creates(setting, f"{alias}-v1"):
        raise Terminal(
            "the server makes an index for any late write, without its mapping",
            setting="action.auto_create_index",
            value=setting,
            fix=f"Set it for the cluster (PUT _cluster/settings, persistent) to '-{alias}-v*,{_others(setting)}'.",
        )


def creates(setting: str, name: str) -> bool:
    """Whether a write to index `name` makes it: true, false, or patterns of which the first that fits decides."""
    text = setting.strip().lower()
    if text in ("true", "false"):
        return text == "true"
    for part in setting.split(","):
        pattern = part.strip()
        if fnmatch.fnmatchcase(name, pattern.lstrip("+-")):
            return not pattern.startswith("-")
    return False


def _others(setting: str) -> str:
    return "+*" if setting.strip().lower() == "true" else setting
