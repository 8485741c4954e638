"""Secrets of Airflow's connections reach the processes that Airflow starts, which know no Airflow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from include.errors import SettingsError
from include.settings.connections import Elasticsearch, Kafka
from include.settings.deployment import Deployment
from supervision.launch import application_environment

TEXT = """\
kafka:
  bootstrap: ${conn:kafka_eu.host}:${conn:kafka_eu.port}
  options: {sasl.username: '${conn:kafka_eu.login}', sasl.password: '${conn:kafka_eu.password}'}
elasticsearch:
  url: http://search:9200
  api_key: ${conn:search.extra.api_key}
"""


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    (tmp_path / "a.yaml").write_text(TEXT, encoding="utf-8")
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    known = {"conn_type": "generic", "host": "brokers", "port": 9092, "login": "lyrebird", "password": 'p"\\: 1'}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_EU", json.dumps(known))
    monkeypatch.setenv("AIRFLOW_CONN_SEARCH", json.dumps({"conn_type": "generic", "extra": {"api_key": "abc"}}))
    return {"LYREBIRD_DEPLOYMENT": str(tmp_path)}


def test_an_application_has_the_fields_that_the_deployment_files_name(env: dict[str, str]) -> None:
    names = application_environment(env)
    found = Deployment.load(env=names)
    kafka = found.one("kafka", Kafka)
    assert kafka.bootstrap == "brokers:9092"
    assert kafka.options == {"sasl.username": "lyrebird", "sasl.password": 'p"\\: 1'}
    assert names["LYREBIRD_CONN_SEARCH_EXTRA_API_KEY"] == "abc"
    assert not [name for name in names if name.startswith("AIRFLOW")]


def test_what_a_shell_has_exported_goes_before_the_connection(env: dict[str, str]) -> None:
    names = application_environment({**env, "LYREBIRD_CONN_KAFKA_EU_HOST": "others"})
    assert Deployment.load(env=names).one("kafka", Kafka).bootstrap == "others:9092"


def test_a_connection_that_is_missing_stops_only_who_needs_it(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SEARCH")
    found = Deployment.load(env=application_environment(env))
    assert found.one("kafka", Kafka).bootstrap == "brokers:9092"
    with pytest.raises(SettingsError) as refused:
        found.one("elasticsearch", Elasticsearch)
    assert refused.value.details["connection"] == "search.extra.api_key"


def test_a_field_that_a_connection_lacks_is_named_by_who_needs_it(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_EU", json.dumps({"conn_type": "generic", "host": "brokers", "port": 1}))
    with pytest.raises(SettingsError) as refused:
        Deployment.load(env=application_environment(env)).one("kafka", Kafka)
    assert refused.value.details["connection"] == "kafka_eu.login"
