"""The LYREBIRD_* names: from the process's environment first, then from `$LYREBIRD_STATE/env`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from include.errors import SettingsError

__all__ = ["PROJECT_ROOT", "cache_folder", "checkout", "deployment_folder", "environment", "require", "state_folder"]

PROJECT_ROOT: Final = Path(__file__).resolve().parents[2]
"""What `include/` lies in: a checkout, or the folder that pip installs packages in."""

_INSTALLED: Final = PROJECT_ROOT.name in {"site-packages", "dist-packages"}

# How names of passwords end, and the one that says itself whose it is.
_SUFFIX: Final = "_PASSWORD"
_ROOTS: Final = "LYREBIRD_MYSQL_ROOT_PASSWORD"


def checkout() -> Path:
    """The folder with demo/, dags/, plugins/ and spark_apps/; `SettingsError` where pip has installed the library."""
    if _INSTALLED:
        raise SettingsError(
            "this needs demo/, dags/, plugins/ and spark_apps/, which an installed package does not have",
            fix="Run it in a checkout of Lyrebird, after `make setup`.",
        )
    return PROJECT_ROOT


def state_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Where a stack on this machine keeps its state: `$LYREBIRD_STATE`, else `.lyrebird/` in the project.

    Of an installed package it is `.lyrebird/` in the current folder.
    """
    return Path(env.get("LYREBIRD_STATE") or (Path() if _INSTALLED else PROJECT_ROOT) / ".lyrebird").absolute()


def cache_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Where downloads are kept: `$LYREBIRD_CACHE`, else `lyrebird` in the user's cache folder.

    For root it is `/var/cache/lyrebird`: servers run under another account then, which cannot read root's home.
    """
    given = env.get("LYREBIRD_CACHE")
    if given:
        return Path(given).absolute()
    if os.geteuid() == 0:
        return Path("/var/cache/lyrebird")
    return Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lyrebird"


def deployment_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Where the deployment files lie: `$LYREBIRD_DEPLOYMENT`, else `include/deployment/`."""
    return Path(env.get("LYREBIRD_DEPLOYMENT") or PROJECT_ROOT / "include" / "deployment").absolute()


def environment(env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """All LYREBIRD_* values; those of the process win over the file that `lyrebird up` wrote.

    A server's user and password (`<address>_USER`, `<address>_PASSWORD`) in the file are for its address in the file:
    they do not count where the process names another. Nor does a password whose user the file does not name, as it has
    that of a server which was never started.
    """
    values: dict[str, str] = {}
    file = state_folder(env) / "env"
    if file.is_file():
        for line in file.read_text(encoding="utf-8").splitlines():
            name, equals, value = line.partition("=")
            if equals and name.startswith("LYREBIRD_"):
                values[name] = value
    for address in [name for name in values if name in env and env[name] != values[name]]:
        values.pop(f"{address}_USER", None)
        values.pop(f"{address}_PASSWORD", None)
    for name in [name for name in values if name.endswith(_SUFFIX) and name != _ROOTS]:
        if f"{name.removesuffix(_SUFFIX)}_USER" not in values:
            del values[name]
    values.update({name: value for name, value in env.items() if name.startswith("LYREBIRD_")})
    return values


def require(name: str, env: Mapping[str, str] = os.environ) -> str:
    """One value; raises `SettingsError` when nobody set it."""
    value = environment(env).get(name)
    if value is None:
        raise SettingsError(
            "this needs a value that is not set", name=name, fix="Run `lyrebird up`, or export it for your own servers."
        )
    return value
