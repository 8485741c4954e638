"""What a task finds in a process of its own is what the driver had declared, and no more and no less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from include.errors import Terminal, Transient
from include.lake.definition import LakeGroup
from include.lake.reading.group_log import TopicIdPartition
from include.lake.reading.schema_lookup import PatientRegistry
from include.lake.writing import worker
from include.lake.writing.planner import Range
from include.lake.writing.task import Outcome, Task, TaskContext
from include.lake.writing.worker import TaskPlace, work
from include.settings.connections import Kafka, Registry, StoreSettings
from include.settings.secret import REVEALED
from include.store import s3
from tests.support.lake.harness import GROUP
from tests.unit.lake.writing.test_topic_pipelines import backup

KAFKA = Kafka(bootstrap="127.0.0.1:1")
STORE = StoreSettings(endpoint="http://127.0.0.1:1", bucket="b", access_key="a", secret_key=SecretStr("s"))
TASK = Task("raw", "raw", Range(TopicIdPartition("events", "id", 0), 5, 9, "age", ""), 1, 0, 100, 10, "w")


@pytest.mark.parametrize("group", [GROUP, backup()])
def test_a_group_is_the_same_on_the_other_side(group: LakeGroup) -> None:
    place = TaskPlace.of(group, KAFKA, Registry(url="http://127.0.0.1:1"), STORE, Path("/nowhere"))
    found = worker._Settings.model_validate_json(place.settings)
    assert (found.group, found.kafka, found.store) == (group, KAFKA, STORE)
    assert found.group.model_fields_set == group.model_fields_set


def test_every_setting_of_the_store_reaches_the_client_in_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = StoreSettings(
        endpoint="https://s3.example.com",
        bucket="b",
        access_key="a",
        secret_key=SecretStr("s"),
        session_token=SecretStr("t"),
        region="eu-central-1",
        addressing="virtual",
        ca_file="/etc/authority.pem",
        encryption="aws:kms",
        kms_key="1-2",
        storage_class="GLACIER_IR",
        checksums="always",
    )
    assert whole.model_fields_set == set(StoreSettings.model_fields) - {"profile"}
    given: list[dict[str, Any]] = []
    monkeypatch.setattr(s3, "S3Store", lambda **settings: given.append(settings))
    for store in (whole, StoreSettings(endpoint="https://s3.example.com", bucket="b", profile="lake")):
        place = TaskPlace.of(GROUP, KAFKA, None, store, Path("/nowhere"))
        worker._Workshop(place)
        assert given.pop() == store.model_dump(mode="json", context=REVEALED) | {"timeout_s": 30.0}


def test_a_schema_that_the_registry_lacks_is_waited_for_as_long_as_the_group_says() -> None:
    place = TaskPlace.of(GROUP, KAFKA, Registry(url="http://127.0.0.1:1"), STORE, Path("/nowhere"))
    registry = worker._Workshop(place)._parser_context.registry
    assert isinstance(registry, PatientRegistry)
    assert registry._grace_s == 600
    declared = LakeGroup.model_validate(GROUP.model_dump(exclude_unset=True) | {"unknown_schema_s": 77})
    place = TaskPlace.of(declared, KAFKA, Registry(url="http://127.0.0.1:1"), STORE, Path("/nowhere"))
    registry = worker._Workshop(place)._parser_context.registry
    assert isinstance(registry, PatientRegistry)
    assert registry._grace_s == 77


def test_an_error_that_is_none_of_ours_names_its_place_and_stops() -> None:
    def broken(_task: Task, _parser_context: TaskContext) -> Outcome:
        raise ZeroDivisionError("in a parser")

    outcome = work(TaskPlace.of(GROUP, KAFKA, None, STORE, Path("/nowhere")), TASK, broken)
    assert isinstance(outcome.error, Terminal)
    assert "ZeroDivisionError: in a parser" in str(outcome.error)
    assert {"topic": "events", "partition": 0, "first": 5}.items() <= outcome.error.details.items()


def test_what_the_host_refuses_may_pass() -> None:
    def full(_task: Task, _parser_context: TaskContext) -> Outcome:
        raise OSError(28, "No space left on device")

    outcome = work(TaskPlace.of(GROUP, KAFKA, None, STORE, Path("/nowhere")), TASK, full)
    assert isinstance(outcome.error, Transient)
    assert "No space left" in str(outcome.error)
