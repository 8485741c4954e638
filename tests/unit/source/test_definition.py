from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from include.errors import SettingsError, Terminal, Transient
from include.record.gtid import MariadbGtidSet
from include.settings.deployment import Deployment
from include.source.definition import SourceDefinition, load_source
from include.source.server_errors import error_of
from include.source.state.capture_state import CaptureState
from include.source.state.job import FIRST, Job
from include.source.state.key_range import WHOLE, KeyRange
from tests.support.paths import ROOT

SHOP = {
    "LYREBIRD_MYSQL_HOST": "db",
    "LYREBIRD_MYSQL_PORT": "23306",
    "LYREBIRD_MYSQL_USER": "capture",
    "LYREBIRD_MYSQL_PASSWORD": "secret",
}
DEPLOYMENT = ROOT / "include" / "deployment"


def made(**more: object) -> SourceDefinition:
    return SourceDefinition.model_validate(
        {"host": "db", "port": 1, "user": "u", "password": "p", "databases": ["shop"]} | more
    )


def test_the_shop_is_declared_with_orders_partitioned_by_order_id(tmp_path: Path) -> None:
    (tmp_path / "sources.yaml").write_text((DEPLOYMENT / "sources.yaml").read_text("utf-8"), "utf-8")
    shop = load_source(Deployment.load(tmp_path, SHOP), "shop")
    assert shop.port == 23306
    assert shop.partition_columns("shop", "orders") == ("order_id",)
    assert (shop.partitions_of("shop", "orders"), shop.partitions_of("shop", "users")) == (4, 1)
    assert shop.captures("shop", "any_table")
    assert "secret" not in repr(shop)


def test_a_wrong_key_is_refused_with_its_place_and_the_allowed_ones(tmp_path: Path) -> None:
    (tmp_path / "sources.yaml").write_text("sources:\n  shop:\n    hots: db\n", "utf-8")
    with pytest.raises(SettingsError) as refused:
        load_source(Deployment.load(tmp_path, {}), "shop")
    assert "sources.yaml" in str(refused.value)


def test_an_unknown_source_is_refused_with_the_list(tmp_path: Path) -> None:
    (tmp_path / "sources.yaml").write_text((DEPLOYMENT / "sources.yaml").read_text("utf-8"), "utf-8")
    with pytest.raises(SettingsError) as refused:
        load_source(Deployment.load(tmp_path, SHOP), "shpo")
    assert refused.value.details["allowed"] == ["ads", "shop"]


def test_without_a_policy_all_tables_of_the_databases_are_captured() -> None:
    assert made().captures("shop", "orders")
    assert not made().captures("mysql", "user")
    assert made().policy.whole


def test_questions_do_not_make_a_source_another_one() -> None:
    asked = made()
    assert asked.captures("shop", "orders")
    assert asked == made()


def test_the_replica_id_is_the_same_for_a_name_and_fits() -> None:
    assert made().replica_id("shop") == made().replica_id("shop") != made().replica_id("shop2")
    assert 0 < made().replica_id("shop") < 2**32
    assert made(server_id=7).replica_id("shop") == 7


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (1045, Terminal, "refuses the account"),
        (1227, Terminal, "GRANT REPLICATION SLAVE"),
        (1236, Terminal, "--anew"),
        (1267, Terminal, "refuses a statement"),
        (1270, Terminal, "refuses a statement"),
        (1271, Terminal, "refuses a statement"),
        (3988, Terminal, "refuses a statement"),
        (1205, Transient, "does not answer"),
    ],
)
def test_the_servers_refusals_say_what_to_do(code: int, kind: type[Exception], text: str) -> None:
    error = error_of(RuntimeError(code, "no"), made())
    assert type(error) is kind
    assert text in str(error)
    assert "\n" not in str(error)


def test_state_survives_the_resolved_record() -> None:
    job = Job("r1", ("shop.t",), gap=False, asked=True, where="v > 1", rows_per_s=7).begun(5)
    state = CaptureState(7, "done", {"shop.t": 3}, (job,), 11).with_gap("g", ["shop.u"])
    assert CaptureState.from_json(state.to_json()) == state
    assert state.uncovered == ("shop.u",)
    half = job.read("shop.t", (KeyRange(("1", "C3"), None),), "id int ", 3)
    assert (half.done, half.ranges("shop.t"), half.ranges("shop.u")) == (3, (KeyRange(("1", "C3"), None),), (WHOLE,))
    state = state.with_job(half)
    assert CaptureState.from_json(state.to_json()) == state
    assert state.without_table("shop.t").job("r1") == replace(job.without("shop.t"), done=3)
    assert state.without_job("g").uncovered == ()
    with pytest.raises(Terminal, match="holds no state of capture"):
        CaptureState.from_json({})


def test_a_table_that_is_gone_is_owed_nothing() -> None:
    state = CaptureState(tables={"shop.t": 1}).with_gap("g", ["shop.t"])
    assert state.without_table("shop.t") == CaptureState(jobs=(Job("g", (), gap=True),))


def test_floors_are_kept_from_when_a_job_was_first_begun() -> None:
    job = Job("g", ("shop.t", "shop.u"), gap=True).begun(5).begun(9)
    assert job.floors == {"shop.t": 5, "shop.u": 5}
    assert Job("r", ("shop.t",), gap=False).begun(5).floors == {}


def test_a_first_snapshot_leaves_its_tables_incomplete_until_it_is_done() -> None:
    state = CaptureState(jobs=(Job(FIRST, ("shop.t",), gap=False, uncovered=True),))
    assert state.uncovered == ("shop.t",)
    assert state.without_job(FIRST).uncovered == ()


def test_a_job_of_an_older_record_is_read() -> None:
    assert Job.from_json({"id": "g", "tables": ["shop.t"], "gap": True}) == Job("g", ("shop.t",), gap=True)


def test_gtids_of_an_empty_server_are_the_empty_set() -> None:
    assert str(MariadbGtidSet.parse("")) == ""
