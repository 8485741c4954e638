"""`lyrebird lake forget` over a bucket in memory."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from include.errors import Terminal
from include.lake.protocol.chain_key import ChainKey
from tests.unit.cli.test_lake_backfill import FILES, Shell

BY_DATE = ("forget", "--before", "2024-05-04", "--group", "by_date")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(tmp_path, monkeypatch)


def test_a_dry_run_says_what_would_go_and_removes_nothing(shell: Shell) -> None:
    before = set(shell.world.store._objects)
    told = shell("forget", "events", "--before", "2024-05-04", "--dry-run").stdout
    assert "by_date: events, partition 0: offsets 0 to " in told
    assert set(shell.world.store._objects) == before


def test_it_asks_first_and_tells_in_json_what_went(shell: Shell) -> None:
    assert shell(*BY_DATE, said="n\n").exit_code == 1
    assert shell.world.pointer().floors == {}
    found = shell.json(*BY_DATE, "--yes")
    (topic,) = found["topics"]
    assert (topic["topic"], topic["before"], len(topic["partitions"])) == ("events", "2024-05-04", 1)
    assert found["removed"] >= topic["partitions"][0]["objects"] > 0
    assert shell.world.pointer().floors == {0: topic["partitions"][0]["floor"]}
    again = shell.json(*BY_DATE, "--yes")
    assert (again["removed"], again["topics"][0]["partitions"]) == (0, [])


def test_keep_days_says_what_is_due_of_groups_that_have_it(shell: Shell, tmp_path: Path) -> None:
    assert shell.json("forget", "--due", "--yes") == {"topics": [], "removed": 0}
    text = FILES.replace("    prefix: by_date\n", "    prefix: by_date\n    keep_days: 30\n")
    (tmp_path / "deployment.yaml").write_text(text, "utf-8")
    (topic,) = json.loads(shell("forget", "--due", "--yes", "--json").stdout)["topics"]
    assert (topic["prefix"], len(topic["partitions"])) == ("by_date", 1)
    kept = dt.date.fromisoformat(topic["before"])
    assert (dt.datetime.now(dt.UTC).date() - kept).days in (30, 31)


def test_commits_that_went_before_their_time_end_it_with_an_error_until_a_person_accepts_that(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("include.clock.SystemClock.now_us", lambda _clock: shell.world.clock.now_us())
    text = FILES.replace("    prefix: by_date\n", "    prefix: by_date\n    keep_days: 365\n")
    (tmp_path / "deployment.yaml").write_text(text, "utf-8")
    chain = ChainKey(shell.world.topic_key(), 1, 0)
    shell.world.store.delete(chain.commit(0))
    shell.world.store.delete(chain.intent(0))
    before = set(shell.world.store._objects)
    refused = shell("forget", "--due", "--yes")
    assert isinstance(refused.exception, Terminal)
    assert refused.exception.details["until"] == 11
    assert "events --group by_date --before" in refused.exception.fix
    assert set(shell.world.store._objects) == before
    assert shell.world.pointer().floors == {}
    told = json.loads(shell("forget", "--due", "--yes", "--json").stdout)
    assert told["topics"][0]["missing"] == [{"partition": 0, "first": 0, "until": 11}]
    accepted = shell("forget", "--due", "--yes", "--accept-missing")
    assert accepted.exit_code == 0, accepted.exception
    assert shell.world.pointer().floors == {0: 11}
    assert shell("forget", "--due", "--yes").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("forget", "event", "--before", "2024-05-04"), "Did you mean events?"),
        (("forget", "--before", "2024-05-04", "--group", "by_data"), "by_date"),
        (("forget",), "--before DAY or --due"),
        (("forget", "--due", "--before", "2024-05-04"), "--before DAY or --due"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_next_step(
    shell: Shell, arguments: tuple[str, ...], says: str
) -> None:
    assert says in str(shell(*arguments).exception)
