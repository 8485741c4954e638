"""The shipped deployment with a secret in each setting that may be one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from pydantic import BaseModel

from include.document.database import Replica
from include.settings.connections import Elasticsearch, Kafka, Registry, StoreSettings
from include.source.definition import SourceDefinition
from tests.support.paths import ROOT
from tests.support.planted import planted

__all__ = ["KAFKA", "PLACES", "plant_deployment", "secret_fields"]

KAFKA: Final = ("ssl.key.password", "ssl.key.pem", "sasl.oauthbearer.client.secret")
"""Options of Kafka's clients that are secrets."""

PLACES: Final[dict[tuple[str, ...], type[BaseModel]]] = {
    ("platform", "kafka"): Kafka,
    ("platform", "registry"): Registry,
    ("platform", "elasticsearch"): Elasticsearch,
    ("platform", "store"): StoreSettings,
    ("platform", "expiry"): StoreSettings,
    ("sources", "sources", "shop"): SourceDefinition,
    ("documents", "documents", "assembled_order", "read_from"): Replica,
}
"""File and keys → the model that has secrets there."""

# One logs in by a user and a password, or by one of these.
_INSTEAD: Final = {"token", "api_key"}


def secret_fields(model: type[BaseModel]) -> list[str]:
    """Names of the fields that hold secrets."""
    return [name for name, field in model.model_fields.items() if "SecretStr" in str(field.annotation)]


def plant_deployment(folder: Path, by: Literal["by password", "by key"]) -> dict[str, str]:
    """Makes the folder; gives each secret by its place. `by`: which way to log in, where there are two.

    Clients of Kafka cannot be made of it: they read the key (`ssl.key.pem`), and say at once that it is none.
    """
    shutil.copytree(ROOT / "include" / "deployment", folder)
    secrets: dict[str, str] = {}

    def put(path: tuple[str, ...], **values: Any) -> None:
        file = folder / f"{path[0]}.yaml"
        at = whole = yaml.safe_load(file.read_text(encoding="utf-8"))
        for step in path[1:]:
            at = at.setdefault(step, {})
        at.update(values)
        file.write_text(yaml.safe_dump(whole), encoding="utf-8")

    def put_secrets(path: tuple[str, ...], *names: str) -> None:
        new = {name: planted(".".join((*path[1:], name))) for name in names}
        secrets.update({".".join((*path[1:], name)): secret for name, secret in new.items()})
        put(path, **new)

    for path, model in PLACES.items():
        names = set(secret_fields(model))
        if names & _INSTEAD:
            names = names & _INSTEAD if by == "by key" else names - _INSTEAD
            if by == "by key" and "user" in model.model_fields:
                put(path, user=None, password=None)
        put_secrets(path, *sorted(names))
        if "user" in model.model_fields and "password" in names:
            put(path, user="lyrebird")
        if model is StoreSettings:
            put_secrets(path, "access_key")
    put(("documents", "documents", "assembled_order", "read_from"), host="127.0.0.1", port=6)
    put(("sources", "sources", "shop"), filter={"partners": {"masks": {"name": "hash"}}})
    put_secrets(("platform", "kafka", "options"), *KAFKA)
    put(("platform", "kafka", "options"), **{"security.protocol": "SASL_SSL"})
    return secrets
