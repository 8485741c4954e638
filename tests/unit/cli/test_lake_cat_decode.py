"""`lyrebird lake cat --decode`: values of a backup as JSON, without a registry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from include.cli.lake import cat as lake_cat
from include.cli.lake import commands as lake
from tests.support.lake.stored_topic import backup_group
from tests.unit.cli.test_lake_backfill import FILES
from tests.unit.lake.reading.test_kept_schemas import Backed


def test_a_backup_is_read_by_the_schemas_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = Backed(tmp_path)
    world.append([world.event(7), b"plain"])
    world.store_all(backup_group())
    (tmp_path / "deployment.yaml").write_text(FILES, "utf-8")
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    monkeypatch.setattr(lake_cat, "open_store", lambda _deployment: world.store)
    (key,) = [info.key for info in world.store.list("raw/events/")]
    shown = CliRunner().invoke(lake.command, ["cat", key, "--decode", "--json"])
    first, second = (json.loads(line) for line in shown.stdout.splitlines())
    assert json.loads(first["value"]) == {"n": 7}
    assert second["value"] == "plain"
    refused = CliRunner().invoke(lake.command, ["cat", key, "--decode", "--raw"])
    assert "Choose one" in str(refused.exception)
