"""Incidents keep their ids for as long as they last, over restarts too."""

from __future__ import annotations

import pytest

from include.clock import ManualClock
from include.errors import Fenced, Terminal, Transient
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.source.database.purge import PurgeHorizon
from include.source.incidents import CaptureIncidents, next_command
from include.source.state.capture_state import CaptureState, TableSetAside, WaitingXa
from include.source.state.job import GAP_OF_TOPIC
from tests.support.run_folder import MemoryRunFolder

WHY = TableSetAside("0-1-7", "bin.000001:9", "a row cannot be read", 1)
SHORT, LONG = PurgeHorizon(3.0, "its limit of time"), PurgeHorizon(48.0, "its limit of time")


class Scenario:
    def __init__(self) -> None:
        self.folder, self.clock = MemoryRunFolder(), ManualClock(1_000_000)
        self.restart()

    def restart(self) -> None:
        self.incidents = CaptureIncidents("shop", self.folder, self.clock)

    @property
    def ids(self) -> list[str]:
        return [each["id"] for each in self.incidents.open()]


def test_a_table_set_aside_and_one_in_want_of_rows_say_what_to_run() -> None:
    no_gtid = TableSetAside("", "bin.000001:9", "a cascade", 1)
    scene = Scenario()
    scene.incidents.on_state(CaptureState(aside={"shop.t": WHY}, orphans={"shop.u": no_gtid}))
    found = scene.incidents.open()
    assert [(each["kind"], each["group"], each["id"]) for each in found] == [
        ("aside", "shop.t", "aside:shop.t:bin.000001:9"),
        ("orphans", "shop.u", "orphans:shop.u:bin.000001:9"),
    ]
    assert found[0]["fix"] == "lyrebird capture resume-table --source shop shop.t"
    assert found[0]["text"] == "table shop.t of shop is set aside: a row cannot be read. Since 0-1-7 (bin.000001:9)."
    assert found[1]["text"] == "table shop.u of shop may lack changes: a cascade. Since bin.000001:9."


def test_a_table_that_is_resumed_is_no_incident_any_more() -> None:
    scene = Scenario()
    state = CaptureState(aside={"shop.t": WHY})
    scene.incidents.on_state(state)
    assert scene.ids == ["aside:shop.t:bin.000001:9"]
    scene.incidents.on_state(state.without_aside(["shop.t"]))
    assert scene.ids == []


def test_a_lost_topic_is_an_incident_until_its_table_is_read_again() -> None:
    scene = Scenario()
    state = CaptureState(tables={"shop.t": 1, "shop.u": 2}).with_gap(f"{GAP_OF_TOPIC}7", ["shop.t"])
    scene.incidents.on_state(state)
    assert scene.ids == ["topic:shop.t:gap:topic:7"]
    assert scene.incidents.open()[0]["fix"] == "lyrebird capture status --source shop"
    scene.incidents.on_state(state.without_job(f"{GAP_OF_TOPIC}7"))
    assert scene.ids == []


def test_a_short_horizon_is_one_incident_until_it_has_recovered() -> None:
    scene = Scenario()
    scene.incidents.on_horizon(None)
    assert scene.ids == []
    scene.incidents.on_horizon(SHORT)
    (first,) = scene.ids
    scene.clock.advance(3600)
    for horizon in (
        PurgeHorizon(30.0, "its limit of time"),
        SHORT,
        PurgeHorizon(None, "unknown: it does not tell"),
        SHORT,
    ):
        scene.incidents.on_horizon(horizon)
        assert scene.ids == [first]
    scene.restart()
    assert scene.ids == [first]
    scene.incidents.on_horizon(LONG)
    assert scene.ids == []
    scene.incidents.on_horizon(SHORT)
    assert scene.ids != [first]
    scene.incidents.on_horizon(PurgeHorizon(None, "never: the server purges nothing by itself"))
    assert scene.ids == []


def test_a_transaction_that_is_prepared_for_an_hour_is_one_incident_until_it_ends() -> None:
    scene = Scenario()
    after = SourcePosition("mariadb", MariadbGtidSet(), BinlogPosition("bin.000002", 70), scene.clock.now_us())
    state = CaptureState(waiting=(WaitingXa("X'61',X'',1", "0-1-7", after),))
    scene.incidents.on_state(state)
    assert scene.ids == []
    scene.clock.advance(3600)
    (found,) = scene.incidents.open()
    assert (found["kind"], found["id"]) == ("prepared", "prepared:X'61',X'',1:bin.000002:70")
    assert "XA RECOVER" in found["text"]
    scene.restart()
    scene.incidents.on_state(state)
    assert scene.ids == [found["id"]]
    scene.incidents.on_state(CaptureState())
    assert scene.ids == []


