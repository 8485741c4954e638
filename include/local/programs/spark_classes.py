"""The archive of Spark's classes that drivers of the one-machine stack map when they start (JVM: AppCDS).

Half of a driver's start is the reading and checking of some 15,000 classes. The archive has them as they are in memory;
all drivers share its pages. A JVM that cannot use it, as of another Java or Spark, goes on without.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil

from include.clock import SystemClock
from include.local.programs.download import free_mb
from include.local.programs.java import Java

__all__ = ["archive", "archive_path"]

_LOG: Final = logging.getLogger(__name__)
_TRAINING: Final = "include.local.programs.spark_training_spark"
# `up` waits for Airflow for twice as long, this included.
_LONGEST_S: Final = 150
# On a machine that is too slow for it no start waits for it in vain again, for a day.
_TRIED_AGAIN_S: Final = 86_400
_KEPT: Final = 3
# Of who was killed while it wrote one.
_LEFT_BEHIND_S: Final = 3600
# Some 160 MB, and as much again while it is written.
_FREE_MB: Final = 1000


def archive_path(cache: Path, java: Java, spark_home: str) -> Path:
    """Where the archive for this Java and this Spark lies, or would: it holds for both as they are at their places."""
    release = java.home / "release"
    said = (
        str(java.home),
        release.read_text(encoding="utf-8") if release.exists() else str(java.release),
        spark_home,
        # Which classes a driver needs.
        Path(__file__).with_name(f"{_TRAINING.rpartition('.')[2]}.py").read_text(encoding="utf-8"),
        # A JVM leaves an archive alone whose jars are others by time or size, as after a new installation.
        sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in Path(spark_home, "jars").glob("*")),
    )
    return cache / f"spark-classes-{hashlib.sha256(repr(said).encode()).hexdigest()[:16]}.jsa"


def archive(cache: Path, java: Java, environment: Mapping[str, str]) -> Path | None:
    """The archive, made at the first call by a driver that does all kinds of work once (half a minute).

    Several processes may make it at once: each writes a file of its own and renames it. The three that were made last
    stay. None where it could not be made: drivers start without it, as well but not as fast; the log says why.
    What did not end in time (`_LONGEST_S`) is begun again after a day.
    `environment`: of those drivers, with SPARK_HOME.
    """
    path = archive_path(cache, java, environment["SPARK_HOME"])
    if path.exists():
        return path
    if not os.access(cache, os.W_OK) or free_mb(cache) < _FREE_MB:
        _LOG.warning("%s has no room for Spark's classes, drivers start slower", cache)
        return None
    slow = path.with_suffix(".slow")
    if slow.exists() and _age_s(slow) < _TRIED_AGAIN_S:
        return None
    side = cache / f".{path.stem}-{secrets.token_hex(4)}.jsa"
    try:
        status, said = _trained([sys.executable, "-m", _TRAINING, str(side)], environment)
        if status or not side.exists():
            _LOG.warning("Spark's classes cannot be archived, drivers start slower: %s", said.strip()[-500:])
            return None
        side.chmod(0o444)
        side.replace(path)
        slow.unlink(missing_ok=True)
    except subprocess.TimeoutExpired as error:
        slow.touch()
        _LOG.warning("Spark's classes were not archived in time, drivers start slower: %s", error)
        return None
    except OSError as error:
        _LOG.warning("Spark's classes cannot be archived, drivers start slower: %s", error)
        return None
    finally:
        side.unlink(missing_ok=True)
    left = [each for each in cache.glob(".spark-classes-*.jsa") if _age_s(each) > _LEFT_BEHIND_S]
    left += [each for each in cache.glob("spark-classes-*.slow") if _age_s(each) > _TRIED_AGAIN_S]
    for old in [*sorted(cache.glob("spark-classes-*.jsa"), key=os.path.getmtime)[:-_KEPT], *left]:
        old.unlink(missing_ok=True)
    return path


def _age_s(file: Path) -> float:
    try:
        return SystemClock().now_us() / 1e6 - file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _trained(words: list[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """The training's exit status and what it said; without an end in time, it and its JVM are killed."""
    with subprocess.Popen(  # noqa: S603 - our own words
        words,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as training:
        try:
            _, said = training.communicate(timeout=_LONGEST_S)
        except BaseException:
            leader = psutil.Process(training.pid)
            for each in (*leader.children(recursive=True), leader):
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
            raise
    return training.returncode, said
