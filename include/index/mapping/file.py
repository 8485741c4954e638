"""Mapping files: the server's mapping as YAML, with comments. JSON is read too, as it is YAML."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from include.errors import SettingsError
from include.index.definition import IndexDefinition
from include.index.mapping.starter import Choice
from include.settings.deployment import Deployment

__all__ = ["mapping_of", "mapping_text", "read_mapping"]

_WIDTH: Final = 110
_BARE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
# Words that YAML 1.1 reads as something else than a text.
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def read_mapping(file: Path) -> dict[str, Any]:
    """The mapping in `file`; raises `SettingsError` with file and line for what is none, names that stand twice too."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            "mapping cannot be read",
            file=str(file),
            reason=str(error),
            fix="Run `lyrebird index mapping TOPIC --write`.",
        ) from error
    try:
        node = json.loads(text, object_pairs_hook=_once) if file.suffix == ".json" else _value(_compose(text))
    except _Refused as refused:
        raise SettingsError("not a mapping", file=str(file), line=refused.line, reason=refused.reason) from None
    except ValueError as error:
        line = getattr(error, "lineno", None)
        where = {"line": line} if line else {}
        raise SettingsError("not a mapping", file=str(file), **where, reason=str(error)) from error
    if not isinstance(node, dict):
        raise SettingsError("not a mapping", file=str(file), allowed="properties: …")
    return node


def mapping_of(deployment: Deployment, definition: IndexDefinition) -> dict[str, Any]:
    """The declared mapping of the whole document (`<entity>` and `metadata`); raises `SettingsError`."""
    file = deployment.folder / definition.mapping
    mapping = read_mapping(file)
    properties = mapping.get("properties")
    allowed = [*definition.entities, "metadata"]
    if not isinstance(properties, dict) or sorted(properties) != sorted(allowed):
        raise SettingsError(
            "mapping describes another document",
            file=str(file),
            path="properties",
            allowed=allowed,
        )
    return mapping


def mapping_text(choice: Choice, head: str = "") -> str:
    """`choice` as YAML, each field with its comment, below `head` and the choices' legends as comments.

    Ends with a newline.
    """
    legends = [
        line
        for legend in dict.fromkeys(choice.legends())
        for line in textwrap.wrap(f"* {legend}", _WIDTH, subsequent_indent="  ", break_long_words=False)
    ]
    lines = [f"# {line}".rstrip() for line in [*head.splitlines(), *legends]]
    # The root's comment belongs to `dynamic`, which comes first.
    comments = {"dynamic": choice.comment}
    for name, value in choice.params.items():
        lines.append(_commented(f"{name}: {_flow(value)}", comments.get(name, "")))
    lines.append("properties:")
    for name, below in (choice.properties or {}).items():
        lines += _field(name, below, "  ")
    return "\n".join(lines) + "\n"


def _field(name: str, choice: Choice, indent: str) -> Iterator[str]:
    if choice.properties is None:
        yield _commented(f"{indent}{_scalar(name)}: {_flow(choice.params)}", choice.comment)
        return
    yield _commented(f"{indent}{_scalar(name)}:", choice.comment)
    for param, value in choice.params.items():
        yield f"{indent}  {param}: {_flow(value)}"
    if not choice.properties:
        yield f"{indent}  properties: {{}}"
        return
    yield f"{indent}  properties:"
    for below, each in choice.properties.items():
        yield from _field(below, each, f"{indent}    ")


def _commented(line: str, comment: str) -> str:
    return f"{line}  # {comment}" if comment else line


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(name)}: {_flow(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    """A bool, number or text; texts are quoted where YAML would read something else."""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    bare = _BARE.fullmatch(str(value)) and str(value).lower() not in _WORDS
    return str(value) if bare else '"' + "".join(map(_escaped, str(value))) + '"'


def _escaped(character: str) -> str:
    # JSON's pairs of surrogates are two characters to YAML.
    return f"\\U{ord(character):08x}" if ord(character) > 0xFFFF else json.dumps(character)[1:-1]


class _Refused(Exception):
    def __init__(self, line: int | None, reason: str) -> None:
        super().__init__(reason)
        self.line, self.reason = line, reason


def _compose(text: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise _Refused(mark.line + 1 if mark else None, str(getattr(error, "problem", None) or error)) from error


def _value(node: yaml.Node | None) -> Any:
    """What a node says, with names that are texts and stand once."""
    if isinstance(node, yaml.MappingNode):
        out: dict[str, Any] = {}
        for key, value in node.value:
            name, line = _value(key), key.start_mark.line + 1
            if not isinstance(name, str):
                raise _Refused(line, f"name is read as {name!r}: put it in quotes")
            if name in out:
                raise _Refused(line, f"name stands twice: {name}")
            out[name] = _value(value)
        return out
    if isinstance(node, yaml.SequenceNode):
        return [_value(each) for each in node.value]
    return None if node is None else _plain(node)


def _plain(node: yaml.Node) -> Any:
    line = node.start_mark.line + 1
    try:
        value = yaml.SafeLoader("").construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError) as error:
        raise _Refused(line, str(error).splitlines()[0]) from error
    if not isinstance(value, str | bool | int | float | None):
        raise _Refused(line, f"{node.value} is read as a {type(value).__name__}: put it in quotes")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in pairs:
        if name in out:
            raise _Refused(None, f"name stands twice: {name}")
        out[name] = value
    return out
