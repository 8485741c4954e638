"""A real node of the local stack lets in who has its password, and keeps the disk free of its own."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path

import elasticsearch
import psutil
import pytest

from include.index.server.elasticsearch import connect
from include.settings.connections import Elasticsearch
from include.settings.deployment import Deployment
from tests.support.paths import ROOT
from tests.support.sites import Started, started


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with started(tmp_path_factory.mktemp("stack") / "state", "elasticsearch") as found:
        yield found


@pytest.fixture(scope="module")
def client(stack: Started) -> Iterator[elasticsearch.Elasticsearch]:
    """As the shipped deployment makes it."""
    deployment = Deployment.load(ROOT / "include" / "deployment", stack[1])
    with connect(deployment.one("elasticsearch", Elasticsearch)) as made:
        yield made.options(request_timeout=60)


def folder_of(state: Path) -> Path:
    return Path(json.loads((state / "stack.json").read_text())["data_root"]) / "elasticsearch"


def test_who_has_no_password_is_refused_and_the_shipped_deployment_has_it(
    stack: Started, client: elasticsearch.Elasticsearch
) -> None:
    client.indices.create(index="one-v1", settings={"number_of_replicas": 0})
    client.index(index="one-v1", id="1", document={"a": 1})
    url = stack[1]["LYREBIRD_ELASTICSEARCH"]
    for login in (None, ("lyrebird", "other"), ("elastic", "changeme"), ("elastic", "")):
        with elasticsearch.Elasticsearch(url, basic_auth=login) as stranger:
            patient = stranger.options(request_timeout=60)
            for ask in (functools.partial(patient.get, index="one-v1", id="1"), patient.cluster.health):
                with pytest.raises(elasticsearch.AuthenticationException):
                    ask()
    assert client.get(index="one-v1", id="1")["_source"] == {"a": 1}


def test_the_password_is_in_no_file_of_the_node_no_argument_and_no_environment(stack: Started) -> None:
    state, env, found = stack
    password = env["LYREBIRD_ELASTICSEARCH_PASSWORD"]
    assert len(password) >= 20
    config = folder_of(state) / "config"
    files = [path for path in [*config.rglob("*"), state / "log" / "elasticsearch.log"] if path.is_file()]
    assert config / "users" in files
    assert [path for path in files if password.encode() in path.read_bytes()] == []
    assert (config / "users").stat().st_mode & 0o077 == 0
    (running,) = [one for one in found.status().processes if one.pid]
    first = psutil.Process(running.pid)
    for node in (first, *first.children(recursive=True)):
        assert password not in " ".join(node.cmdline())
        assert password not in node.environ().values()


def test_watermarks_are_on_in_bytes_and_no_file_of_a_log_is_its_own(
    stack: Started, client: elasticsearch.Elasticsearch
) -> None:
    found = client.cluster.get_settings(include_defaults=True, flat_settings=True)["defaults"]
    disk = "cluster.routing.allocation.disk"
    assert found[f"{disk}.threshold_enabled"] == "true"
    assert found[f"{disk}.watermark.flood_stage"] == "512mb"
    # The collector's log is opened before the option that ends it.
    logs = folder_of(stack[0]) / "logs"
    assert {path.name: path.stat().st_size for path in logs.iterdir()} in ({}, {"gc.log": 0})
    assert "started" in (stack[0] / "log" / "elasticsearch.log").read_text()
