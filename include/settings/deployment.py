"""Loads the deployment files of one folder and keeps the place of each value for errors.

All `*.yaml` files make one mapping: section -> name -> values. A section may be spread over files, a name in it
may not. Values stay as they stand; who asks for a section has its texts filled (`filling.py`), and no other needs
what they come from. A file that cannot be read is told of to whoever asks for a section that may be in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from include.errors import SettingsError
from include.settings.environment import deployment_folder, environment
from include.settings.filling import fill
from include.settings.nearest import nearest
from include.settings.secret import is_secret, without_login
from include.settings.yaml_file import BrokenFile, FilePlace, Path_, Places, read_file

__all__ = ["Deployment", "FilePlace", "Strict", "unknown_name"]


class Strict(BaseModel):
    """Base of every definition: unknown keys are refused, values do not change."""

    # What was given for a value may be a secret: no traceback shows it.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Deployment:
    """The deployment files of one folder, as plain values with their places."""

    folder: Path
    values: Mapping[str, Any] = field(repr=False)
    """As they stand in the files."""
    places: Mapping[Path_, FilePlace] = field(repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What texts are filled from."""
    broken: tuple[BrokenFile, ...] = ()

    @classmethod
    def load(cls, folder: Path | None = None, env: Mapping[str, str] | None = None) -> Deployment:
        """Read every `*.yaml` of `folder` (default: `deployment_folder()`).

        Raises:
            SettingsError: there is none. What is wrong in one of them is raised by whoever asks for its sections.
        """
        folder = folder or deployment_folder()
        # Editors keep locks and copies beside a file, by a name with a dot.
        files = sorted(file for file in folder.glob("*.yaml") if not file.name.startswith("."))
        if not files:
            raise SettingsError(
                "no deployment files", file=str(folder), fix="Set LYREBIRD_DEPLOYMENT to a folder with *.yaml files."
            )
        values: dict[str, Any] = {}
        places: Places = {}
        broken = []
        for file in files:
            try:
                more, places_of_more = read_file(file)
                _merge(values, more, places_of_more)
            except SettingsError as error:
                broken.append(BrokenFile.of(file, error))
            else:
                places |= places_of_more
        return cls(folder, values, places, environment() if env is None else env, tuple(broken))

    @classmethod
    def of_file(cls, file: Path, env: Mapping[str, str] | None = None) -> Deployment:
        """Read one file that a deployment file names, such as that of a join; raises `SettingsError`."""
        return cls(file, *read_file(file), environment() if env is None else env)

    def whole(self, model: type[M]) -> M:
        """All values as one `model`; raises `SettingsError`."""
        return self._parse(model, dict(self.values), ())

    def has(self, section: str) -> bool:
        """Whether there is such a section; raises `SettingsError` of a broken file that may have it.

        One that shows no section at all takes none away from those that other files have.
        """
        for file in self.broken:
            if section in file.sections or (file.may_hold(section) and section not in self.values):
                raise file.error
        return section in self.values

    def names(self, section: str) -> list[str]:
        """The sorted names of a section's entries, without a look into them; raises `SettingsError` as `section`."""
        return sorted(map(str, self._entries(section))) if self.has(section) else []

    def section(self, name: str, model: type[M]) -> dict[str, M]:
        """The named entries of a section, each parsed by `model`; empty when no file has the section."""
        entries = self._entries(name) if self.has(name) else {}
        return {str(key): self._parse(model, value, (name, key)) for key, value in entries.items()}

    def readable(self, name: str, model: type[M]) -> tuple[dict[str, M], list[SettingsError]]:
        """The entries of a section that are right, and what is wrong with its others and with files that may hold some.

        For who does for each entry something that the others need not wait for. Raises nothing.
        """
        errors = [file.error for file in self.broken if file.may_hold(name)]
        parsed: dict[str, M] = {}
        try:
            entries = self._entries(name)
        except SettingsError as error:
            return parsed, [*errors, error]
        for key, value in entries.items():
            try:
                parsed[str(key)] = self._parse(model, value, (name, key))
            except SettingsError as error:
                errors.append(error)
        return parsed, errors

    def one(self, name: str, model: type[M]) -> M:
        """A section that is one value (`kafka`, `registry`, …); raises `SettingsError` when it is missing."""
        if not self.has(name):
            raise SettingsError("section is missing", file=str(self.folder), path=name, fix=f"Add `{name}:` to it.")
        return self._parse(model, self.values[name], (name,))

    def part(self, path: tuple[str, ...], model: type[M]) -> M:
        """The mapping at a path, an empty one where there is none, as a `model` that another value names."""
        value: Any = self.values
        for step in path:
            value = value.get(step, {})
        return self._parse(model, value, path)

    def filled(self, *path: str) -> Any:
        """The plain value at a path (all without one), with its texts filled; None where there is none.

        Raises:
            SettingsError: what a text comes from is missing, or a broken file may have the section.
        """
        if path:
            self.has(path[0])
        value: Any = self.values
        for step in path:
            value = value.get(step) if isinstance(value, Mapping) else None
        return self._filled(value, path)

    def error(self, path: Path_, message: str, **details: Any) -> SettingsError:
        """An error that names the place of `path`, or of the nearest value above it."""
        at = path
        while at and at not in self.places:
            at = at[:-1]
        place = self.places.get(at) if at else None
        where: dict[str, Any] = {"file": str(place.file), "line": place.line} if place else {"file": str(self.folder)}
        return SettingsError(message, **where, path=".".join(map(str, path)), **details)

    def _entries(self, name: str) -> Mapping[str, Any]:
        entries = self.values.get(name) or {}
        if not isinstance(entries, dict):
            raise self.error((name,), "a section holds names", allowed="a mapping of names")
        return entries

    def _parse(self, model: type[M], value: Any, path: Path_) -> M:
        if model.model_config.get("extra") == "ignore" and isinstance(value, Mapping):
            # The keys that it does not read need not be filled: another process may have what fills them.
            value = {key: each for key, each in value.items() if key in model.model_fields}
        try:
            return model.model_validate(self._filled(value, path))
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
                details |= self._got(where)
                details |= {k: v for k, v in (first.get("ctx") or {}).items() if k == "expected"}
            message = "unknown key" if kind == "extra_forbidden" else first["msg"]
            raise self.error(where, message, **details) from None

    def _filled(self, value: Any, path: Path_) -> Any:
        if isinstance(value, Mapping):
            return {key: self._filled(each, (*path, key)) for key, each in value.items()}
        if isinstance(value, list):
            return [self._filled(each, (*path, number)) for number, each in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        try:
            return fill(value, self.env)
        except SettingsError as error:
            raise self.error(path, error.message, fix=error.fix, **error.details) from None

    def _got(self, path: Path_) -> dict[str, Any]:
        """`got`: what stands in the file, never what it was filled with; nothing of a mapping or of a secret."""
        if path and path[-1] == "[key]":
            return {"got": path[-2]}
        value: Any = self.values
        for step in path:
            if isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            elif isinstance(value, Mapping) and step in value:
                # What is no step of the file names a member of a union.
                value = value[step]
        if isinstance(value, Mapping | list) or any(is_secret(str(step)) for step in path):
            return {}
        return {"got": without_login(value) if isinstance(value, str) else value}


def unknown_name(deployment: Deployment, path: Path_, got: str, section: str) -> SettingsError:
    """A name that no entry of `section` has: the error with the names that there are."""
    allowed = deployment.names(section)
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
    """Add a file's sections, all or none; raises `SettingsError` for what stands in an earlier file too."""
    for section, content in more.items():
        if section not in values:
            continue
        message: str = "section is declared twice"
        path: Path_ = (section,)
        if isinstance(values[section], dict) and isinstance(content, dict):
            double = sorted(values[section].keys() & content.keys(), key=str)
            if not double:
                continue
            message, path = "name is declared twice", (section, double[0])
        place = places[path]
        raise SettingsError(message, file=str(place.file), line=place.line, path=".".join(map(str, path)))
    for section, content in more.items():
        values[section] = {**values[section], **content} if section in values else content
