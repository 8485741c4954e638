"""Reads one deployment file: plain values as they stand in it, and the line of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from include.errors import SettingsError

__all__ = ["BrokenFile", "FilePlace", "Path_", "Places", "read_file"]

Path_ = tuple[str | int, ...]

_SECTION: Final = re.compile(r"""^["']?([\w-]+)["']?\s*:""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where a value stands."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


Places = dict[Path_, FilePlace]


@dataclass(frozen=True, slots=True)
class BrokenFile:
    """A file that cannot be read, or says again what another one says."""

    error: SettingsError
    sections: frozenset[str]
    """What seem to be its sections."""

    @classmethod
    def of(cls, file: Path, error: SettingsError) -> BrokenFile:
        """`file` and why it is refused."""
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ""
        return cls(error, frozenset(_SECTION.findall(text)))

    def may_hold(self, section: str) -> bool:
        """Whether entries of `section` may stand in it; also where nothing is known of it."""
        return section in self.sections or not self.sections


def read_file(file: Path) -> tuple[dict[str, Any], Places]:
    """Section → values, and the place of each value; raises `SettingsError` with the line."""
    try:
        node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError("cannot read a deployment file", file=str(file), reason=str(error)) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 0
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        fix = "Mend that line or the one before it: indentation, brackets, quotes."
        # The library's own error shows the text of those lines, which may hold a password.
        raise SettingsError("not valid YAML", file=str(file), line=line, reason=reason, fix=fix) from None
    places: Places = {}
    value = {} if node is None else _build(node, (), file, places)
    if not isinstance(value, dict):
        raise SettingsError("a deployment file holds sections", file=str(file), line=1, allowed="a mapping")
    return value, places


def _build(node: yaml.Node, path: Path_, file: Path, places: Places) -> Any:
    places[path] = FilePlace(file, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        out: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key, line = _scalar(key_node, file), key_node.start_mark.line + 1
            if isinstance(key, dict | list):
                fix = "Put quotes around values that begin with a brace."
                raise SettingsError("a key is a name", file=str(file), line=line, fix=fix)
            if key in out:
                raise SettingsError("key stands twice", file=str(file), line=line, path=".".join(map(str, path)))
            out[key] = _build(value_node, (*path, key), file, places)
        return out
    if isinstance(node, yaml.SequenceNode):
        return [_build(each, (*path, i), file, places) for i, each in enumerate(node.value)]
    return _scalar(node, file)


def _scalar(node: yaml.Node, file: Path) -> Any:
    try:
        return yaml.SafeLoader("").construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        line, reason = node.start_mark.line + 1, str(error).splitlines()[0]
        raise SettingsError("not a value", file=str(file), line=line, reason=reason) from None
