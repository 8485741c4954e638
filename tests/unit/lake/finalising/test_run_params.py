"""What a person may ask of the DAG lake_finalise."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.errors import SettingsError
from include.lake.finalising.run_params import FinaliseRun

REPORT = Path("r.json")


def test_no_choice_means_all_topics_of_all_groups() -> None:
    run = FinaliseRun.from_params({"topics": [], "groups": None}, groups=["by_date"])
    assert run.arguments(REPORT) == ["lake", "finalise", "--report", "r.json"]


def test_topics_and_groups_may_be_chosen() -> None:
    run = FinaliseRun.from_params({"topics": ["t", "u"], "groups": ["by_date"]}, groups=["by_date", "by_hour"])
    assert run.arguments(REPORT)[2:6] == ["t", "u", "--group", "by_date"]


@pytest.mark.parametrize(
    ("groups", "params", "path"),
    [
        (["by_date"], {"groups": ["raw"]}, "params.groups"),
        (["by_date"], {"topics": ["t", "t"]}, "params.topics"),
        ([], {}, "lake"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(
    groups: list[str], params: dict[str, list[str]], path: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        FinaliseRun.from_params(params, groups=groups)
    assert refused.value.details["path"] == path
