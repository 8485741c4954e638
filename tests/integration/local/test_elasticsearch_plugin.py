"""The plugin of the local node, compiled against the jars of the installed server; no node is started."""

from __future__ import annotations

import threading
import zipfile
from pathlib import Path

import pytest

from include.clock import SystemClock
from include.errors import Terminal
from include.local.programs import elasticsearch_plugin, resolve
from include.local.recipes import elasticsearch as recipe
from include.local.services import service
from include.settings.environment import cache_folder

CLASS = "lyrebird.FoldingPlugin"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An installation that shares its jars alone with the real one."""
    row = service("elasticsearch")
    resolve.ensure([row], cache_folder(), SystemClock())
    made = tmp_path / "cache" / "elasticsearch"
    made.mkdir(parents=True)
    (made / "lib").symlink_to(resolve.folder_of(row, cache_folder()) / "lib")
    return made


def install(home: Path, source: Path = recipe._FOLDING) -> None:
    elasticsearch_plugin.install(home, "8.19.21", source, CLASS)


def test_a_plugin_is_compiled_once_and_everybody_can_read_it(home: Path) -> None:
    install(home)
    (plugin,) = (home / "plugins").iterdir()
    assert "lyrebird/FoldingPlugin.class" in zipfile.ZipFile(plugin / "plugin.jar").namelist()
    assert {path.stat().st_mode & 0o444 for path in (plugin, *plugin.iterdir())} == {0o444}
    made = (plugin / "plugin.jar").stat().st_mtime_ns
    install(home)
    assert (plugin / "plugin.jar").stat().st_mtime_ns == made
    assert [path.name for path in home.parent.iterdir()] == ["elasticsearch"]


def test_a_changed_source_takes_the_place_of_the_older_one(home: Path, tmp_path: Path) -> None:
    install(home)
    source = tmp_path / recipe._FOLDING.name
    source.write_text(recipe._FOLDING.read_text() + "// changed\n")
    install(home, source)
    (plugin,) = (home / "plugins").iterdir()
    changed = (plugin / "plugin-descriptor.properties").read_text()
    install(home)
    assert (plugin / "plugin-descriptor.properties").read_text() != changed


def test_two_that_install_at_once_leave_one_plugin(home: Path) -> None:
    threads = [threading.Thread(target=install, args=[home]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list((home / "plugins").iterdir())) == 1
    assert [path.name for path in home.parent.iterdir()] == ["elasticsearch"]


def test_a_source_that_cannot_be_compiled_leaves_nothing_and_says_why(home: Path, tmp_path: Path) -> None:
    source = tmp_path / "FoldingPlugin.java"
    source.write_text("package lyrebird; class FoldingPlugin { nonsense }")
    with pytest.raises(Terminal, match="cannot be compiled"):
        install(home, source)
    assert not (home / "plugins").exists()
    assert [path.name for path in home.parent.iterdir()] == ["elasticsearch"]
