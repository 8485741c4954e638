"""What servers get of the environment of whoever starts them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from include.local import accounts
from include.local.recipes import recipe
from include.local.services import service
from include.local.site import Site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(accounts, "unprivileged", lambda: None)
    return Site.open(tmp_path / "state", free_ports=True, keep_ports=False)


def test_a_server_has_a_folder_of_its_own_for_temporary_files(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/root/tmp")
    row = service("s3")
    (launch,) = recipe(row).prepare(site, row)
    assert launch.env["TMPDIR"] == str(site.folder(row) / "tmp")
    assert Path(launch.env["TMPDIR"]).is_dir()


def test_an_ordinary_user_s_mail_catcher_has_that_one_s_environment_but_no_password(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = {"LD_LIBRARY_PATH": "/lib", "PYTHONUSERBASE": "/user", "HOME": "/home/user"}
    for name, text in needed.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("LYREBIRD_MYSQL_PASSWORD", "of another stack")
    row = service("mail")
    (launch,) = recipe(row).prepare(site, row)
    assert launch.env.items() >= needed.items()
    assert launch.env["PYTHONPATH"].split(os.pathsep)[0] == str(site.project)
    assert not {*site.secrets.values(), "of another stack"} & set(launch.env.values())
