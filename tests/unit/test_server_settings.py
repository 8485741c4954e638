"""What sections of servers may say together."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from include.settings.connections import Elasticsearch, Registry

PRINT = ":".join(["AB"] * 32)


def test_several_nodes_are_a_list_or_have_commas_between() -> None:
    nodes = ("https://a:9200", "https://b:9200")
    assert Elasticsearch.model_validate({"url": list(nodes)}).urls == nodes
    assert Elasticsearch(url="https://a:9200, https://b:9200,").urls == nodes
    assert Elasticsearch(url="http://a:9200").urls == ("http://a:9200",)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"user": "u", "api_key": "k"}, "user and api_key: which of them"),
        ({"password": "p"}, "a password belongs to a user"),
        ({"client_key": "k.pem"}, "client_key belongs to client_cert"),
        ({"ca_file": "a.pem", "fingerprint": PRINT}, "which of them"),
        ({"fingerprint": "AB:CD"}, "fingerprint"),
        ({"url": "http://a:9200", "ca_file": "a.pem"}, "ca_file is for https"),
        ({"url": "https://a:9200,http://b:9200", "client_cert": "c.pem"}, "client_cert is for https"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Elasticsearch.model_validate({"url": "https://a:9200", **given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"user": "u", "token": "t"}, "user and token: which of them"),
        ({"url": "http://r:8081", "ca_file": "a.pem"}, "ca_file is for https"),
        ({"client_key": "k.pem"}, "client_key belongs to client_cert"),
    ],
)
def test_a_registry_likewise(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Registry.model_validate({"url": "https://r:8081", **given})
