"""Looks for secrets in the files that git knows: `python -m tests.support.secret_scan`.

A line that has the form of one on purpose, such as a test's, ends with a comment `secret-scan: REASON`.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Final

from tests.support.paths import ROOT

__all__ = ["secrets_in"]

_ALLOWED: Final = "secret-scan: "
_FORMS: Final = {
    "a private key": re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"),
    "an AWS access key": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a GitHub token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50,})"),
    "a GitLab token": re.compile(r"\bglpat-[A-Za-z0-9_-]{20}"),
    "a Slack token": re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    "a Google API key": re.compile(r"\bAIza[A-Za-z0-9_-]{35}"),
    "a PyPI token": re.compile(r"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{20,}"),
    "a JSON web token": re.compile(r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
}
_ASSIGNED: Final = re.compile(
    r"(?i)(?:password|passwd|secret|token|api_?key|access_?key|credential)\w*[\"']?\s*[:=]\s*[\"']?([A-Za-z0-9+/_=-]{16,})"
)
_LEAST_BITS: Final = 3.5
"""Bits a character: words and names have fewer, or no digit."""
_MOST_BYTES: Final = 5_000_000


def secrets_in(text: str) -> Iterator[tuple[int, str]]:
    """Number of a line, and what it seems to have; never the secret itself."""
    for number, line in enumerate(text.splitlines(), start=1):
        if _ALLOWED in line:
            continue
        for kind, form in _FORMS.items():
            if form.search(line):
                yield number, kind
        for value in _ASSIGNED.findall(line):
            if re.search(r"\d", value) and re.search(r"[A-Za-z]", value) and _bits(value) >= _LEAST_BITS:
                yield number, "a random value for a secret's name"


def _bits(value: str) -> float:
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())


def main() -> int:
    """Print places; 1 where there are some."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in listed.split("\0") if name]
    found = 0
    for file in files:
        data = file.read_bytes() if file.is_file() and file.stat().st_size <= _MOST_BYTES else b""
        if b"\0" in data:
            continue
        for number, kind in secrets_in(data.decode("utf-8", "replace")):
            sys.stdout.write(f"{file.relative_to(ROOT)}:{number}: {kind}\n")
            found += 1
    sys.stdout.write(f"{len(files)} files, {found} seem to have a secret\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
