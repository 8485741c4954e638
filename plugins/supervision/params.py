"""Makes a DAG's Params from the model of its runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from airflow.sdk import Param

from include.settings.run import RunParams

__all__ = ["params_of"]


def params_of(
    run: type[RunParams], defaults: Mapping[str, Any] | None = None, **names: Collection[str]
) -> dict[str, Param]:
    """A Param for each knob; arguments as of `RunParams.params`."""
    return {name: Param(**declared) for name, declared in run.params(defaults, **names).items()}
