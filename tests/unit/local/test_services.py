from pathlib import Path

import pytest
from click.testing import CliRunner

from include.cli import stack
from include.clock import ManualClock
from include.errors import SettingsError
from include.local import ports, status
from include.local.recipes import recipe
from include.local.services import SERVICES, Port, select, service
from include.outbox.folder import Mail, OutboxState, outbox


def test_names_ports_and_processes_are_unique() -> None:
    for values in (
        [row.name for row in SERVICES],
        [port.name for row in SERVICES for port in row.ports],
        [port.default for row in SERVICES for port in row.ports],
        [name for row in SERVICES for name in row.processes],
    ):
        assert len(values) == len(set(values))


def test_every_row_has_a_recipe() -> None:
    for row in SERVICES:
        assert {"prepare", "ready", "finish"} <= set(dir(recipe(row)))


def test_the_servers_together_leave_room_within_six_gigabytes() -> None:
    assert sum(row.memory_mb for row in SERVICES) < 3000


def test_selection_keeps_the_order_of_the_table() -> None:
    assert [row.name for row in select(["registry", "kafka"])] == ["kafka", "registry"]
    assert [row.name for row in select()] == [row.name for row in SERVICES if not row.optional]
    assert "airflow" not in {row.name for row in select(without=["airflow"])}


def test_an_optional_service_is_started_only_where_it_is_named() -> None:
    optional = [row.name for row in SERVICES if row.optional]
    assert optional == ["mariadb-ads"]
    assert not {row.name for row in select(without=["airflow"])} & set(optional)
    assert [row.name for row in select(["mariadb-ads", "mariadb"])] == ["mariadb", "mariadb-ads"]


def test_a_server_that_nobody_asked_for_is_not_told_to_be_down(tmp_path: Path) -> None:
    shown = {process.service for process in status.read(tmp_path, ManualClock()).processes}
    assert shown == {row.name for row in select()}


def test_mails_that_wait_are_told_with_their_age(tmp_path: Path) -> None:
    box = outbox(tmp_path)
    assert status.read(tmp_path, ManualClock()).mails == OutboxState()
    box.put(Mail("i", "a@x", ("b@x", "c@x"), "s", "h"), 7)
    box.refuse(box.waiting()[0], "550 no such user")
    box.note_problem("timed out")
    mails = status.read(tmp_path, ManualClock()).to_json()["mails"]
    assert (mails["waiting"], mails["refused"], mails["problem"]) == (1, 1, "timed out")
    assert mails["since_us"] > 0
    shown = CliRunner().invoke(stack.status, env={"LYREBIRD_STATE": str(tmp_path)}).output
    assert "Mails that wait: 1, the oldest for" in shown
    assert f"refused: 1, in {tmp_path}/outbox/refused/" in shown


def test_a_second_instance_differs_from_its_like_in_ports_and_processes_alone() -> None:
    second = [row for row in SERVICES if row.like]
    assert second
    for row in second:
        first = service(row.program)
        assert (row.artefact, row.version, row.image) == (first.artefact, first.version, first.image)
        assert recipe(row) is recipe(first)


def test_an_unknown_service_is_refused_with_the_list() -> None:
    with pytest.raises(SettingsError, match=r"'kafak'.*mariadb, mariadb-ads, kafka, registry"):
        service("kafak")


def test_a_port_is_overridden_by_its_variable() -> None:
    port = Port("kafka", 29092)
    assert port.variable == "LYREBIRD_PORT_KAFKA"
    assert ports.chosen(port, {}) == 29092
    assert ports.chosen(port, {"LYREBIRD_PORT_KAFKA": "9092"}) == 9092


@pytest.mark.parametrize("text", ["kafka", "0", "65536", "-1"])
def test_a_port_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="LYREBIRD_PORT_KAFKA"):
        ports.chosen(Port("kafka", 29092), {"LYREBIRD_PORT_KAFKA": text})
