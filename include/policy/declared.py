"""The policy of a source, for those who read its database beside capture."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, SecretStr

from include.policy.policy import Policy, PolicyVerdict, SourceDeclaration, TableFilters
from include.settings.deployment import Deployment
from include.settings.secret import Secret

__all__ = ["declared_policy"]


class _Declared(BaseModel):
    """Of an entry of `sources` what its policy is made of; capture's own definition describes the keys."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    databases: list[str] = []
    filter_policy: PolicyVerdict = "accept"
    filter: TableFilters = {}
    mask_salt: Secret = SecretStr("")


def declared_policy(deployment: Deployment, source: str) -> Policy:
    """The policy of an entry of `sources` that is there; raises `SettingsError` as `Policy.declared` does."""
    declared = deployment.part(("sources", source), _Declared)
    return Policy.declared(
        declared.filter_policy,
        declared.filter,
        declared.databases,
        declared.mask_salt.get_secret_value(),
        origin=SourceDeclaration(deployment, ("sources", source)),
    )
