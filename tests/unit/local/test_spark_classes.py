"""The archive of Spark's classes: when it is made, and that drivers start without it where it cannot be."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pytest

from include.local.programs import spark_classes
from include.local.programs.java import Java

Made = Callable[[list[str]], int]


@pytest.fixture
def java(tmp_path: Path) -> Java:
    home = tmp_path / "java"
    home.mkdir()
    (home / "release").write_text('JAVA_VERSION="17.0.1"')
    return Java(home, 17, True)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


def training(monkeypatch: pytest.MonkeyPatch, run: Made) -> list[list[str]]:
    """In the place of the real one; what was asked of it."""
    asked: list[list[str]] = []

    def start(words: list[str], _environment: Mapping[str, str]) -> tuple[int, str]:
        asked.append(words)
        return run(words), "the cause"

    monkeypatch.setattr(spark_classes, "_trained", start)
    return asked


def written(words: list[str]) -> int:
    Path(words[-1]).write_bytes(b"classes")
    return 0


def test_it_is_made_once_for_a_java_and_a_spark(cache: Path, java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = training(monkeypatch, written)
    first = spark_classes.archive(cache, java, {"SPARK_HOME": "/spark"})
    assert first is not None
    assert first.read_bytes() == b"classes"
    assert spark_classes.archive(cache, java, {"SPARK_HOME": "/spark"}) == first
    assert len(asked) == 1
    # An update of Java at the same place: its classes are others.
    (java.home / "release").write_text('JAVA_VERSION="17.0.2"')
    assert spark_classes.archive(cache, java, {"SPARK_HOME": "/spark"}) != first
    assert spark_classes.archive(cache, java, {"SPARK_HOME": "/other"}) != first
    assert len(asked) == 3


def test_jars_that_were_installed_anew_have_an_archive_of_their_own(java: Java, tmp_path: Path) -> None:
    jar = tmp_path / "jars" / "spark-core.jar"
    jar.parent.mkdir()
    jar.write_bytes(b"jar")
    first = spark_classes.archive_path(tmp_path, java, str(tmp_path))
    assert spark_classes.archive_path(tmp_path, java, str(tmp_path)) == first
    os.utime(jar, (1, 1))
    assert spark_classes.archive_path(tmp_path, java, str(tmp_path)) != first


def test_the_three_that_were_made_last_stay(cache: Path, java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    training(monkeypatch, written)
    made = []
    for number in range(5):
        path = spark_classes.archive(cache, java, {"SPARK_HOME": f"/spark{number}"})
        assert path is not None
        os.utime(path, (number, number))
        made.append(path)
    assert sorted(cache.iterdir()) == sorted(made[2:])


def test_what_a_killed_process_left_half_written_goes(cache: Path, java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    training(monkeypatch, written)
    left, under_way = cache / ".spark-classes-1-a.jsa", cache / ".spark-classes-1-b.jsa"
    for each in (left, under_way):
        each.write_bytes(b"half")
    os.utime(left, (1, 1))
    assert (made := spark_classes.archive(cache, java, {"SPARK_HOME": "/spark"}))
    assert sorted(cache.iterdir()) == sorted([made, under_way])


@pytest.mark.parametrize("run", [lambda _words: 1, lambda _words: 0, lambda words: written(words) + 1])
def test_drivers_start_without_one_that_could_not_be_made(
    cache: Path, java: Java, run: Made, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    training(monkeypatch, run)
    with caplog.at_level(logging.WARNING):
        assert spark_classes.archive(cache, java, {"SPARK_HOME": "/spark"}) is None
    assert "the cause" in caplog.text
    assert not list(cache.iterdir())


def test_a_training_that_does_not_end_is_given_up_for_a_day(
    cache: Path, java: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(words: list[str]) -> int:
        written(words)
        raise subprocess.TimeoutExpired(words, 1)

    asked = training(monkeypatch, hang)
    for _ in range(2):
        assert spark_classes.archive(cache, java, {"SPARK_HOME": "/spark"}) is None
    assert len(asked) == 1
    (slow,) = cache.iterdir()
    os.utime(slow, (1, 1))
    training(monkeypatch, written)
    assert (made := spark_classes.archive(cache, java, {"SPARK_HOME": "/spark"}))
    assert list(cache.iterdir()) == [made]


def test_what_does_not_end_is_killed_with_its_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    child = f"child = subprocess.Popen(['sleep', '60']); open({str(pid)!r}, 'w').write(str(child.pid)); child.wait()"
    monkeypatch.setattr(spark_classes, "_LONGEST_S", 3)
    with pytest.raises(subprocess.TimeoutExpired):
        spark_classes._trained([sys.executable, "-c", f"import subprocess; {child}"], os.environ)
    end = time.monotonic() + 5
    with contextlib.suppress(psutil.NoSuchProcess):
        # Who takes it over may not have buried it yet.
        while psutil.Process(int(pid.read_text())).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_a_full_disk_is_not_filled_further(cache: Path, java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = training(monkeypatch, written)
    monkeypatch.setattr(spark_classes, "free_mb", lambda _folder: 999.0)
    assert spark_classes.archive(cache, java, {"SPARK_HOME": "/spark"}) is None
    assert not asked
