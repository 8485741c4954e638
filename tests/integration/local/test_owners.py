"""Started by root, real servers run under another account, on files that were root's before, too."""

from __future__ import annotations

import json
import os
import shutil
import smtplib
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import boto3
import psutil
import pytest
from confluent_kafka.admin import AdminClient

from include.clock import SystemClock
from include.local import accounts
from include.local.programs import resolve
from include.local.recipes import recipe
from include.local.recipes.probe import get_json
from include.local.services import service
from include.local.site import Site
from include.local.stack import Stack
from include.log.http import basic
from include.settings.connections import Kafka
from include.settings.deployment import Deployment
from include.settings.environment import cache_folder
from tests.support.paths import ROOT
from tests.support.sites import opened, passable

pytestmark = pytest.mark.timeout(500)


@pytest.fixture
def site() -> Iterator[Site]:
    with passable() as folder, opened(folder / "state") as made:
        yield made


def wanted(site: Site) -> int:
    """The uid that servers should have."""
    return site.account.uid if site.account else os.geteuid()


def uids(pid: int) -> set[int]:
    """Real, effective, saved, and that of the file system."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Uid:"))
    return {int(word) for word in line.split()[1:]}


def owners_of(folder: Path) -> set[int]:
    return {path.lstat().st_uid for path in (folder, *folder.rglob("*"))}


def status(url: str, login: tuple[str, str] | None) -> int:
    """Of the answer to a GET."""
    asked = urllib.request.Request(url, headers={"Authorization": basic(*login)} if login else {})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def test_kafka_registry_and_s3_run_as_the_account_and_have_what_root_left(site: Site, tmp_path: Path) -> None:
    rows = [service(name) for name in ("kafka", "registry", "s3")]
    resolve.ensure(rows, cache_folder(), SystemClock())
    # As a version that ran them as root has left them.
    before = replace(site, account=None)
    for row in rows:
        recipe(row).prepare(before, row)
    identity = (site.state / "kafka" / "cluster_id").read_text()
    bucket = site.state / "s3" / "objects" / "lake"
    bucket.mkdir()
    (bucket / "old").write_bytes(b"of before")
    stranger = tmp_path / "stranger"
    stranger.write_text("")
    (bucket / "link").symlink_to(stranger)
    assert owners_of(site.state / "kafka") == owners_of(site.state / "s3") == {os.geteuid()}
    stack = Stack(site.state, free_ports=True)
    try:
        env = stack.up([row.name for row in rows])
        found = {one.process: one.pid for one in stack.status().processes if one.pid}
        assert {name: uids(pid or 0) for name, pid in found.items()} == {
            name: {wanted(site)} for name in ("kafka", "registry", "s3")
        }
        for row in rows:
            assert site.folder(row) == site.state / row.name
            assert owners_of(site.folder(row)) == {wanted(site)}
        assert stranger.stat().st_uid == os.geteuid()
        kafka = Deployment.load(ROOT / "include" / "deployment", env).one("kafka", Kafka)
        asked: dict[str, str | int | float | bool] = {"bootstrap.servers": kafka.bootstrap, **kafka.options}
        assert AdminClient(asked).list_topics(timeout=20).cluster_id == identity
        user, password = env["LYREBIRD_REGISTRY_USER"], env["LYREBIRD_REGISTRY_PASSWORD"]
        subjects = f"{env['LYREBIRD_REGISTRY']}/subjects"
        assert get_json(subjects, 20, (user, password)) == []
        assert [status(subjects, login) for login in (None, (user, "other"), (user, ""))] == [401, 401, 401]
        assert len(password) >= 20
        registry = psutil.Process(found["registry"])
        assert password not in " ".join((*registry.cmdline(), *registry.environ().values()))
        files = [path for path in (*(site.state / "registry").rglob("*"), site.log("registry")) if path.is_file()]
        assert {path.name for path in files} >= {"login.properties", "registry.log"}
        assert [path for path in files if password.encode() in path.read_bytes()] == []
        client = boto3.client(
            "s3",
            endpoint_url=env["LYREBIRD_S3"],
            aws_access_key_id=env["LYREBIRD_S3_ACCESS_KEY"],
            aws_secret_access_key=env["LYREBIRD_S3_SECRET_KEY"],
            region_name="us-east-1",
        )
        client.put_object(Bucket="lake", Key="new", Body=b"of now")
        assert client.get_object(Bucket="lake", Key="old")["Body"].read() == b"of before"
        client.close()
    finally:
        stack.down()


def test_a_registry_of_a_former_release_asks_for_no_password_in_the_same_folder(site: Site) -> None:
    row = service("registry")
    resolve.ensure([row], cache_folder(), SystemClock())
    (launch,) = recipe(row).prepare(site, row)
    # As those said it.
    words = [word for word in launch.argv if "quarkus.config.locations" not in word]
    assert len(words) == len(launch.argv) - 1
    running = subprocess.Popen(
        words, cwd=launch.cwd, env=launch.env, user=launch.uid, group=launch.gid, stdout=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 120
        while (found := get_json(f"http://127.0.0.1:{site.ports['registry']}/apis/ccompat/v7/subjects")) is None:
            assert running.poll() is None
            assert time.monotonic() < until
            time.sleep(0.2)
        assert found == []
    finally:
        running.kill()
        running.wait()


_UP = """
import json, sys
from pathlib import Path
from include.local.site import Site
from include.local.stack import Stack
stack, said = Stack(Path(sys.argv[1]), free_ports=True), []
stack._say = said.append
try:
    env = stack.up(["mail"])
    (one,) = [one for one in stack.status().processes if one.pid]
    print(json.dumps([env, one.pid, said]), flush=True)
    sys.stdin.read()
