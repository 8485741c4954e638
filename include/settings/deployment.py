"""Loads the deployment files of one folder and keeps the place of each value for errors.

All `*.yaml` files make one mapping: section -> name -> values. A section may be spread over files, a name in it
may not. `${NAME}` and `${NAME:-default}` in a text are filled from `environment`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from include.errors import SettingsError
from include.settings.environment import deployment_folder, environment
from include.settings.nearest import nearest

__all__ = ["Deployment", "FilePlace", "Strict", "unknown_name"]

_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)(?::-([^}]*))?\}")
Path_ = tuple[str | int, ...]


class Strict(BaseModel):
    """Base of every definition: unknown keys are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where a value stands."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Deployment:
    """The deployment files of one folder, as plain values with their places."""

    folder: Path
    values: Mapping[str, Any]
    places: Mapping[Path_, FilePlace] = field(repr=False)

    @classmethod
    def load(
        cls, folder: Path | None = None, env: Mapping[str, str] | None = None, *, offline: bool = False
    ) -> Deployment:
        """Read every `*.yaml` of `folder` (default: `deployment_folder()`); raises `SettingsError`.

        `offline`: names that nobody set stay as they stand, for who asks no server.
        """
        folder = folder or deployment_folder()
        names = environment() if env is None else env
        if offline:
            names = _AsTheyStand(names)
        files = sorted(folder.glob("*.yaml"))
        if not files:
            raise SettingsError(
                "no deployment files", file=str(folder), fix="Set LYREBIRD_DEPLOYMENT to a folder with *.yaml files."
            )
        values: dict[str, Any] = {}
        places: dict[Path_, FilePlace] = {}
        for file in files:
            _merge(values, _read(file, places, names, set(values)), places)
        return cls(folder, values, places)

    @classmethod
    def of_file(cls, file: Path, env: Mapping[str, str] | None = None) -> Deployment:
        """Read one file that a deployment file names, such as that of a join; raises `SettingsError`."""
        places: dict[Path_, FilePlace] = {}
        return cls(file, _read(file, places, environment() if env is None else env, set()), places)

    def whole(self, model: type[M]) -> M:
        """All values as one `model`; raises `SettingsError`."""
        return self._parse(model, dict(self.values), ())

    def section(self, name: str, model: type[M]) -> dict[str, M]:
        """The named entries of a section, each parsed by `model`; empty when no file has the section."""
        raw = self.values.get(name) or {}
        if not isinstance(raw, dict):
            raise self.error((name,), "a section holds names", got=raw, allowed="a mapping of names")
        return {str(key): self._parse(model, value, (name, key)) for key, value in raw.items()}

    def one(self, name: str, model: type[M]) -> M:
        """A section that is one value (`kafka`, `registry`, …); raises `SettingsError` when it is missing."""
        if name not in self.values:
            raise SettingsError("section is missing", file=str(self.folder), path=name, fix=f"Add `{name}:` to it.")
        return self._parse(model, self.values[name], (name,))

    def part(self, path: tuple[str, ...], model: type[M]) -> M:
        """The mapping at a path, an empty one where there is none, as a `model` that another value names."""
        value: Any = self.values
        for step in path:
            value = value.get(step, {})
        return self._parse(model, value, path)

    def error(self, path: Path_, message: str, **details: Any) -> SettingsError:
        """An error that names the place of `path`, or of the nearest value above it."""
        at = path
        while at and at not in self.places:
            at = at[:-1]
        place = self.places.get(at) if at else None
        where: dict[str, Any] = {"file": str(place.file), "line": place.line} if place else {"file": str(self.folder)}
        return SettingsError(message, **where, path=".".join(map(str, path)), **details)

    def _parse(self, model: type[M], value: Any, path: Path_) -> M:
        try:
            return model.model_validate(value)
        except ValidationError as refused:
            errors = refused.errors()
            # A misspelt key is also a missing one: the first of the two says more.
            first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
            where = (*path, *first["loc"])
            kind = first["type"]
            details: dict[str, Any] = {}
            if kind == "extra_forbidden":
                details["allowed"] = sorted(_fields(model, first["loc"]))
            else:
                # A whole mapping is no news to who wrote it, and may hold a password.
                if not isinstance(first.get("input"), dict):
                    details["got"] = first.get("input")
                details |= {k: v for k, v in (first.get("ctx") or {}).items() if k == "expected"}
            message = "unknown key" if kind == "extra_forbidden" else first["msg"]
            raise self.error(where, message, **details) from refused


