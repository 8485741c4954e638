"""What the answers of an S3 server mean: try again, or tell a person."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.stub import Stubber

from include.errors import Terminal, Transient
from include.store.object_store import NotImplementedByStore
from include.store.s3 import S3Store


@pytest.fixture
def store() -> S3Store:
    return S3Store("http://127.0.0.1:1", "bucket", "key", "secret")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("NoSuchUpload", 404),
        ("BadDigest", 400),
        ("IncompleteBody", 400),
        ("ConditionalRequestConflict", 409),
        ("InternalError", 500),
    ],
)
def test_a_write_that_was_not_carried_out_may_be_tried_again(store: S3Store, code: str, status: int) -> None:
    with Stubber(store._once) as answers:
        answers.add_client_error("put_object", code, http_status_code=status)
        with pytest.raises(Transient):
            store.put_if_absent("a", b"x")


@pytest.mark.parametrize("code", ["ExistingObjectIsDirectory", "InvalidRequest"])
def test_a_write_that_the_store_refuses_is_told(store: S3Store, code: str) -> None:
    with Stubber(store._once) as answers:
        answers.add_client_error("put_object", code, http_status_code=409)
        with pytest.raises(Terminal, match=code):
            store.put_if_absent("a", b"x")


def test_an_object_whose_folder_is_filled_while_it_is_removed_is_removed_again(store: S3Store) -> None:
    with Stubber(store._patient) as answers:
        answers.add_client_error("delete_object", "ExistingObjectIsDirectory", http_status_code=409)
        answers.add_client_error("delete_object", "NoSuchKey", http_status_code=404)
        answers.add_client_error("delete_object", "AccessDenied", http_status_code=403)
        with pytest.raises(Transient, match="Remove it again"):
            store.delete("a/b")
        store.delete("a/b")
        with pytest.raises(Terminal, match="AccessDenied"):
            store.delete("a/b")


def test_a_call_that_the_store_does_not_know_is_not_tried_again(store: S3Store) -> None:
    with Stubber(store._once) as answers:
        answers.add_client_error("put_object", "NotImplemented", http_status_code=501)
        answers.add_client_error("put_object", "", http_status_code=501)
        for _ in range(2):
            with pytest.raises(NotImplementedByStore, match=r"If-None-Match and If-Match"):
                store.put_if_absent("a", b"x")


@pytest.mark.parametrize(
    ("code", "text"), [("InvalidObjectState", "archive.*restore-object"), ("ExpiredToken", "expired.*Fetch new ones")]
)
def test_glacier_and_expired_tokens_have_their_own_next_step(store: S3Store, code: str, text: str) -> None:
    with Stubber(store._patient) as answers:
        answers.add_client_error("get_object", code, http_status_code=403)
        with pytest.raises(Terminal, match=text):
            store.get("a")


def test_without_any_credentials_a_person_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    with pytest.raises(Terminal, match=r"no credentials for the object store.*keys or a profile"):
        S3Store("http://127.0.0.1:1", "bucket").put("a", b"x")
    with pytest.raises(Terminal, match="nosuch"):
        S3Store("http://127.0.0.1:1", "bucket", profile="nosuch")
    with pytest.raises(Terminal, match="same path on every host"):
        S3Store("http://127.0.0.1:1", "bucket", "k", "s", ca_file=str(tmp_path / "none.pem"))


def sent(store: S3Store, operation: str) -> list[dict[str, Any]]:
    """What it asks for by an operation, from now on."""
    asked: list[dict[str, Any]] = []

    def told(params: dict[str, Any], **_: Any) -> dict[str, Any]:
        asked.append(params)
        return params

    for client in (store._once, store._patient):
        client.meta.events.register(f"provide-client-params.s3.{operation}", told)
    return asked


def test_encryption_and_class_go_with_each_object_and_small_ones_stay_standard() -> None:
    store = S3Store(
        "http://127.0.0.1:1", "b", "k", "s", encryption="aws:kms", kms_key="1-2", storage_class="GLACIER_IR"
    )
    puts, uploads = sent(store, "PutObject"), sent(store, "CreateMultipartUpload")
    with Stubber(store._patient) as answers:
        for _ in range(2):
            answers.add_response("put_object", {"ETag": "e"})
        answers.add_client_error("create_multipart_upload", "AccessDenied")
        store.put("small", b"x")
        store.put("large", bytes(128 << 10))
        with pytest.raises(Terminal):
            store.upload("parts", [b"x"])
    assert [each.get("StorageClass") for each in (*puts, *uploads)] == [None, "GLACIER_IR", "GLACIER_IR"]
    assert {each["ServerSideEncryption"] for each in (*puts, *uploads)} == {"aws:kms"}
    assert {each["SSEKMSKeyId"] for each in (*puts, *uploads)} == {"1-2"}


def headers(store: S3Store) -> Mapping[str, str]:
    """Of a put, as it would be sent."""
    caught: list[Any] = []

    def keep(request: Any, **_: Any) -> None:
        caught.append(request)
        raise RuntimeError

    store._patient.meta.events.register("before-send.s3.PutObject", keep)
    with pytest.raises(RuntimeError):
        store.put("k", b"body")
    return {name.lower(): str(value) for name, value in caught[0].headers.items()}


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_body_is_covered_by_the_signature_over_tls_too(scheme: str) -> None:
    plain = headers(S3Store(f"{scheme}://127.0.0.1:1", "b", "k", "s"))
    assert re.fullmatch("b?'?[0-9a-f]{64}'?", plain["x-amz-content-sha256"])
    assert not [name for name in plain if "checksum" in name or "trailer" in name]


def test_checksums_always_go_behind_the_body_over_tls() -> None:
    found = headers(S3Store("https://127.0.0.1:1", "b", "k", "s", checksums="always"))
    assert "x-amz-checksum-crc32" in found["x-amz-trailer"]


def test_a_bucket_may_stand_in_the_host() -> None:
    store = S3Store("https://s3.example.com", "lake", "k", "s", addressing="virtual")
    assert store._patient.generate_presigned_url("get_object", {"Bucket": "lake", "Key": "a"}).startswith(
        "https://lake.s3.example.com/a"
    )


def test_a_session_token_goes_with_each_request() -> None:
    found = headers(S3Store("https://127.0.0.1:1", "b", "k", "s", session_token="hours"))
    assert "hours" in found["x-amz-security-token"]
