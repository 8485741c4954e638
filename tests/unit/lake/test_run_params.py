"""What a person may ask of the DAG lake_upload."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.errors import SettingsError
from include.lake.run_params import UploadRun, scheduled
from include.settings.deployment import Deployment

GROUPS = ["by_date", "raw"]


def test_no_choice_means_the_groups_on_a_schedule() -> None:
    run = UploadRun.from_params({"groups": [], "flush": False}, GROUPS, ["raw"])
    assert run is not None
    assert run.arguments() == ["--group", "raw"]
    assert UploadRun.from_params({"groups": []}, GROUPS, []) is None


def test_any_group_may_be_chosen_and_flushed() -> None:
    run = UploadRun.from_params({"groups": ["raw", "by_date"], "flush": True}, GROUPS, [])
    assert run == UploadRun(("raw", "by_date"), flush=True)
    assert run.arguments() == ["--group", "raw", "--group", "by_date", "--flush"]


@pytest.mark.parametrize(("asked", "words"), [(["raww"], "no group of this name"), (["raw", "raw"], "named twice")])
def test_a_group_that_is_unknown_or_named_twice_is_refused(asked: list[str], words: str) -> None:
    with pytest.raises(SettingsError, match=words) as refused:
        UploadRun.from_params({"groups": asked}, GROUPS, [])
    assert refused.value.details["path"] == "params.groups"


def test_the_groups_on_a_schedule_are_known_without_their_models(tmp_path: Path) -> None:
    (tmp_path / "lake.yaml").write_text("lake:\n  b: {run: schedule}\n  a: {run: stream}\n  d: {run: schedule}\n  c:\n")
    assert scheduled(Deployment.load(tmp_path, {})) == (["a", "b", "c", "d"], ["b", "d"])
    (tmp_path / "lake.yaml").write_text("kafka: {}\n")
    assert scheduled(Deployment.load(tmp_path, {})) == ([], [])
