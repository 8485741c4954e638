"""A real JVM maps the archive of Spark's classes."""

from __future__ import annotations

import os
from pathlib import Path
from subprocess import run
from sys import executable

import pytest

from include.local.programs import spark_classes
from include.local.programs.java import system_java
from include.log.running.spark_home import spark_home
from include.log.running.spark_settings import driver_options
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


@pytest.mark.timeout(400)
def test_a_driver_takes_sparks_classes_from_the_archive(tmp_path: Path) -> None:
    cache = tmp_path / "a cache"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_HOME": str(spark_home(cache))}
    path = spark_classes.archive(cache, system_java(), environment)
    assert path is not None
    loaded = tmp_path / "loaded.txt"
    options = f"{driver_options(str(path))} -Xlog:class+load:file={loaded}"
    done = run([executable, "-c", WORK, options], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["[False, False]"], done.stderr[-2000:]
    lines = [line for line in loaded.read_text().splitlines() if "org.apache.spark.SparkContext source:" in line]
    assert len(lines) == 1
    assert "shared objects file (top)" in lines[0]


def test_a_driver_goes_on_without_an_archive_that_is_none(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsa"
    broken.write_bytes(b"no archive")
    for path in (broken, tmp_path / "absent.jsa"):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        options = driver_options(str(path))
        done = run([executable, "-c", WORK, options], env=environment, capture_output=True, text=True, check=False)
        assert done.stdout.splitlines() == ["[False, False]"], done.stderr[-2000:]
