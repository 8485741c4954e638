"""What a person may ask of the DAG lake_upload."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from include.errors import SettingsError
from include.lake.run_params import UploadRun, due, scheduled
from include.settings.deployment import Deployment

GROUPS = ["by_date", "raw"]


def test_any_group_may_be_chosen_and_flushed() -> None:
    run = UploadRun.from_params({"groups": ["raw", "by_date"], "flush": True}, groups=GROUPS)
    assert run == UploadRun(groups=("raw", "by_date"), flush=True)
    assert run.words() == ["--group", "raw", "--group", "by_date", "--flush"]


@pytest.mark.parametrize(("asked", "words"), [(["raww"], "no group of this name"), (["raw", "raw"], "named twice")])
def test_a_group_that_is_unknown_or_named_twice_is_refused(asked: list[str], words: str) -> None:
    with pytest.raises(SettingsError, match=words) as refused:
        UploadRun.from_params({"groups": asked}, groups=GROUPS)
    assert refused.value.details["path"] == "params.groups"


def test_the_groups_on_a_schedule_are_known_without_their_models(tmp_path: Path) -> None:
    text = "lake:\n  b: {run: schedule}\n  a: {run: stream}\n  d: {run: schedule, schedule: '*/5 * * * *'}\n  c:\n"
    (tmp_path / "lake.yaml").write_text(text)
    found = ["a", "b", "c", "d"], {"b": "0 * * * *", "d": "*/5 * * * *"}
    assert scheduled(Deployment.load(tmp_path, {})) == found
    (tmp_path / "lake.yaml").write_text("kafka: {}\n")
    assert scheduled(Deployment.load(tmp_path, {})) == ([], {})


def test_what_is_no_schedule_is_refused_by_its_place(tmp_path: Path) -> None:
    (tmp_path / "lake.yaml").write_text("lake:\n  b: {run: schedule, schedule: '0 25 * * *'}\n")
    with pytest.raises(SettingsError, match="'25' is no hour") as refused:
        scheduled(Deployment.load(tmp_path, {}))
    assert refused.value.details["path"] == "lake.b.schedule"


def test_groups_are_due_whose_time_came_since_the_last_run_that_went_well() -> None:
    by_schedule = {"hourly": "0 * * * *", "daily": "0 3 * * *"}
    three = dt.datetime(2026, 11, 22, 3, tzinfo=dt.UTC)
    hour = dt.timedelta(hours=1)
    assert due(by_schedule, three - hour, three) == ["hourly", "daily"]
    assert due(by_schedule, three, three + hour) == ["hourly"]
    # The run at three was left out, as the one before it took long.
    assert due(by_schedule, three - hour, three + hour / 2) == ["hourly", "daily"]
    assert due(by_schedule, None, three + hour) == ["hourly"]
    assert due(by_schedule, None, three + hour / 2) == []