finally:
    stack.down()
"""


def interpreter(folder: Path, site: Site) -> str | None:
    """A Python that the servers' account can run, with our packages; None where this machine has none."""
    packages = Path(boto3.__file__).parents[1]
    if not accounts.reaches(packages, site.account) or not accounts.reaches(ROOT, site.account):
        return None
    if accounts.reaches(Path(sys.executable), site.account):
        return sys.executable
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = shutil.which(name, path="/usr/bin:/usr/local/bin")
    if found is None or not accounts.reaches(Path(found), site.account):
        return None
    made = folder / "venv"
    subprocess.run([found, "-m", "venv", "--without-pip", str(made)], check=True, umask=0o022)
    (made / "lib" / name / "site-packages" / "ours.pth").write_text(f"{packages}\n")
    return str(made / "bin" / "python")


def test_the_mail_catcher_runs_as_the_account_or_says_why_not(site: Site) -> None:
    reachable = interpreter(site.state.parent, site)
    words = [reachable or sys.executable, "-c", _UP, str(site.state)]
    running = subprocess.Popen(
        words, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert running.stdout is not None
        env, pid, said = json.loads(running.stdout.readline())
        host, port = env["LYREBIRD_SMTP"].split(":")
        login = env["LYREBIRD_MAIL_USER"], env["LYREBIRD_MAIL_PASSWORD"]
        with smtplib.SMTP(host, int(port), timeout=20) as client:
            client.login(*login)
            client.sendmail("a@localhost", ["b@localhost"], "Subject: kept\n\n")
        listed = get_json(f"{env['LYREBIRD_MAIL']}/messages.json", 20, login)
        assert [mail["subject"] for mail in listed] == ["kept"]
        if reachable is None:
            assert uids(pid) == {os.geteuid()}
            assert any(line.startswith("mail runs as root: ") and "LYREBIRD_ACCOUNT" in line for line in said)
        else:
            assert uids(pid) == {wanted(site)}
            assert owners_of(site.state / "mail") == {wanted(site)}
            assert not any("runs as root" in line for line in said)
            # What it may read of itself holds no password.
            assert b"PASSWORD" not in Path(f"/proc/{pid}/environ").read_bytes()
    finally:
        running.communicate()


_HANDS_OVER = """
import os, sys
from pathlib import Path
from include.local import accounts, owners, rootless

folder = Path(sys.argv[1])
owners.OUTSIDE = folder / "lib"
roots = accounts.Account("root", 0, 0)
print(os.geteuid() or accounts.closed(roots, [(folder / "closed" / "a", "r")]) or "root reads")
account = accounts.unprivileged()
for wanted in (folder / "closed" / "a", folder / "secret", folder / "open"):
    print(account and accounts.closed(account, [(wanted, "r")]))
# The interpreter of the tests may lie in root's home: what begins anew is a shell, and needs nothing.
rootless._program = rootless._stack = lambda *_: iter(())
sys.executable = "/bin/sh"
sys.orig_argv = ["sh", "-c", sys.argv[2]]
os.environ["HELD"] = str(os.dup2(os.open("/etc/passwd", os.O_RDONLY), 77))
sys.stdout.flush()
rootless.hand_over(folder / "state", lambda line: None)
print("an ordinary user goes on")
"""
_BEGINS = 'grep -E "^(Uid|Gid|Groups|Cap(Prm|Eff)):" /proc/$$/status; test -e /proc/$$/fd/77; echo $?; echo a > state/a'


def test_a_new_stack_of_root_s_is_the_account_s_and_root_is_given_up_for_good() -> None:
    with passable() as folder:
        for name in ("closed/a", "secret", "open"):
            (folder / name).parent.mkdir(mode=0o700, exist_ok=True)
            (folder / name).touch(0o600 if name == "secret" else 0o644)
        ended = subprocess.run(
            [sys.executable, "-c", _HANDS_OVER, str(folder), _BEGINS],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "LYREBIRD_CACHE": str(folder / "cache")},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        account = accounts.unprivileged()
        if account is None:
            assert ended.stdout.splitlines()[1:] == ["None", "None", "None", "an ordinary user goes on"]
            assert not (folder / "state").exists()
            return
        seen, closed, secret, read, uid, gid, groups, permitted, effective, held = ended.stdout.splitlines()
        assert seen == "root reads"
        assert closed == f"cannot enter {folder / 'closed'}, and needs {folder / 'closed' / 'a'}"
        assert (secret, read) == (f"cannot read {folder / 'secret'}", "")
        assert set(uid.split()[1:]) == {str(account.uid)}
        assert set(gid.split()[1:]) == {str(account.gid)}
        assert set(groups.split()[1:]) == {str(each) for each in os.getgrouplist(account.name, account.gid)}
        assert int(permitted.split()[1], 16) == int(effective.split()[1], 16) == 0
        assert held == "1"
        assert owners_of(folder / "state") == {account.uid}
