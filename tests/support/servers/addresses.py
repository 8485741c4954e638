"""Addresses of the local stack's servers as a test hands them on: as one text, with the login."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["elasticsearch_url"]


def elasticsearch_url(env: Mapping[str, str]) -> str:
    """What the product's settings and elasticsearch-py take; without a login where `env` names none."""
    url, user = env["LYREBIRD_ELASTICSEARCH"], env.get("LYREBIRD_ELASTICSEARCH_USER")
    return url.replace("//", f"//{user}:{env['LYREBIRD_ELASTICSEARCH_PASSWORD']}@", 1) if user else url
