"""`lyrebird join replay --engine spark`: the real application prints what the engine in Python does."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from include.cli.join.replay import command
from include.settings.environment import PROJECT_ROOT

MANUAL = (PROJECT_ROOT / "docs" / "joins.md").read_text(encoding="utf-8")

LEFT = """
join:
  - topic: cdc.shop.shop.orders
    join_keys: [city, buyer]
  - schema_id: 7
    join_keys: [town, buyer_id]
    aliases: [{from: id, to: buyer_row}]
    type: left
    where: {kind: [x, null]}
  - topic: cities
    join_keys: [city, buyer]
    include_fields: [mayor]
    type: left
output: {namespace: replayed, source: orders}
buckets: 3
max_product_per_change: 2
"""


def printed(folder: Path, *options: str) -> str:
    arguments = ["--config", str(folder / "join.yaml"), "--input", str(folder / "changes.jsonl"), *options]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def random_changes(draw: random.Random, count: int) -> list[dict[str, Any]]:
    """Of the inputs of `LEFT`: rows that change their join key, have none, go and come again, and old ones."""
    changes: list[dict[str, Any]] = []
    key: dict[str, Any]
    row: dict[str, Any]
    for version in range(10, 10 + count):
        town, buyer, number = draw.choice(["a", "b", None]), draw.randrange(2), draw.randrange(5)
        input = draw.choice([0, 0, 1, 1, 2])
        if input == 0:
            key, row = {"number": number}, {"city": town, "buyer": buyer, "price": draw.choice([0.5, 1.0])}
        elif input == 1:
            key, row = {"id": number}, {"town": town, "buyer_id": buyer, "kind": draw.choice(["x", "y", None])}
        else:
            # The join key is the primary key: no first stage looks for where these stood.
            key, row = {"city": town or "c", "buyer": buyer}, {"mayor": draw.choice(["m", "n"])}
        gone = draw.random() < 0.2
        value = None if gone else {**key, **row}
        changes.append({"input": input, "op": "d" if gone else "u", "key": key, "value": value, "version": version})
    stale = next(change for change in changes if change["value"] is not None)
    return [*changes, {**stale, "version": 1}]


# Servers and a JVM of its own start in each, which takes minutes where the machine is busy.
pytestmark = pytest.mark.timeout(400)


def test_the_manuals_example_is_printed_byte_by_byte_as_the_manual_shows_it(tmp_path: Path) -> None:
    (config, *_), (changes, outputs) = (
        re.findall(rf"```{kind}\n(.*?)```", MANUAL, re.DOTALL) for kind in ("yaml", "json")
    )
    (tmp_path / "join.yaml").write_text(config)
    (tmp_path / "changes.jsonl").write_text(changes)
    assert printed(tmp_path, "--engine", "spark") == outputs
    assert printed(tmp_path, "--engine", "python") == outputs


def test_a_random_history_comes_to_the_same_outputs_and_the_same_table(tmp_path: Path) -> None:
    (tmp_path / "join.yaml").write_text(LEFT)
    lines = [json.dumps(change) for change in random_changes(random.Random(2), 150)]
    (tmp_path / "changes.jsonl").write_text("\n".join(lines))
    options = ["--batch", "40", "--json"]
    found = printed(tmp_path, *options, "--engine", "spark")
    assert found == printed(tmp_path, *options)
    told = json.loads(found)
    assert told["held"] > 0
    assert told["stale"] > 0
    newest: dict[str, Any] = {}
    for output in told["outputs"]:
        # In the order of the log, as compaction keeps them.
        newest[json.dumps(output["key"])] = output
    table = [newest[key] for key in newest if newest[key]["value"] is not None]
    final = json.loads(printed(tmp_path, *options, "--final", "--shuffle"))["outputs"]
    assert {each["value"]["mayor"] for each in final} > {None}
    assert sorted(map(json.dumps, table)) == sorted(map(json.dumps, final))
