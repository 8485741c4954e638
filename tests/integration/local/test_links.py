"""What a server's account has put into its folder leads nobody, least of all root, to other files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from include.clock import SystemClock
from include.local import process
from include.local.programs import resolve
from include.local.recipes import recipe
from include.local.services import service
from include.settings.environment import cache_folder
from tests.support.sites import opened

SETTINGS = {
    "mariadb": ["accounts.sql"],
    "elasticsearch": ["config/elasticsearch.yml", "config/log4j2.properties"],
    "kafka": ["server.properties", "log4j2.properties"],
}


@pytest.mark.parametrize(("name", "files"), SETTINGS.items())
def test_a_link_in_place_of_settings_is_replaced_and_not_followed(name: str, files: list[str], tmp_path: Path) -> None:
    row = service(name)
    resolve.ensure([row], cache_folder(), SystemClock())
    victim = tmp_path / "victim"
    victim.write_text("of somebody else")
    with opened(tmp_path / "state") as site:
        recipe(row).prepare(site, row)
        for file in files:
            path = site.folder(row) / file
            path.unlink()
            path.symlink_to(victim)
        recipe(row).prepare(site, row)
        assert victim.read_text() == "of somebody else"
        for file in files:
            path = site.folder(row) / file
            assert not path.is_symlink()
            assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_in_place_of_elasticsearch_s_folder_of_settings_is_refused(tmp_path: Path) -> None:
    row = service("elasticsearch")
    resolve.ensure([row], cache_folder(), SystemClock())
    victim = tmp_path / "victim"
    victim.mkdir()
    with opened(tmp_path / "state") as site:
        recipe(row).prepare(site, row)
        config = site.folder(row) / "config"
        config.rename(config.with_name("moved"))
        config.symlink_to(victim)
        with pytest.raises(OSError, match="Not a directory"):
            recipe(row).prepare(site, row)
        assert list(victim.iterdir()) == []


def test_mariadb_s_first_folder_is_made_by_its_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = service("mariadb")
    resolve.ensure([row], cache_folder(), SystemClock())
    run = process.run
    with opened(tmp_path / "state") as site:

        def watched(launch: process.Launch) -> subprocess.CompletedProcess[str]:
            assert not (site.folder(row) / "data.new").exists()
            return run(launch)

        monkeypatch.setattr(process, "run", watched)
        recipe(row).prepare(site, row)
        made = (site.folder(row) / "data").stat()
        assert made.st_uid == (site.account.uid if site.account else os.geteuid())
        assert made.st_mode & 0o777 == 0o700


def test_root_reads_no_file_of_others_that_a_link_in_place_of_kafka_s_id_names(tmp_path: Path) -> None:
    row = service("kafka")
    resolve.ensure([row], cache_folder(), SystemClock())
    victim = tmp_path / "victim"
    victim.write_text("a secret of somebody else")
    with opened(tmp_path / "state") as site:
        recipe(row).prepare(site, row)
        path = site.folder(row) / "cluster_id"
        path.unlink()
        path.symlink_to(victim)
        with pytest.raises(OSError, match="symbolic links"):
            recipe(row).prepare(site, row)
