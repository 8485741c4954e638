"""A cluster as production has it: TLS by an authority of its own, API keys, certificates of clients, several nodes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from include.errors import Terminal
from include.index import worker
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.elasticsearch_admin import ElasticsearchAdmin
from include.settings.connections import Elasticsearch, Registry
from tests.support.tls.secure_elasticsearch import SecureNode, secure_node

MAPPINGS = {"mappings": {"dynamic": "strict", "properties": {"n": {"type": "long"}}}}
LINES = b'{"index":{"_id":"1","version":5,"version_type":"external"}}\n{"n":1}\n'


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    with secure_node(tmp_path_factory.mktemp("secure"), clients="required") as found:
        yield found


def settings(node: SecureNode, **changes: str | None) -> Elasticsearch:
    whole = {
        "url": node.url,
        "api_key": node.api_key,
        "ca_file": node.authority,
        "client_cert": node.client_cert,
        "client_key": node.client_key,
    }
    return Elasticsearch(**{**whole, **changes})  # type: ignore[arg-type]


WAYS = {
    "API key, authority": {},
    "API key, fingerprint": {"ca_file": None, "fingerprint": "of the node"},
    "user, authority": {"api_key": None, "user": "founder", "password": "of the node"},
    "several nodes, one away": {"url": "https://127.0.0.1:1, "},
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_index_is_made_filled_and_read(node: SecureNode, unique: str, way: dict[str, str | None]) -> None:
    changes = dict(way)
    if "fingerprint" in changes:
        changes["fingerprint"] = node.fingerprint
    if "password" in changes:
        changes["password"] = node.password
    if "url" in changes:
        changes["url"] = f"{changes['url']}{node.url}"
    index = ElasticsearchIndex(settings(node, **changes))
    name = f"{unique}-v1"
    try:
        index.create(name, MAPPINGS)
        answer = index.bulk(name, LINES)
        if "url" in way and answer.status == 0:
            # The client looks at a node that is away again after a second. A delivery sends the request again, too.
            answer = index.bulk(name, LINES)
        assert (answer.status, [item.status for item in answer.items or ()]) == (200, [201])
        index.refresh(name)
        found = index.get(name, "1")
        assert found is not None
        assert (found.version, found.source) == (5, {"n": 1})
    finally:
        ElasticsearchAdmin(settings(node), index.client).delete(name)
        index.close()


def test_settings_reach_a_worker_whole(node: SecureNode, unique: str) -> None:
    """As a plan reaches a worker: pickled, and the client is made there."""
    travelled = pickle.loads(pickle.dumps(settings(node)))
    assert worker._server(travelled).describe(unique) is None
    assert worker._server(travelled) is worker._server(settings(node))
    assert worker._server(settings(node, api_key="other")) is not worker._server(settings(node))


def test_a_wrong_key_is_refused_by_name_and_not_shown(node: SecureNode) -> None:
    index = ElasticsearchIndex(settings(node, api_key="bm90OnRoaXM="))
    with pytest.raises(Terminal, match="API key in section `elasticsearch`") as refused:
        index.describe("any")
    assert "bm90OnRoaXM=" not in str(refused.value)
    index.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"ca_file": None},
        {"ca_file": None, "fingerprint": "ab" * 32},
        {"client_cert": None, "client_key": None},
    ],
    ids=["unknown authority", "other fingerprint", "no certificate of the client"],
)
def test_who_is_not_trusted_is_told_at_once(node: SecureNode, changes: dict[str, str | None]) -> None:
    index = ElasticsearchIndex(settings(node, **changes))
    with pytest.raises(Terminal, match="Check ca_file, fingerprint and client_cert"):
        index.describe("any")
    index.close()


def test_a_certificate_that_is_not_on_this_host_is_named(node: SecureNode, tmp_path: Path) -> None:
    missing = str(tmp_path / "none.pem")
    with pytest.raises(Terminal, match=rf"no such file.*ca_file='{missing}'.*same path on every host"):
        ElasticsearchIndex(settings(node, ca_file=missing))


def test_no_secret_is_shown_by_settings(node: SecureNode) -> None:
    registry = Registry(url="https://registry:8081", user="u", password=SecretStr("pass-word"))
    for shown in (repr(settings(node)), str(settings(node)), repr(registry)):
        assert node.api_key not in shown
        assert "pass-word" not in shown
