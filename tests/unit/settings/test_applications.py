"""The sections `applications` and `alerts`, and the names that sections declare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from include.errors import SettingsError
from include.settings.applications import Alerts, Application
from include.settings.deployment import Deployment


def deployment(**values: Any) -> Deployment:
    return Deployment(Path("/d"), values, {})


def test_an_application_needs_only_its_entry() -> None:
    application = Application(entry="spark_apps/index_documents.py")
    assert (application.kind, application.memory, application.restarts.most) == ("spark", "512m", 5)


@pytest.mark.parametrize(
    "wrong",
    [{"entry": "/etc/passwd"}, {"entry": "spark_apps/../x.py"}, {"memory": "lots"}, {"memroy": "1g"}, {"cores": 0}],
)
def test_a_wrong_value_or_key_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Application.model_validate({"entry": "spark_apps/a.py", **wrong})


def test_alerts_name_sender_and_receivers() -> None:
    alerts = Alerts.model_validate({"from": "a@localhost", "to": ["b@localhost"]})
    assert (alerts.from_, alerts.to) == ("a@localhost", ["b@localhost"])
    with pytest.raises(ValidationError):
        Alerts.model_validate({"from": "a@localhost", "to": []})


def test_declared_names_come_sorted_and_a_section_that_holds_none_is_refused() -> None:
    assert deployment(sources={"b": {}, "a": None}).names("sources") == ["a", "b"]
    assert deployment().names("sources") == []
    assert deployment(sources=None).names("sources") == []
    with pytest.raises(SettingsError) as refused:
        deployment(sources=["a"]).names("sources")
    assert refused.value.details["path"] == "sources"
