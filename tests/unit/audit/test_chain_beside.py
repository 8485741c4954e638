"""The audit beside writers: whatever happens between two of its requests, it finds nothing that is not so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.lake.chain_activity import audited_beside


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_found_beside_writers_upgrades_backfills_and_expiry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    found, happened = audited_beside(tmp_path, seed, monkeypatch)
    assert found == [], happened
