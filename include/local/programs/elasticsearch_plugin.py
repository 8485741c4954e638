"""Plugins of Elasticsearch that are compiled on this machine, against the jars of the node that loads them."""

from __future__ import annotations

import hashlib
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Final

from include.errors import Terminal
from include.local.programs.java import system_java

__all__ = ["install"]

_DESCRIPTOR: Final = """\
name={name}
description={description}
version={version}
elasticsearch.version={elasticsearch}
java.version=17
classname={classname}
"""


def install(home: Path, elasticsearch: str, source: Path, classname: str) -> None:
    """Make the node at `home`, of version `elasticsearch`, load the plugin whose one class is in `source`.

    May be called by several processes at once, and again: a plugin of the same source stays. Steps:

    1. compile into a side folder beside `home`, which no node looks into,
    2. take a plugin of another source away,
    3. rename the folder into place.

    A crash leaves a side folder, which nobody reads. Raises `Terminal`.
    """
    name = source.stem.lower()
    target = home / "plugins" / name
    version = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    descriptor = _DESCRIPTOR.format(
        name=name, description=source.stem, version=version, elasticsearch=elasticsearch, classname=classname
    )
    if _installed(target) == descriptor:
        return
    side = home.with_name(f"{home.name}.plugin-{secrets.token_hex(4)}")
    try:
        plugin = side / name
        plugin.mkdir(parents=True)
        _compile(home, source, side / "classes", plugin / "plugin.jar")
        (plugin / "plugin-descriptor.properties").write_text(descriptor)
        # Whatever the umask: the node runs under another account.
        for path in (plugin, *plugin.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)
        target.parent.mkdir(exist_ok=True)
        target.parent.chmod(0o755)
        if target.exists():
            target.rename(side / "old")
        plugin.rename(target)
    except OSError as error:
        if _installed(target) == descriptor:
            return
        raise Terminal(
            f"a plugin cannot be put into {home}: {error.strerror}",
            fix="Set LYREBIRD_CACHE to a folder that you may write.",
        ) from error
    finally:
        shutil.rmtree(side, ignore_errors=True)


def _installed(target: Path) -> str:
    try:
        return (target / "plugin-descriptor.properties").read_text()
    except FileNotFoundError:
        return ""


def _compile(home: Path, source: Path, classes: Path, jar: Path) -> None:
    tools = system_java().home / "bin"
    for words in (
        [str(tools / "javac"), "--release", "17", "-nowarn", "-d", str(classes), "-cp", f"{home}/lib/*", str(source)],
        [str(tools / "jar"), "--create", "--file", str(jar), "-C", str(classes), "."],
    ):
        done = subprocess.run(words, capture_output=True, check=False, text=True)  # noqa: S603 - our own words
        if done.returncode:
            raise Terminal(
                f"{source.name} cannot be compiled: {done.stderr.strip()[-500:]}",
                fix="Set JAVA_HOME to a full JDK 17 or newer (Debian: apt-get install openjdk-17-jdk-headless).",
            )
