"""Addresses of the local stack's servers as a test hands them on: as one text, with the login."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

__all__ = ["elasticsearch_url", "moved", "registry_url"]


def elasticsearch_url(env: Mapping[str, str]) -> str:
    """What the product's settings and elasticsearch-py take; without a login where `env` names none."""
    return _with_login(env, "LYREBIRD_ELASTICSEARCH")


def registry_url(env: Mapping[str, str]) -> str:
    """What the product's settings take; without a login where `env` names none."""
    return _with_login(env, "LYREBIRD_REGISTRY")


def moved(url: str, host: str, port: int) -> str:
    """The same, login and path too, at another place, such as a proxy before it."""
    found = urlsplit(url)
    login, at, _ = found.netloc.rpartition("@")
    return found._replace(netloc=f"{login}{at}{host}:{port}").geturl()


def _with_login(env: Mapping[str, str], name: str) -> str:
    user = env.get(f"{name}_USER")
    return env[name].replace("//", f"//{user}:{env[f'{name}_PASSWORD']}@", 1) if user else env[name]
