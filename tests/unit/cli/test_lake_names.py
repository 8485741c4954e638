"""A topic that nothing is stored of is refused by each command that takes one, with the nearest that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.cli.lake import files as lake_files
from include.cli.lake import finalise as lake_finalise
from include.cli.lake import where as lake_where
from include.errors import SettingsError
from include.lake.protocol.inventory import require_stored
from tests.unit.cli.test_lake_backfill import Shell

DAY = ("--from", "2024-05-01")


@pytest.mark.parametrize(
    "arguments",
    [
        ("where", "event", "0", "3"),
        ("files", "event", *DAY),
        ("files", "event", *DAY, "--group", "raw"),
        ("backfill", "event", *DAY, "--dry-run"),
        ("backfill", "orders.event", *DAY, "--dry-run"),
        ("promote", "event", "--run", "mine"),
        ("expire", "event", "--generation", "1", "--group", "raw", "--dry-run"),
        ("forget", "event", "--before", "2024-05-01", "--dry-run"),
        ("finalise", "event"),
    ],
)
def test_a_topic_that_is_not_stored_meets_the_nearest_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    shell = Shell(tmp_path, monkeypatch)
    for module in (lake_files, lake_finalise, lake_where):
        monkeypatch.setattr(module, "open_store", lambda _deployment: shell.world.store)
    monkeypatch.setattr("include.lake.reading.kafka_group.KafkaGroupLog", lambda *_, **__: shell.world)
    refused = shell(*arguments)
    assert refused.exit_code == 1
    assert isinstance(refused.exception, SettingsError)
    assert "Did you mean events?" in str(refused.exception)


def test_what_is_stored_below_any_prefix_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Shell(tmp_path, monkeypatch).world.store
    require_stored(store, ["nowhere", "raw"], "events")
    with pytest.raises(SettingsError, match="There is none yet"):
        require_stored(store, ["nowhere"], "events")
