"""Spark's home: links to the installed package, without the zips from which Python would import."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from include.log.running import spark_home as module
from include.log.running.spark_home import installed_spark, spark_home
from include.log.running.spark_settings import driver_options


def test_it_has_what_spark_needs_of_the_package_and_no_zip_of_python(tmp_path: Path) -> None:
    home = spark_home(tmp_path / "cache")
    assert (home / "bin" / "spark-submit").exists()
    assert (home / "jars").resolve() == installed_spark() / "jars"
    assert sorted(each.name for each in home.iterdir()) == ["bin", "jars"]
    assert not (home / "python").exists()


def test_it_is_made_by_many_at_once_and_again(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        (home,) = set(pool.map(lambda _: spark_home(tmp_path), range(32)))
    before = {each: each.lstat().st_ino for each in home.iterdir()}
    assert spark_home(tmp_path) == home
    assert {each: each.lstat().st_ino for each in home.iterdir()} == before


def test_links_of_a_package_that_has_moved_are_made_anew(tmp_path: Path) -> None:
    home = spark_home(tmp_path)
    (home / "jars").unlink()
    (home / "jars").symlink_to(tmp_path / "gone")
    assert spark_home(tmp_path) == home
    assert (home / "jars").resolve() == installed_spark() / "jars"


def test_two_installations_have_two_homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = spark_home(tmp_path)
    monkeypatch.setattr(module, "installed_spark", lambda: tmp_path / "other" / "pyspark")
    assert spark_home(tmp_path) != first


def test_a_cache_that_cannot_be_written_leaves_spark_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert spark_home(tmp_path / "file") == installed_spark()


def test_the_archive_of_classes_is_an_option_of_the_driver() -> None:
    assert driver_options("/a b/c.jsa").startswith(driver_options())
    assert '"-XX:SharedArchiveFile=/a b/c.jsa"' in driver_options("/a b/c.jsa")
    assert "Shared" not in driver_options()