class _AsTheyStand(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return f"${{{name}}}"


def unknown_name(deployment: Deployment, path: Path_, got: str, section: str) -> SettingsError:
    """A name that no entry of `section` has: the error with the names that there are."""
    allowed = sorted(deployment.values.get(section) or {})
    meant = f"Did you mean {nearest(str(got), map(str, allowed))[0]}? " if allowed else ""
    fix = f"{meant}Choose one of these, or declare it." if allowed else f"Declare it in the section `{section}`."
    return deployment.error(path, "no such name", got=got, allowed=allowed, fix=fix)


def _fields(model: Any, loc: tuple[int | str, ...]) -> list[str]:
    """Names, as files write them, of the fields that may stand beside the value at `loc`."""
    at: list[Any] = [model]
    for step in loc[:-1]:
        at = [inner for annotation in at for inner in _into(annotation, step)]
    models = [m for annotation in at for m in _models(annotation)]
    return sorted({info.alias or name for m in models for name, info in m.model_fields.items()})


def _into(annotation: Any, step: int | str) -> list[Any]:
    """The annotations of what `step` leads to."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields.items()
        return [info.annotation for name, info in fields if step in (name, info.alias)]
    # Of containers the values, of unions whatever has such a step.
    found = get_args(annotation)
    if get_origin(annotation) in (dict, list, tuple, set, frozenset):
        return [found[-1] if found[-1] is not Ellipsis else found[0]]
    return [inner for each in found for inner in _into(each, step)]


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for arg in get_args(annotation) for m in _models(arg)]


def _merge(values: dict[str, Any], more: Mapping[str, Any], places: Mapping[Path_, FilePlace]) -> None:
    for section, content in more.items():
        if section not in values:
            values[section] = content
        elif isinstance(values[section], dict) and isinstance(content, dict):
            double = values[section].keys() & content.keys()
            if double:
                name = sorted(map(str, double))[0]
                file_place = places[(section, name)]
                raise SettingsError(
                    "name is declared twice", file=str(file_place.file), line=file_place.line, path=f"{section}.{name}"
                )
            values[section].update(content)
        else:
            file_place = places[(section,)]
            raise SettingsError(
                "section is declared twice", file=str(file_place.file), line=file_place.line, path=section
            )


def _read(file: Path, places: dict[Path_, FilePlace], env: Mapping[str, str], known: set[str]) -> dict[str, Any]:
    try:
        node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError("cannot read a deployment file", file=str(file), reason=str(error)) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 0
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        fix = "Mend that line or the one before it: indentation, brackets, quotes."
        raise SettingsError("not valid YAML", file=str(file), line=line, reason=reason, fix=fix) from error
    if node is None:
        return {}
    build = functools.partial(_build, file=file, places=places, env=env)
    value = build(node, ())
    if not isinstance(value, dict):
        raise SettingsError("a deployment file holds sections", file=str(file), line=1, allowed="a mapping")
    return value


def _build(node: yaml.Node, path: Path_, *, file: Path, places: dict[Path_, FilePlace], env: Mapping[str, str]) -> Any:
    places[path] = FilePlace(file, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        out: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = _scalar(key_node, file)
            if isinstance(key, dict | list):
                raise SettingsError(
                    "a key is a name",
                    file=str(file),
                    line=key_node.start_mark.line + 1,
                    got=key,
                    fix="Put quotes around values that begin with a brace.",
                )
            if key in out:
                raise SettingsError(
                    "key stands twice", file=str(file), line=key_node.start_mark.line + 1, path=".".join(map(str, path))
                )
            out[key] = _build(value_node, (*path, key), file=file, places=places, env=env)
        return out
    if isinstance(node, yaml.SequenceNode):
        return [_build(n, (*path, i), file=file, places=places, env=env) for i, n in enumerate(node.value)]
    value = _scalar(node, file)
    if isinstance(value, str) and "${" in value:
        return _fill(value, places[path], path, env)
    return value


def _scalar(node: yaml.Node, file: Path) -> Any:
    try:
        return yaml.SafeLoader("").construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise SettingsError(
            "not a value", file=str(file), line=node.start_mark.line + 1, reason=str(error).splitlines()[0]
        ) from error


def _fill(text: str, place: FilePlace, path: Path_, env: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if name not in env and default is not None:
            return default
        try:
            return env[name]
        except KeyError:
            raise SettingsError(
                "environment name is not set",
                file=str(place.file),
                line=place.line,
                path=".".join(map(str, path)),
                name=name,
                fix="Run `lyrebird up`, or export it for your own servers.",
            ) from None

    return _VARIABLE.sub(value, text)
