"""Fills what deployment files leave to the process that reads them.

| in a file | is |
|---|---|
| `${NAME}`, `${NAME:-default}` | the environment's value |
| `${file:/run/secrets/name}` | the content of a file, without the newline at its end |
| `${conn:ID.FIELD}` | a field of Airflow's connection `ID`, and so of its secrets backends |

Airflow's connections reach a process by its environment: tasks of Airflow hand them over by `connection_name`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from include.errors import SettingsError

__all__ = ["connection_name", "connections_in", "fill"]

_REFERENCE: Final = re.compile(r"\$\{(?:([A-Z0-9_]+)(?::-([^}]*))?|(file|conn):([^}]*))\}")
_CONNECTION: Final = re.compile(r"[\w-]+\.(login|password|host|port|schema|extra\.[\w.-]+)")


def fill(text: str, env: Mapping[str, str]) -> str:
    """The text with each reference replaced.

    Raises:
        SettingsError: a name is not set, a file cannot be read, or a connection is not here. It never has a content.
    """

    def value(match: re.Match[str]) -> str:
        name, default, kind, reference = match.groups()
        if kind == "file":
            return _content(reference)
        if kind == "conn":
            return _field(reference, env)
        if name in env:
            return env[name]
        if default is not None:
            return str(default)
        fix = "Run `lyrebird up`, or export it for your own servers."
        raise SettingsError("environment name is not set", name=name, fix=fix)

    return _REFERENCE.sub(value, text)


def connections_in(values: Any) -> Iterator[str]:
    """Each `ID.FIELD` of a connection that these values ask for."""
    if isinstance(values, Mapping):
        for each in values.values():
            yield from connections_in(each)
    elif isinstance(values, list):
        for each in values:
            yield from connections_in(each)
    elif isinstance(values, str):
        found = (match.group(3, 4) for match in _REFERENCE.finditer(values))
        yield from (reference for kind, reference in found if kind == "conn" and _CONNECTION.fullmatch(reference))


def connection_name(reference: str) -> str:
    """The environment's name for a connection's field: `kafka.password` → `LYREBIRD_CONN_KAFKA_PASSWORD`."""
    return "LYREBIRD_CONN_" + re.sub(r"\W", "_", reference).upper()


def _content(path: str) -> str:
    if not Path(path).is_absolute():
        raise SettingsError("a file that a value comes from has an absolute path", secret_file=path)
    try:
        return Path(path).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        fix = "It has to be on each host that runs tasks, readable by whoever runs them."
        raise SettingsError("cannot read the file of a value", secret_file=path, reason=reason, fix=fix) from None


def _field(reference: str, env: Mapping[str, str]) -> str:
    if not _CONNECTION.fullmatch(reference):
        allowed = "${conn:ID.FIELD}, FIELD one of login, password, host, port, schema, extra.KEY"
        raise SettingsError("not a field of a connection", connection=reference, allowed=allowed)
    name = connection_name(reference)
    if name not in env:
        fix = "Add it in Airflow, whose tasks hand it over; for a command in a shell, export the name."
        raise SettingsError("Airflow's connection is not known here", connection=reference, name=name, fix=fix)
    return env[name]
