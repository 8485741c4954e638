"""What servers get of the environment of whoever starts them, and of the stack's passwords."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from include.local import accounts, owners, process
from include.local.accounts import Account
from include.local.programs import elasticsearch_plugin
from include.local.recipes import recipe
from include.local.recipes.probe import answers, get_json
from include.local.services import service
from include.local.site import Site
from tests.support.sites import passable


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
    login = site.folder(row) / "login"
    assert f"--login={login}" in launch.argv
    assert login.read_text() == f"lyrebird:{site.secrets['LYREBIRD_MAIL_PASSWORD']}"
    assert login.stat().st_mode & 0o077 == 0


def test_the_account_of_the_mail_catcher_passes_to_its_login_below_a_root_that_is_new(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "_needs", lambda _: iter(()))
    account = Account("nobody-here", os.geteuid() or 4_000_001, os.getegid() or 4_000_002)
    row = service("mail")
    with passable() as folder:
        root = folder / "lib" / "mark"
        before = os.umask(0o077)
        try:
            (launch,) = recipe(row).prepare(replace(site, account=account, data_root=root), row)
        finally:
            os.umask(before)
        login = root / "mail" / "login"
        assert f"--login={login}" in launch.argv
        assert accounts.reaches(login, account)
        assert {path.stat().st_mode & 0o777 for path in (root.parent, root)} == {0o711}
        assert {path.stat().st_uid for path in (login, login.parent)} == {launch.uid} == {account.uid}
        assert login.stat().st_mode & 0o777 == 0o600


def test_a_node_of_elasticsearch_keeps_a_hash_and_not_the_password(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "elasticsearch"
    (home / "config").mkdir(parents=True)
    monkeypatch.setattr(Site, "install", lambda _site, _row: home)
    monkeypatch.setattr(elasticsearch_plugin, "install", lambda *_: None)
    row = service("elasticsearch")
    (launch,) = recipe(row).prepare(site, row)
    config, names = Path(launch.env["ES_PATH_CONF"]), site.environment((row,))
    user, password = names["LYREBIRD_ELASTICSEARCH_USER"], names["LYREBIRD_ELASTICSEARCH_PASSWORD"]
    found, _, kept = (config / "users").read_text().strip().partition(":{PBKDF2}")
    rounds, salt, hashed = kept.split("$")
    again = hashlib.pbkdf2_hmac("sha512", password.encode(), base64.b64decode(salt), int(rounds), 32)
    assert (found, hashed) == (user, base64.b64encode(again).decode())
    assert "xpack.security.enabled: true" in (config / "elasticsearch.yml").read_text().splitlines()
    assert [path.name for path in config.iterdir() if password in path.read_text()] == []
    assert password not in {*launch.argv, *launch.env.values()}


def test_the_registry_keeps_a_hash_and_not_the_password_and_serves_no_path_without_a_login(site: Site) -> None:
    row = service("registry")
    (launch,) = recipe(row).prepare(site, row)
    names = site.environment((row,))
    user, password = names["LYREBIRD_REGISTRY_USER"], names["LYREBIRD_REGISTRY_PASSWORD"]
    (named,) = (word for word in launch.argv if word.startswith("-Dquarkus.config.locations="))
    file = Path(launch.cwd) / named.partition("=")[2]
    # Where Quarkus looks by itself, that of a former release does, too.
    assert file.name != "application.properties"
    assert not (Path(launch.cwd) / "config").exists()
    said = dict(line.split("=", 1) for line in file.read_text().splitlines())
    hashed = hashlib.sha512(f"{user}:Quarkus:{password}".encode()).hexdigest()
    assert said[f"quarkus.security.users.embedded.users.{user}"] == hashed
    assert said["quarkus.http.auth.basic"] == "true"
    assert said["quarkus.http.auth.permission.all.paths"] == "/*"
    assert said["quarkus.http.auth.permission.all.policy"] == "authenticated"
    assert file.stat().st_mode & 0o077 == 0
    assert not [text for text in (*launch.argv, *launch.env.values(), file.read_text()) if password in text]


@pytest.mark.parametrize("kafka_login", [True, False])
def test_kafka_asks_for_the_password_at_both_ports_unless_it_is_told_not_to(
    site: Site, kafka_login: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "run", lambda _launch: subprocess.CompletedProcess([], 0, "", ""))
    row, site = service("kafka"), replace(site, kafka_login=kafka_login)
    (launch,) = recipe(row).prepare(site, row)
    names, password = site.environment((row,)), site.secrets["LYREBIRD_KAFKA_PASSWORD"]
    given = (names["LYREBIRD_KAFKA_USER"], names["LYREBIRD_KAFKA_PASSWORD"])
    assert given == (("lyrebird", password) if kafka_login else ("", ""))
    file = Path(launch.argv[-1])
    said = dict(line.split("=", 1) for line in file.read_text().splitlines())
    protocol = "SASL_PLAINTEXT" if kafka_login else "PLAINTEXT"
    assert said["listener.security.protocol.map"] == f"CONTROLLER:{protocol},BROKER:{protocol}"
    asked = {name for name, text in said.items() if password in text}
    listeners = ("broker", "controller")
    assert asked == {f"listener.name.{one}.plain.sasl.jaas.config" for one in listeners if kafka_login}
    assert file.stat().st_mode & 0o077 == 0
    assert password not in " ".join((*launch.argv, *launch.env.values()))


class Guarded(BaseHTTPRequestHandler):
    """Asks for `user` and `password`."""

    def do_GET(self) -> None:
        granted = self.headers["Authorization"] == "Basic " + base64.b64encode(b"user:pass:word").decode()
        self.send_response(200 if granted else 401)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_probe_has_the_login_that_it_is_given() -> None:
    server = HTTPServer(("127.0.0.1", 0), Guarded)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/"
        assert get_json(url, login=("user", "pass:word")) == {}
        assert get_json(url, login=("user", "other")) is None
        assert get_json(url) is None
        assert answers(url, login=("user", "pass:word"))
        assert not answers(url)
    finally:
        server.shutdown()
        server.server_close()
