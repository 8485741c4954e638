"""What a capture shows of itself while it runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import SecretStr

from include.clock import ManualClock
from include.errors import Fenced, Transient
from include.metrics.exporter import Metrics
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.source.database.purge import PurgeHorizon
from include.source.database.purge_watch import PurgeWatch
from include.source.definition import SourceDefinition
from include.source.incidents import CaptureIncidents
from include.source.ports import Group
from include.source.reporter import Reporter
from include.source.state.capture_state import CaptureState, TableSetAside, WaitingXa
from tests.support.run_folder import MemoryRunFolder

SOURCE = SourceDefinition(host="h", port=1, user="u", password=SecretStr("p"), databases=["shop"])


class Scenario:
    def __init__(self, horizon: PurgeHorizon | None = None) -> None:
        self.folder, self.clock, self.metrics = MemoryRunFolder(), ManualClock(10_000_000), Metrics("capture-s")
        self.looks: list[BinlogPosition] = []

        def look(_source: SourceDefinition, position: BinlogPosition) -> PurgeHorizon:
            self.looks.append(position)
            if horizon is None:
                raise Transient("the server does not answer", system="mysql")
            return horizon

        self.watch = PurgeWatch(look)
        incidents = CaptureIncidents("s", self.folder, self.clock)
        self.reporter = Reporter(
            self.folder,
            self.metrics,
            self.clock,
            incidents=incidents,
            purge=self.watch,
        )
        self.reporter.on_server(SOURCE)

    def commit(
        self,
        ops: Mapping[str, int] | None = None,
        skipped: Mapping[str, int] | None = None,
        state: CaptureState | None = None,
    ) -> dict[str, Any]:
        at = SourcePosition("mariadb", MariadbGtidSet.parse("0-1-5"), BinlogPosition("bin.000001", 700), 9_000_000)
        counted = ops or {}
        group = Group((), at, state or CaptureState(), 1, (), sum(counted.values()), 1, counted, skipped or {}, past=2)
        self.reporter.on_commit(group, caught_up=False)
        self.clock.advance(1)
        return self.folder.files.get("progress.json", {})


def test_rows_by_op_and_events_passed_over_by_type_add_up() -> None:
    scene = Scenario()
    scene.commit({"c": 2, "u": 1}, {"d": 1})
    said = scene.commit({"c": 1, "r": 5}, {"d": 2, "u": 1})
    assert (said["rows"], said["ops"]) == (9, {"c": 3, "u": 1, "r": 5})
    assert (said["skipped"], said["past"]) == ({"DELETE_ROWS": 3, "UPDATE_ROWS": 1}, 4)
    assert (said["position"], said["gtids"], said["transactions"], said["started_us"]) == (
        "bin.000001:700",
        "0-1-5",
        2,
        10_000_000,
    )
    shown = scene.metrics.text()
    assert 'lyrebird_rows_total{application="capture-s",kind="c"} 3.0' in shown
    assert 'lyrebird_skipped_events_total{application="capture-s",kind="DELETE_ROWS"} 3.0' in shown


def test_a_snapshot_is_shown_while_it_reads() -> None:
    scene = Scenario()
    scene.reporter.on_snapshot("shop.t", 500, 2_000, 10_000)
    scene.clock.advance(2)
    scene.reporter.on_snapshot("shop.t", 1_500, 3_000, 10_000)
    assert scene.commit()["reading"] == {
        "table": "shop.t", "rows": 1_500, "done": 3_000, "total": 10_000, "rows_per_s": 500, "left_s": 14,
    }  # fmt: skip
    scene.reporter.on_snapshot_end()
    assert "reading" not in scene.commit()


def test_another_server_is_looked_at_from_the_next_commit_on() -> None:
    scene = Scenario(PurgeHorizon(2.5, "its limit of time"))
    scene.commit()
    scene.watch.look_once()
    scene.reporter.on_server(SOURCE)
    scene.watch.look_once()
    assert len(scene.looks) == 2
    scene.reporter.on_server(SOURCE.model_copy(update={"port": 2}))
    assert scene.watch.horizon is None
    scene.watch.look_once()
    assert len(scene.looks) == 2
    assert scene.commit()["server"] == "h:2"
    scene.watch.look_once()
    assert len(scene.looks) == 3


def test_waiting_for_a_server_is_shown_at_once_beside_what_was_known_until_it_is_over() -> None:
    scene = Scenario()
    scene.commit({"c": 1})
    scene.reporter.on_retry(Transient("no answer", system="mysql"), 3)
    assert (scene.folder.files["progress.json"]["attempt"], scene.folder.files["progress.json"]["rows"]) == (3, 1)
    since_us = scene.folder.files["progress.json"]["waiting_since_us"]
    scene.clock.advance(1)
    scene.reporter.on_retry(Transient("no answer", system="mysql"), 4)
    said = scene.folder.files["progress.json"]
    assert (said["waiting_since_us"], said["waits_for"], said["attempt"]) == (since_us, "mysql", 4)
    scene.clock.advance(1)
    assert not {"waiting_for", "waits_for", "waiting_since_us", "attempt"} & scene.commit().keys()


def test_a_table_set_aside_is_reported_with_the_command_that_resumes_it() -> None:
    scene = Scenario()
    state = CaptureState(aside={"shop.t": TableSetAside("0-1-7", "bin.000001:9", "a row cannot be read", 1)})
    for _ in range(2):
        (incident,) = scene.commit(state=state)["incidents"]
        assert incident["fix"] == "lyrebird capture resume-table --source s shop.t"
    assert 'lyrebird_incidents_total{application="capture-s",kind="aside"} 1.0' in scene.metrics.text()
    assert scene.commit()["incidents"] == []


def test_a_short_purge_horizon_is_reported_from_the_position_of_the_last_commit() -> None:
    scene = Scenario(PurgeHorizon(2.5, "its limit of time"))
    scene.watch.look_once()
    assert scene.looks == []
    assert scene.commit()["incidents"] == []
    scene.watch.look_once()
    assert scene.looks == [BinlogPosition("bin.000001", 700)]
    said = scene.commit()
    assert said["purge"] == {"hours": 2.5, "basis": "its limit of time"}
    assert [each["kind"] for each in said["incidents"]] == ["purge"]
    assert "in 2.5 h" in said["incidents"][0]["text"]
    assert 'lyrebird_purge_horizon_hours{application="capture-s",kind=""} 2.5' in scene.metrics.text()


def test_a_server_that_does_not_tell_its_files_changes_nothing() -> None:
    scene = Scenario()
    scene.commit()
    scene.watch.look_once()
    scene.watch.look_once()
    assert len(scene.looks) == 2
    assert scene.watch.horizon is None
    assert "purge" not in scene.commit()


def test_a_take_over_is_reported_before_the_end() -> None:
    scene = Scenario()
    scene.reporter.on_end(Fenced("another process has taken over", fix="This one ends."))
    (incident,) = scene.folder.files["progress.json"]["incidents"]
    assert (incident["kind"], incident["fix"]) == ("fenced", "lyrebird capture status --source s")
    assert scene.folder.files["gave-up.json"] == incident


def test_the_watch_looks_from_its_own_thread_until_it_is_closed() -> None:
    found = PurgeHorizon(100.0, "its limit of time")

    def look(_source: SourceDefinition, _position: BinlogPosition) -> PurgeHorizon:
        watch.close()
        return found

    watch = PurgeWatch(look)
    watch.start()
    watch.move(SOURCE)
    watch.see(BinlogPosition("bin.000001", 4))
    for thread in threading.enumerate():
        if thread.name == "purge-watch":
            thread.join(10)
    assert watch.horizon == found


def test_the_purge_horizon_is_that_of_the_oldest_prepared_transaction() -> None:
    scene = Scenario(PurgeHorizon(30.0, "its limit of time"))
    after = SourcePosition("mariadb", MariadbGtidSet(), BinlogPosition("bin.000000", 70), 1)
    scene.commit(state=CaptureState(waiting=(WaitingXa("X'61',X'',1", "0-1-4", after),)))
    scene.watch.look_once()
    elsewhere = replace(after, binlog=BinlogPosition("other.000009", 70))
    scene.commit(state=CaptureState(waiting=(WaitingXa("X'61',X'',1", "0-1-4", elsewhere),)))
    scene.watch.look_once()
    assert [str(each) for each in scene.looks] == ["bin.000000:70", "bin.000001:700"]
