"""What a server's account has put into its folder leads nobody, least of all root, to other files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from include.clock import SystemClock
from include.local.programs import resolve
from include.local.recipes import recipe
from include.local.services import service
from include.local.site import Site
from include.settings.environment import cache_folder


@pytest.mark.parametrize(
    ("name", "files"),
    [("mariadb", ["accounts.sql"]), ("elasticsearch", ["config/elasticsearch.yml", "config/log4j2.properties"])],
)
def test_a_link_in_place_of_settings_is_replaced_and_not_followed(
    name: str, files: list[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    row = service(name)
    resolve.ensure([row], cache_folder(), SystemClock())
    site = Site.open(tmp_path / "state", free_ports=True, keep_ports=False)
    if site.data_root != site.state:
        request.addfinalizer(lambda: shutil.rmtree(site.data_root, ignore_errors=True))
    recipe(row).prepare(site, row)
    victim = tmp_path / "victim"
    victim.write_text("of somebody else")
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
