"""A real JVM maps the archive of Spark's classes."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from subprocess import run
from sys import executable

import pytest

from include.local.programs import spark_classes
from include.local.programs.java import system_java
from include.local.programs.spark_classes import archive, archive_path
from include.log.running.spark_home import spark_home
from include.log.running.spark_settings import driver_options
from include.settings.environment import cache_folder
from tests.support.paths import ROOT

WORK = """
from include.log.running.batches_spark import session, work_off
import sys

def where(_number):
    import pyspark
    return ".zip" in pyspark.__file__

spark = session("mapped", {"spark.driver.extraJavaOptions": sys.argv[1]})
print(list(work_off(spark, where, [1, 2])))
spark.stop()
"""


@pytest.mark.timeout(500)  # where nobody has made the archive yet, it is made here
def test_a_driver_takes_sparks_classes_from_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_classes, "_LONGEST_S", 400)
    cache = cache_folder()
    if not archive_path(cache, system_java(), str(spark_home(cache))).exists():
        cache = tmp_path / "cache"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_HOME": str(spark_home(cache))}
    path = archive(cache, system_java(), environment)
    assert path is not None
    # A name with a space in it, as a person's folder may have.
    linked = tmp_path / "a cache" / path.name
    linked.parent.mkdir()
    linked.symlink_to(path)
    loaded = tmp_path / "loaded.txt"
    options = f"{driver_options(str(linked))} -Xlog:class+load:file={loaded}"
    done = run([executable, "-c", WORK, options], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["[False, False]"], done.stderr[-2000:]
    lines = [line for line in loaded.read_text().splitlines() if "org.apache.spark.SparkContext source:" in line]
    assert len(lines) == 1
    assert "shared objects file (top)" in lines[0]


def test_a_jvm_goes_on_without_an_archive_that_is_none(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsa"
    broken.write_bytes(b"no archive")

    def said(options: str) -> list[str]:
        words = [system_java().command, *shlex.split(options), "-version"]
        *versions, how = run(words, capture_output=True, text=True, check=True).stderr.splitlines()
        assert "VM" in how
        return versions

    for path in (broken, tmp_path / "absent.jsa"):
        assert said(driver_options(str(path))) == said(driver_options())
