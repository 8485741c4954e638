"""`lyrebird index generations` and `drop` on a real server: what they print, and what they leave."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from include.cli.index import commands as index
from include.errors import SettingsError, Terminal
from include.index.generations.active import change_fed, read_fed
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.elasticsearch_admin import ElasticsearchAdmin
from include.settings.connections import Elasticsearch
from tests.support.documents.topic import MAPPING

DEPLOYMENT = """
kafka: {{bootstrap: "127.0.0.1:1", options: {{"socket.timeout.ms": 1000}}}}
registry: {{url: "http://127.0.0.1:1"}}
elasticsearch: {{url: "{elasticsearch}"}}
indexes:
  {name}: {{application: a, topic: {name}, entity: order, mapping: mapping.json, coerced: [order.note]}}
"""
Run = Callable[..., Result]


@pytest.fixture
def server(elasticsearch_url: str, unique: str) -> Iterator[ElasticsearchIndex]:
    settings = Elasticsearch(url=elasticsearch_url)
    found = ElasticsearchIndex(settings)
    yield found
    admin = ElasticsearchAdmin(settings, found.client)
    for number in (1, 2):
        admin.delete(f"{unique}-v{number}")
    found.close()


@pytest.fixture
def run(elasticsearch_url: str, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    (tmp_path / "all.yaml").write_text(DEPLOYMENT.format(elasticsearch=elasticsearch_url, name=unique))
    (tmp_path / "mapping.json").write_text(json.dumps(MAPPING))
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    return lambda *arguments, **more: CliRunner().invoke(index.command, arguments, **more)


def test_a_generation_that_does_not_serve_is_dropped_when_a_person_says_yes(
    run: Run, server: ElasticsearchIndex, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("include.index.deployed.DeployedIndex.ends", lambda *_: {0: 3})
    assert run("generations", unique).output == f"{unique} has no generation\nnext: lyrebird index create {unique}\n"
    assert run("create", unique).exit_code == 0
    server.create(f"{unique}-v2", {"mappings": MAPPING})
    assert change_fed(server, unique, add=[2]) == (1, 2)
    lines = run("generations", unique).output.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [[f"{unique}-v1", "serving", "0"], [f"{unique}-v2", "fed", "0"]]
    found = json.loads(run("generations", unique, "--json").output)["generations"]
    assert [(row["state"], row["waiting"]) for row in found] == [("serving", None), ("fed", None)]

    refused = run("drop", unique, "--generation", "1", "--yes")
    assert isinstance(refused.exception, Terminal)
    assert "serves readers" in str(refused.exception)
    assert run("drop", unique, "--generation", "2", input="n\n").exit_code == 1
    assert server.describe(f"{unique}-v2") is not None
    unasked = run("drop", unique, "--generation", "2", "--json")
    assert isinstance(unasked.exception, SettingsError)
    assert run("drop", unique, "--generation", "2", input="y\n").output.endswith(f"{unique}-v2 is deleted\n")
    assert server.describe(f"{unique}-v2") is None
    assert read_fed(server, unique) == (1,)
