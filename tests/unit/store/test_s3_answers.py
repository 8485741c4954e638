"""What the answers of an S3 server mean: try again, or tell a person."""

from __future__ import annotations

import pytest
from botocore.stub import Stubber

from include.errors import Terminal, Transient
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
