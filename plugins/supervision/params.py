"""Params that several DAGs ask a person for."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import Param

__all__ = ["source_param"]


def source_param(sources: Sequence[str], use: str) -> Param:
    """A choice of one of the deployment files' `sources`; `use` ends the sentence about it."""
    return Param(
        sources[0],
        type="string",
        enum=list(sources),
        title="Source",
        description=f"The source of the deployment files {use}.",
    )
