"""Gives Spark a home in which Python finds pyspark where it is installed.

With the installed package as its home, Spark puts `python/lib/pyspark.zip` in front of every Python's path. Nothing
that is imported from a zip is kept compiled: each of the five Pythons that begin with an application compiles pyspark
anew, for 1.4 s of CPU time in place of 0.3 s. So the home is a folder of links to the rest of the package.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import secrets
from pathlib import Path
from typing import Final

from include.errors import Terminal

__all__ = ["installed_spark", "spark_home"]

_LINKED: Final = ("bin", "jars")


def installed_spark() -> Path:
    """The package pyspark of this Python; raises `Terminal` where it is not installed."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Terminal("pyspark is not installed", fix="Run: pip install -r requirements.txt")
    return Path(spec.origin).parent


def spark_home(cache: Path) -> Path:
    """SPARK_HOME for who starts Spark with this Python; Spark's own where `cache` cannot be written.

    May be called by several processes at once, and again. Raises `Terminal` where pyspark is not installed.
    """
    package = installed_spark()
    home = cache / f"spark-home-{hashlib.sha256(str(package).encode()).hexdigest()[:16]}"
    try:
        for name in _LINKED:
            _link(home / name, package / name)
    except OSError:
        return package
    return home


def _link(path: Path, target: Path) -> None:
    with contextlib.suppress(OSError):
        if path.readlink() == target:
            return
    for folder in reversed([each for each in (path.parent, *path.parent.parents) if not each.exists()]):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    side = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    side.symlink_to(target)
    side.replace(path)
