"""Sections of a deployment that lead to a stack's servers, for what starts servers of its own and names them itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["sections"]


def sections(env: Mapping[str, str], bucket: str) -> dict[str, Any]:
    """`kafka`, `registry` and `store`, with their logins, by the names that `Stack.up` has returned for these three."""

    def login(name: str) -> dict[str, str]:
        return {"user": env[f"{name}_USER"], "password": env[f"{name}_PASSWORD"]}

    keys = {"access_key": env["LYREBIRD_S3_ACCESS_KEY"], "secret_key": env["LYREBIRD_S3_SECRET_KEY"]}
    return {
        "kafka": {"bootstrap": env["LYREBIRD_KAFKA"], **login("LYREBIRD_KAFKA")},
        "registry": {"url": env["LYREBIRD_REGISTRY"], **login("LYREBIRD_REGISTRY")},
        "store": {"endpoint": env["LYREBIRD_S3"], "bucket": bucket, **keys},
    }
