"""Conditional writes whose connection ends without an answer: what lies there tells a refusal, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError, SSLError

from include.errors import Transient
from include.store.object_store import ObjectInfo, StoredObject
from include.store.s3 import S3Store

URL = "https://127.0.0.1:1"
LOST = [
    SSLError(endpoint_url=URL, error=OSError("EOF occurred in violation of protocol")),
    ConnectionClosedError(endpoint_url=URL),
    ReadTimeoutError(endpoint_url=URL),
]


class Silent:
    """A client that never answers a write, and what lies in the bucket."""

    def __init__(self, error: Exception, found: StoredObject | None) -> None:
        self.error, self.found = error, found

    def put_object(self, **_: Any) -> Any:
        raise self.error


@pytest.fixture
def store() -> Iterator[S3Store]:
    made = S3Store(URL, "b", "key", "secret")
    yield made
    made.close()


def lies(body: bytes, etag: str) -> StoredObject:
    return StoredObject(ObjectInfo("k", len(body), etag, {}), body)


def silent(store: S3Store, monkeypatch: pytest.MonkeyPatch, error: Exception, found: StoredObject | None) -> S3Store:
    monkeypatch.setattr(store, "_once", Silent(error, found))
    monkeypatch.setattr(store, "get", lambda _key: found)
    return store


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_another_object_there_is_a_refusal(store: S3Store, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    asked = silent(store, monkeypatch, error, lies(b"theirs", "2"))
    assert asked.put_if_absent("k", b"ours") is None
    assert asked.put_if_match("k", b"ours", "1") is None


def test_nothing_to_replace_is_a_refusal(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert silent(store, monkeypatch, LOST[0], None).put_if_match("k", b"ours", "1") is None


@pytest.mark.parametrize("found", [None, lies(b"ours", "2")], ids=["nothing", "what may be our own"])
def test_a_new_object_that_may_be_written_stays_unknown(
    store: S3Store, monkeypatch: pytest.MonkeyPatch, found: StoredObject | None
) -> None:
    with pytest.raises(Transient):
        silent(store, monkeypatch, LOST[0], found).put_if_absent("k", b"ours")


@pytest.mark.parametrize("found", [lies(b"before", "1"), lies(b"ours", "2")], ids=["unchanged", "may be our own"])
def test_a_replacement_that_may_be_written_stays_unknown(
    store: S3Store, monkeypatch: pytest.MonkeyPatch, found: StoredObject
) -> None:
    with pytest.raises(Transient):
        silent(store, monkeypatch, LOST[0], found).put_if_match("k", b"ours", "1")
