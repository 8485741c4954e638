"""A parser's bug from its first record to its last trace: streams on Spark, Airflow, an account that alone may delete.

Beside the groups with the bug two others store the same topic by the right parser; their objects are what a backfill
has to make, byte for byte.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from include.errors import LyrebirdError
from include.local.stack import Stack
from tests.support.lake import clicks
from tests.support.lake.clicks import WRONG, cuts_of, ends_of, lyrebird, objects_of
from tests.support.lake.clicks_platform import DAYS, FOLDERS, TOPIC, Accounts, Lake, declare, groups, until
from tests.support.servers.fixture import PROVE

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(PROVE not in os.environ, reason=f"takes minutes and a whole platform: set {PROVE}=1"),
]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    state, saved = tmp_path / "state", dict(os.environ)
    stack, accounts = Stack(state=state, free_ports=True), None
    try:
        os.environ["LYREBIRD_DEPLOYMENT"] = str(tmp_path / "deployment")
        env = stack.up(["kafka", "s3"])
        login = {"user": env["LYREBIRD_KAFKA_USER"], "password": env["LYREBIRD_KAFKA_PASSWORD"]}
        accounts = Accounts(tmp_path / "accounts")
        declare(tmp_path / "deployment", {"bootstrap": env["LYREBIRD_KAFKA"], **login}, accounts)
        env = stack.up(["mail", "airflow"])
        os.environ.update({name: value for name, value in env.items() if name.startswith("LYREBIRD_")})
        os.environ["LYREBIRD_STATE"] = str(state)
        made = Lake(state, env, accounts)
        made.airflow.wait_for_dags({"lake_upload", "lake_backfill", "lake_finalise", "stream_raw", "stream_clicks"})
        yield made
        made.airflow.close()
        made.store.close()
    finally:
        stack.down()
        if accounts is not None:
            accounts.close()
        os.environ.clear()
        os.environ.update(saved)


def below(objects: Mapping[str, str], folder: str, cuts: set[clicks.Cut]) -> dict[tuple[str, ...], str]:
    """SHA-256 by all that a name says but prefix and generation, of the objects of these cuts."""
    places = {(str(partition), f"{first:020d}") for partition, first, _ in cuts}
    found = {}
    for key, sha256 in objects.items():
        *names, file = key.removeprefix(f"{folder}/").split("/")
        _, partition, rest = file.split("_")
        if (partition, rest.partition(".")[0]) in places:
            found[*names, partition, rest] = sha256
    return found


def test_a_bug_of_a_parser_leaves_no_trace(lake: Lake) -> None:
    traffic = clicks.Traffic(lake.kafka, TOPIC)
    for batch in range(30):
        step_ms = len(DAYS) * clicks.DAY_MS // 6000
        traffic.send(lake.begin_ms + (batch * 200 + place) * step_ms for place in range(200))
    old = traffic.sent()
    lake.succeed("lake_upload", {"groups": sorted(FOLDERS), "flush": True})
    cuts = cuts_of(lake.store, FOLDERS["clicks"], TOPIC, 1)
    assert len(cuts) > 2 * clicks.PARTITIONS
    assert all(cuts_of(lake.store, FOLDERS[name], TOPIC, 1) == cuts for name in ("packed", "right", "right_packed"))
    right = {
        name: objects_of(lake.store, f"{FOLDERS[name]}/{TOPIC}", 1) for name in ("right", "right_packed", "packed")
    }
    assert right["right"] == clicks.expected(old, cuts, f"{FOLDERS['right']}/{TOPIC}", 1)
    wrong = below(right.pop("packed"), FOLDERS["packed"], cuts)
    assert wrong != below(right["right_packed"], FOLDERS["right_packed"], cuts)

    for application in ("raw", "clicks"):
        lake.airflow.trigger(f"stream_{application}")
    with lake.reader(FOLDERS["clicks"]) as reader, traffic:
        until("traffic goes on", lambda: len(traffic.sent()) > len(old) + 200, 60)
        some = ends_of(traffic.sent())
        until("the streams store it", lambda: lake.stored(some, "raw", "clicks", "packed"), 600)
        clicks.drop_from_kafka(lake.kafka, TOPIC, ends_of(old))
        lake.succeed("lake_finalise", {"groups": ["clicks"]})
        clicks.write_groups(lake.folder, groups(WRONG, clicks.fixed_since(dt.datetime.now(dt.UTC))))
        lake.restart("clicks")

        # The DAG, by dates, for the lines; its first try is killed.
        asked = {"topic": TOPIC, "version": 2, "from": lake.day(0), "to": lake.day(4)}
        run = lake.airflow.trigger("lake_backfill", {**asked, "group": "clicks"})
        lake.kill_writer(FOLDERS["clicks"])
        lake.succeeded("lake_backfill", run)
        tries = {task["task_id"]: task["try_number"] for task in lake.airflow.tasks("lake_backfill", run)}
        assert (tries["write"], tries["promote"]) == (2, 1)
        reader.again()
        folder = f"{FOLDERS['clicks']}/{TOPIC}"
        made = cuts_of(lake.store, FOLDERS["clicks"], TOPIC, 2)
        new = objects_of(lake.store, folder, 2)
        assert cuts < made < cuts_of(lake.store, FOLDERS["clicks"], TOPIC, 1)
        assert new == clicks.expected(traffic.sent(), made, folder, 2)
        assert below(new, FOLDERS["clicks"], cuts) == below(right["right"], FOLDERS["right"], cuts)
        seen = [set().union(*(look.get(cut[:2], ()) for cut in made)) for look in reader.looks]
        assert {len(each) for each in seen} <= {0, 1}
        assert {1} in seen
        assert seen[-1] == {2}

        # Airflow's own, a run a day, for the packed ones: neighbours share cuts.
        runs = lake.backfilled_by_airflow({"topic": TOPIC, "version": 2, "group": "packed"})
        assert runs == len(DAYS)
        listed = lyrebird("files", TOPIC, "--group", "packed", "--from", lake.day(-1), "--to", lake.day(5))
        read = {each["key"]: each["sha256"] for each in listed["objects"]}
        assert below(read, FOLDERS["packed"], cuts) == below(right["right_packed"], FOLDERS["right_packed"], cuts)
        assert len(lyrebird("audit", TOPIC, "--deep")["topics"]) == 1

        # What nobody reads goes, by the one account that may.
        plan = lyrebird("expire", TOPIC, "--generation", "1", "--group", "clicks", "--dry-run")
        with pytest.raises(LyrebirdError):
            lake.store.delete(plan["objects"][0])
        assert lake.store.head(plan["objects"][0]) is not None
        lyrebird("expire", TOPIC, "--generation", "1", "--group", "clicks", "--yes")
        reader.again()
        lake.succeed("lake_finalise", {"groups": ["clicks"]})
    told = [each["extra"] for each in lake.airflow.get("/api/v2/assets/events", limit=200)["asset_events"]]
    changes = {(each["date"], each["change"], each["edition"]) for each in told if each.get("group") == "clicks"}
    for number in DAYS:
        assert {(lake.day(number), "finished", 1), (lake.day(number), "replaced", 2)} <= changes
    replaced = clicks.expected(traffic.sent(), made, folder, 1, clicks.wrong_day)
    assert not objects_of(lake.store, folder, 1).keys() & replaced.keys()
