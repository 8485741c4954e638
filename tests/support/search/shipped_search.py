"""The shipped search, as its deployment declares it, without servers."""

from __future__ import annotations

from include.search.definition import SearchTarget, targets
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT

__all__ = ["shipped_target"]

_NAMES = (
    "KAFKA",
    "REGISTRY",
    "ELASTICSEARCH",
    "S3",
    "S3_ACCESS_KEY",
    "S3_SECRET_KEY",
    "MYSQL_HOST",
    "MYSQL_PORT",
    "MYSQL_USER",
    "MYSQL_PASSWORD",
)


def shipped_target() -> SearchTarget:
    """The entry `orders`."""
    folder = PROJECT_ROOT / "include" / "deployment"
    return targets(Deployment.load(folder, {f"LYREBIRD_{name}": "1" for name in _NAMES}))["orders"]
