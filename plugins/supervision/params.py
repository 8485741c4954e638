"""Makes a DAG's Params from the model of its runs."""

from __future__ import annotations

from collections.abc import Collection

from airflow.sdk import Param

from include.settings.run import RunParams

__all__ = ["params_of"]


def params_of(run: type[RunParams], **names: Collection[str]) -> dict[str, Param]:
    """A Param for each knob; `names` are those that a knob may take, by its field."""
    return {name: Param(**declared) for name, declared in run.params(**names).items()}
