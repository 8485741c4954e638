"""pyspark and its client unpack into one folder: one version for both, and no file overwritten by the other."""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import distribution, version
from pathlib import Path


def test_pyspark_and_its_client_have_one_version() -> None:
    assert version("pyspark") == version("pyspark-client")


def test_every_installed_file_is_pysparks_own() -> None:
    checked = 0
    altered = []
    for file in distribution("pyspark").files or []:
        if file.suffix != ".py" or file.hash is None:
            continue
        digest = hashlib.new(file.hash.mode, Path(str(file.locate())).read_bytes()).digest()
        checked += 1
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
            altered.append(str(file))
    assert checked > 500, "pip noted no digests: install with --use-pep517, as `make setup` does"
    assert altered == []
