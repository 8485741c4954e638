"""The locks: what a user installs is enough to run, and pip takes nothing that is not pinned with its hashes."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections import defaultdict

import pytest

from include.settings.environment import PROJECT_ROOT

LOCKS = ("requirements.txt", "requirements-build.txt", "requirements-dev.txt")
HASHES = r"(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+"
PIN = re.compile(r"^([a-z0-9][a-z0-9.-]*)==(\S+)(?: ; [^\\]+)? \\\n" + HASHES, re.MULTILINE)
IMPORT = re.compile(r"^ *(?:from|import) (\w+)(?:[\w.]* import|[\w.]*(?: as \w+)?$)", re.MULTILINE)


def pins(lock: str) -> dict[str, str]:
    return dict(PIN.findall((PROJECT_ROOT / lock).read_text("utf-8")))


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_of_a_lock_is_pinned_with_hashes(lock: str) -> None:
    lines = (PROJECT_ROOT / lock).read_text("utf-8").splitlines()
    packages = [line for line in lines if line and not line.startswith(("#", " "))]
    assert len(pins(lock)) == len(packages) > 0


def test_no_package_has_two_versions() -> None:
    versions: dict[str, set[str]] = defaultdict(set)
    for lock in LOCKS:
        for name, version in pins(lock).items():
            versions[name].add(version)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_what_runs_imports_nothing_that_only_tests_install() -> None:
    files = [
        file
        for top in ("include", "demo", "plugins", "dags", "spark_apps")
        for file in (PROJECT_ROOT / top).rglob("*.py")
    ]
    imported = {name: file for file in files for name in IMPORT.findall(file.read_text("utf-8"))}
    distributions, pinned = importlib.metadata.packages_distributions(), pins("requirements.txt")
    lacking = {
        name: str(file.relative_to(PROJECT_ROOT))
        for name, file in imported.items()
        if name not in {"include", "demo", "supervision", *sys.stdlib_module_names}
        and not any(re.sub(r"[-_.]+", "-", each).lower() in pinned for each in distributions.get(name, ()))
    }
    assert len(imported) > 50
    assert lacking == {}


@pytest.mark.parametrize("name", ["requirements.in", "requirements-build.in"])
def test_every_requirement_says_who_uses_it(name: str) -> None:
    lines = (PROJECT_ROOT / name).read_text("utf-8").splitlines()
    assert [line for line in lines if line and line[0] != "#" and "  # " not in line] == []