def test_a_long_wait_is_one_incident_until_capture_goes_on() -> None:
    scene = Scenario()
    away = Transient("Kafka does not answer", fix="Is Kafka up? See `lyrebird status`.", system="kafka")
    scene.incidents.on_wait(away)
    scene.clock.advance(299)
    scene.incidents.on_wait(away)
    assert scene.ids == []
    scene.clock.advance(1)
    (first,) = scene.ids
    scene.restart()
    scene.incidents.on_wait(away)
    (incident,) = scene.incidents.open()
    assert (incident["id"], incident["kind"], incident["fix"]) == (first, "waiting", "lyrebird status")
    assert incident["text"].startswith("capture of shop waits since 1970-01-01T00:00:01")
    scene.incidents.on_progress()
    assert scene.ids == []
    scene.incidents.on_wait(away)
    assert scene.ids == []


def test_what_ends_capture_is_told_with_the_command_of_its_advice() -> None:
    scene = Scenario()
    ended = scene.incidents.on_end(
        Terminal("it was purged", fix="Read anew: `lyrebird capture run --source … --anew`.")
    )
    assert (ended.kind, ended.fix) == ("stopped", "lyrebird capture run --source shop --anew")
    assert ended.text.startswith("capture of shop has stopped: it was purged. Read anew")
    assert ended.text.endswith("Then start capture again (under Airflow: clear its task).")
    assert scene.ids == [ended.id]
    scene.restart()
    assert scene.ids == []
    scene.clock.advance(1)
    assert scene.incidents.on_end(Terminal("it was purged")).id != ended.id


def test_a_take_over_is_told_as_such() -> None:
    scene = Scenario()
    ended = scene.incidents.on_end(Fenced("another one writes its topics now", fix="Stop one of them."))
    assert ended.text == "capture of shop was taken over: another one writes its topics now. Stop one of them."
    assert (ended.kind, ended.fix) == ("fenced", "lyrebird capture status --source shop")


@pytest.mark.parametrize(
    ("fix", "command"),
    [
        ("Is Kafka up? See `lyrebird status`.", "lyrebird status"),
        ("`SET GLOBAL x`, then `lyrebird capture resume-table`.", ""),
        ("Run `lyrebird capture run --source shop --snapshot`.", "lyrebird capture run --source shop --snapshot"),
        ("`lyrebird capture resume-table --source … …`", ""),
        ("", ""),
    ],
)
def test_a_next_command_is_whole_or_another_one(fix: str, command: str) -> None:
    assert next_command("shop", Terminal("no", fix=fix)) == command


def test_a_short_horizon_that_was_kept_before_there_was_one_form_keeps_its_id() -> None:
    scene = Scenario()
    scene.folder.files["incidents.json"] = {"purge": {"at_us": 5, "text": "in 2.0 h it is purged"}}
    scene.restart()
    assert scene.ids == ["purge:5"]
    assert scene.incidents.open()[0]["fix"] == "lyrebird capture status --source shop"
    scene.incidents.on_horizon(SHORT)
    assert scene.ids == ["purge:5"]
    assert list(scene.folder.files["incidents.json"]) == ["open", "heard"]


def test_a_wait_counts_over_restarts_and_is_told_by_one_that_still_waits() -> None:
    away, scene = Transient("Kafka does not answer", system="kafka"), Scenario()
    for _ in range(3):
        scene.incidents.on_wait(away)
        assert scene.ids == []
        scene.restart()
        scene.clock.advance(120)
    assert scene.ids == []
    scene.incidents.on_wait(away)
    assert scene.ids == ["waiting:1000000"]


def test_a_wait_that_ended_while_nothing_ran_is_never_told() -> None:
    scene = Scenario()
    scene.incidents.on_wait(Transient("Kafka does not answer", system="kafka"))
    assert scene.ids == []
    scene.restart()
    scene.clock.advance(3600)
    assert scene.ids == []
    scene.incidents.on_progress()
    assert scene.ids == []


def test_a_wait_that_was_kept_before_there_was_one_form_keeps_its_id() -> None:
    scene = Scenario()
    scene.folder.files["incidents.json"] = {"waiting": {"at_us": 5, "text": "waits", "fix": "lyrebird status"}}
    scene.clock.advance(400)
    scene.restart()
    assert scene.ids == []
    scene.incidents.on_wait(Transient("Kafka does not answer", system="kafka"))
    assert scene.ids == ["waiting:5"]


def test_what_stands_in_the_log_is_told_again_from_there() -> None:
    scene = Scenario()
    scene.incidents.on_state(CaptureState(aside={"shop.t": WHY}))
    (first,) = scene.ids
    scene.restart()
    assert scene.ids == []
    scene.incidents.on_state(CaptureState(aside={"shop.t": WHY}))
    assert scene.ids == [first]
