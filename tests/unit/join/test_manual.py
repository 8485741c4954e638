"""The manual's example is what the command prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from include.cli.join.replay import command
from include.join.config.definition import InputDefinition, JoinFile, JoinOutputDefinition
from include.join.config.deployed import JoinEntry
from include.settings.environment import PROJECT_ROOT

pytestmark = pytest.mark.unit

MANUAL = (PROJECT_ROOT / "docs" / "joins.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_manual_shows(tmp_path: Path) -> None:
    config, entries, _ = re.findall(r"```yaml\n(.*?)```", MANUAL, re.DOTALL)
    changes, outputs = re.findall(r"```json\n(.*?)```", MANUAL, re.DOTALL)
    (tmp_path / "reviews.yaml").write_text(config)
    (tmp_path / "changes.jsonl").write_text(changes)
    arguments = ["--config", str(tmp_path / "reviews.yaml"), "--input", str(tmp_path / "changes.jsonl")]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.stdout == outputs
    assert JoinEntry.model_validate(yaml.safe_load(entries)["joins"]["business_reviews"]).application == "join_shop"


def test_the_join_across_two_servers_is_the_one_that_the_demo_runs() -> None:
    *_, shown = re.findall(r"```yaml\n(.*?)```", MANUAL, re.DOTALL)
    assert shown == (PROJECT_ROOT / "include/deployment/joins/advertisers.yaml").read_text(encoding="utf-8")


def test_the_manual_names_every_setting_of_the_file() -> None:
    names = {
        *JoinEntry.model_fields,
        *InputDefinition.model_fields,
        *JoinOutputDefinition.model_fields,
        *JoinFile.model_fields,
    }
    assert [name for name in sorted(names) if f"`{name}`" not in MANUAL] == []
