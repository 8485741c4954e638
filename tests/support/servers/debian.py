"""Packages of Debian, unpacked into a folder without being installed: no root, no trace in the system.

apt runs with its own lists, status and cache, so it resolves every dependency down to the C library, in any suite and
architecture, and verifies what it downloads. The mirror is the one that the machine's own sources name.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from include.clock import Clock
from include.errors import Terminal, Transient
from include.local.programs.download import folder_mb, watch
from tests.support.servers.catalogue import Packages

__all__ = ["KEYRING", "configuration", "mirror", "unpack"]

_LISTS_MB = 60
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SUITES = (
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "sid",
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "unstable",
)


def mirror(targets: Iterable[str]) -> str:
    """The address of Debian's main archive, out of lines `address|suite|component` of `apt-get indextargets`.

    Terminal when none of the machine's sources is a plain suite of Debian.
    """
    for line in targets:
        address, suite, component = line.strip().split("|")
        if suite in _SUITES and component == "main":
            return address
    raise Terminal(
        "this machine's apt knows no mirror of Debian",
        fix="Add a source of Debian (main) to apt, or run this on Debian.",
    )


def configuration(work: Path, architecture: str) -> str:
    """What makes apt keep its hands off the system: everything that it reads or writes lies in `work`."""
    lines = [
        f'Dir::Etc::sourcelist "{work / "sources.list"}";',
        'Dir::Etc::sourceparts "-";',
        'Dir::Etc::preferences "-";',
        'Dir::Etc::preferencesparts "-";',
        f'Dir::State "{work / "state"}";',
        f'Dir::State::lists "{work / "state" / "lists"}";',
        f'Dir::State::status "{work / "status"}";',
        f'Dir::Cache "{work / "cache"}";',
        f'Dir::Cache::archives "{work / "cache" / "archives"}";',
        f'APT::Architecture "{architecture}";',
        f'APT::Architectures {{ "{architecture}"; }};',
        # Only this account may enter the folder.
        f'APT::Sandbox::User "{pwd.getpwuid(os.geteuid()).pw_name}";',
        'Acquire::Languages "none";',
        'Acquire::Retries "3";',
    ]
    return "\n".join(lines) + "\n"


def unpack(packages: Packages, work: Path, target: Path, clock: Clock) -> None:
    """Download `packages` with their dependencies by way of `work`, and unpack all into `target`.

    Terminal when apt or the mirror is missing or the packages are not there, Transient when the network fails.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise Terminal(
            f"no apt-get or dpkg-deb here, which {', '.join(packages.names)} would come by",
            fix="Run this on Debian.",
        )
    if not KEYRING.exists():
        raise Terminal(f"{KEYRING} is missing", fix="Run: apt-get install debian-archive-keyring")
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    (work / "status").touch()
    (work / "apt.conf").write_text(configuration(work, packages.architecture))
    source = f"deb [signed-by={KEYRING} arch={packages.architecture}] {_mirror()} {packages.suite} main\n"
    (work / "sources.list").write_text(source)
    _apt(packages, work, "update", _LISTS_MB, clock)
    install = "install --no-install-recommends --yes --download-only"
    _apt(packages, work, f"{install} {' '.join(packages.names)}", packages.download_mb, clock)
    target.mkdir(parents=True, exist_ok=True)
    for archive in sorted((work / "cache" / "archives").glob("*.deb")):
        # What a package brings in /bin, /lib lies in /usr since Debian has merged them; packages differ in age.
        subprocess.run(["dpkg-deb", "--extract", str(archive), str(target)], check=True)


def _mirror() -> str:
    made = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(COMPONENT)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=True,
    )
    return mirror(made.stdout.splitlines())


def _apt(packages: Packages, work: Path, command: str, total_mb: int, clock: Clock) -> None:
    log = work / "apt.log"
    argv = ["apt-get", "--config-file", str(work / "apt.conf"), "--quiet", *command.split()]
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, "LC_ALL": "C"}
        )
        try:
            title = f"{packages.names[0]} of {packages.suite}: {command.split()[0]}"
            code = watch(process, title, total_mb, lambda: folder_mb(work), clock)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    text = log.read_text(errors="replace")
    # `update` tells of a source that it could not read by a warning only.
    if code == 0 and "Failed to fetch" not in text:
        return
    said = [line for line in text.splitlines() if line.startswith(("E:", "W:"))]
    kind = Terminal if "Unable to locate package" in text or "unmet dependencies" in text else Transient
    raise kind(
        f"apt-get {command.split()[0]} failed: {' | '.join(said[-3:]) or text.strip()[-300:]}",
        fix="Check the network and apt's own sources (`apt-get update`), then fetch again.",
        suite=packages.suite,
        packages=" ".join(packages.names),
    )
