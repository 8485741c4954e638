"""A real node of the local stack neither takes the last byte of the disk nor writes logs beside the one that is cut."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

from include.local.stack import Stack


def test_watermarks_are_on_in_bytes_and_no_file_of_a_log_is_its_own(tmp_path: Path) -> None:
    state = tmp_path / "state"
    stack = Stack(state, free_ports=True)
    try:
        url = stack.up(["elasticsearch"])["LYREBIRD_ELASTICSEARCH"]
        asked = f"{url}/_cluster/settings?include_defaults&flat_settings"
        with urllib.request.urlopen(asked, timeout=30) as answer:
            found = json.load(answer)["defaults"]
        disk = "cluster.routing.allocation.disk"
        assert found[f"{disk}.threshold_enabled"] == "true"
        assert found[f"{disk}.watermark.flood_stage"] == "512mb"
        folder = Path(json.loads((state / "stack.json").read_text())["data_root"]) / "elasticsearch"
        # The collector's log is opened before the option that ends it.
        assert {path.name: path.stat().st_size for path in (folder / "logs").iterdir()} in ({}, {"gc.log": 0})
        assert "started" in (state / "log" / "elasticsearch.log").read_text()
    finally:
        stack.down()
