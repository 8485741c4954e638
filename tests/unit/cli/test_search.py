"""`lyrebird search` without servers: what can be asked, and how options are read."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from include.cli.search.commands import COMMANDS, command
from include.cli.search.options import filters_of, point_of, radius_m
from include.errors import SettingsError
from include.search.queries import Box


def test_help_names_every_command_and_each_has_its_own_help() -> None:
    text = CliRunner().invoke(command, ["--help"]).stdout
    for name in COMMANDS:
        assert f"  {name} " in text
        found = CliRunner().invoke(command, [name, "--help"])
        assert (found.exit_code, "--json" in found.stdout) == (0, True)


def test_an_entitys_name_stands_for_one_document_of_it() -> None:
    found = CliRunner().invoke(command, ["order", "--help"])
    assert "Print the document of ENTITY" in found.stdout
    missing = CliRunner().invoke(command, ["order"])
    assert (missing.exit_code, "Missing argument 'ID'" in missing.stderr) == (2, True)


def test_distances_are_metres_or_kilometres() -> None:
    assert [radius_m(text) for text in ("500m", "2km", "0.5km")] == [500, 2000, 500]
    for text in ("", "2", "km", "-1km", "0m", "1e3m", "2 miles"):
        with pytest.raises(SettingsError, match="500m, 2km"):
            radius_m(text)


def test_points_are_degrees() -> None:
    assert point_of("-89.5,179") == (-89.5, 179)
    for text in ("", "1", "1,2,3", "91,0", "0,181", "x,y", "nan,1"):
        with pytest.raises(SettingsError, match="not degrees"):
            point_of(text)


def test_options_become_filters() -> None:
    found = filters_of("4", "2026-11-02", "2026-11-02T03:04:05+01:00", "53,12,52,14", ("state=completed", "a=b=c"))
    assert (found.business, found.box) == ("4", Box(53, 12, 52, 14))
    assert (found.until_us or 0) - (found.since_us or 0) == (2 * 3600 + 4 * 60 + 5) * 1_000_000
    assert dict(found.equal) == {"state": "completed", "a": "b=c"}
