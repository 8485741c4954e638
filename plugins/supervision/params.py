"""Params that several DAGs ask a person for."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import Param

__all__ = ["days_params", "source_param"]


def source_param(sources: Sequence[str], use: str) -> Param:
    """A choice of one of the deployment files' `sources`; `use` ends the sentence about it."""
    return Param(
        sources[0],
        type="string",
        enum=list(sources),
        title="Source",
        description=f"The source of the deployment files {use}.",
    )


def days_params(first: str) -> dict[str, Param]:
    """Days, by `from` and `to`; `first` says which the first one is, and which without it."""
    described = {"from": ("From", first), "to": ("To", "Last day, included; empty: the first.")}
    return {
        name: Param(None, type=["null", "string"], format="date", title=title, description=description)
        for name, (title, description) in described.items()
    }
