"""What the Params of the DAGs index_rebuild and index_promote may ask for: checked here, made into commands."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from include.errors import SettingsError

__all__ = ["PromoteRun", "RebuildRun"]


@dataclass(frozen=True)
class RebuildRun:
    """One rebuild. A retry, and a run after one that failed, goes on with the generation that is unfinished."""

    index: str
    dry_run: bool = False

    @classmethod
    def from_params(cls, params: Mapping[str, Any], indexes: Collection[str]) -> RebuildRun:
        """Read the Params; raises `SettingsError` for an unknown index."""
        return cls(_index(params, indexes), bool(params.get("dry_run")))

    def plan_arguments(self) -> list[str]:
        """Of `lyrebird`: say what would be done."""
        return ["index", "rebuild", self.index, "--plan"]

    def arguments(self) -> list[str]:
        """Of `spark_apps/rebuild_index.py`."""
        return [self.index]


@dataclass(frozen=True)
class PromoteRun:
    """One promotion; without a `generation` that of the last rebuild."""

    index: str
    generation: int | None = None
    accept: bool = False

    @classmethod
    def from_params(cls, params: Mapping[str, Any], indexes: Collection[str]) -> PromoteRun:
        """Read the Params; raises `SettingsError` for an unknown index or a number below 1."""
        generation = params.get("generation")
        if generation is not None and int(generation) < 1:
            raise SettingsError("generations count from 1", path="params.generation", got=generation)
        number = None if generation is None else int(generation)
        return cls(_index(params, indexes), number, bool(params.get("accept_differences")))

    def check_arguments(self) -> list[str]:
        """Of `lyrebird`: say what speaks against it, and fail when something does that is not accepted."""
        return [*self.arguments(), "--check"]

    def arguments(self) -> list[str]:
        """Of `lyrebird`: let readers follow."""
        number = [] if self.generation is None else ["--generation", str(self.generation)]
        return ["index", "promote", self.index, *number, *(["--accept-differences"] if self.accept else [])]


def _index(params: Mapping[str, Any], indexes: Collection[str]) -> str:
    name = str(params.get("index") or "")
    if name not in indexes:
        raise SettingsError(
            "no index of this name is declared",
            path="params.index",
            got=name,
            allowed=sorted(indexes),
            fix="Choose one of them.",
        )
    return name
