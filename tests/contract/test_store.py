"""The object store's port: the double in memory and a real S3 server, over HTTP and HTTPS, give the same answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from include.errors import Terminal, Transient
from include.local.ports import free_port
from include.store.memory import MemoryStore
from include.store.object_store import PART_BYTES, ObjectStore
from include.store.race_probe import race
from include.store.s3 import S3Store
from tests.support.faults.unsound_stores import IgnoresConditions, KnowsNoConditions, Races
from tests.support.tls.https_s3 import SecureBucket, https_s3

Opener = Callable[[], ObjectStore]


@pytest.fixture(scope="module")
def https(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBucket]:
    with https_s3(tmp_path_factory.mktemp("https")) as server:
        yield server


@pytest.fixture(params=["memory", "http", "https", "https-always"])
def opener(request: pytest.FixtureRequest, unique: str) -> Iterator[Opener]:
    """Opens further clients of the one bucket, which is empty at first."""
    if request.param == "memory":
        memory = MemoryStore()
        yield lambda: memory
        return
    server = request.getfixturevalue("s3" if request.param == "http" else "https")
    more: dict[str, Any] = {"page_keys": 5, "ca_file": getattr(server, "ca_file", None)}
    if request.param == "https-always":
        # Another encoding of bodies: in chunks, with the checksum behind them.
        more["checksums"] = "always"

    def client() -> S3Store:
        return S3Store(server.endpoint, unique, server.access_key, server.secret_key, **more)

    first = client()
    first.ensure_bucket()
    first.ensure_bucket()
    yield client
    for each in list(first.list("")):
        first.delete(each.key)


@pytest.fixture
def store(opener: Opener) -> ObjectStore:
    return opener()


def test_an_object_comes_back_with_its_metadata(store: ObjectStore) -> None:
    info = store.put("a/b c+ü", b"body", metadata={"first": "17"})
    found = store.get("a/b c+ü")
    assert found is not None
    assert found.body == b"body"
    assert found.info == info == store.head("a/b c+ü")
    assert (info.size_bytes, info.metadata) == (4, {"first": "17"})


def test_what_is_not_there_is_none(store: ObjectStore) -> None:
    assert store.get("none") is None
    assert store.head("none") is None
    store.delete("none")


def test_a_put_replaces_and_changes_the_etag(store: ObjectStore) -> None:
    before = store.put("k", b"1")
    after = store.put("k", b"2")
    assert before.etag != after.etag
    assert store.head("k") == after


def test_only_the_first_put_if_absent_succeeds(store: ObjectStore) -> None:
    first = store.put_if_absent("k", b"1", metadata={"by": "one"})
    assert first is not None
    assert store.put_if_absent("k", b"2") is None
    found = store.get("k")
    assert found is not None
    assert (found.body, found.info.metadata) == (b"1", {"by": "one"})
    store.delete("k")
    assert store.put_if_absent("k", b"3") is not None


def test_put_if_match_replaces_only_what_was_seen(store: ObjectStore) -> None:
    seen = store.put("k", b"1")
    changed = store.put_if_match("k", b"2", seen.etag)
    assert changed is not None
    assert store.put_if_match("k", b"3", seen.etag) is None
    assert store.put_if_match("none", b"3", seen.etag) is None
    found = store.get("k")
    assert found is not None
    assert (found.body, found.info.etag) == (b"2", changed.etag)


def test_an_upload_in_parts_is_one_object(store: ObjectStore) -> None:
    parts = [b"a" * PART_BYTES, b"b" * PART_BYTES, b"c"]
    info = store.upload("big", iter(parts), metadata={"records": "3"})
    found = store.get("big")
    assert info is not None
    assert found is not None
    assert found.body == b"".join(parts)
    assert found.info == info


def test_an_upload_without_parts_is_an_empty_object(store: ObjectStore) -> None:
    store.upload("empty", [])
    found = store.get("empty")
    assert found is not None
    assert found.body == b""


def test_a_part_that_is_too_small_is_refused(store: ObjectStore) -> None:
    with pytest.raises(Terminal):
        store.upload("k", [b"small", b"last"])
    assert store.get("k") is None


def test_uploads_obey_conditions(store: ObjectStore) -> None:
    first = store.upload("k", [b"1"], if_absent=True)
    assert first is not None
    assert store.upload("k", [b"2"], if_absent=True) is None
    assert store.upload("k", [b"3"], if_match='"another"') is None
    assert store.upload("none", [b"3"], if_match=first.etag) is None
    assert store.upload("k", [b"4"], if_match=first.etag) is not None
    found = store.get("k")
    assert found is not None
    assert found.body == b"4"


def test_an_upload_that_breaks_off_leaves_nothing(store: ObjectStore) -> None:
    def parts() -> Iterator[bytes]:
        yield b"x" * PART_BYTES
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.upload("k", parts())
    assert store.get("k") is None
    assert list(store.list("")) == []


def test_listings_are_sorted_cut_by_prefix_and_start(store: ObjectStore) -> None:
    for key in ("p/2", "p/10", "p/1", "q/1", "p/1.x", "o"):
        store.put(key, key.encode())
    assert [each.key for each in store.list("p/")] == ["p/1", "p/1.x", "p/10", "p/2"]
    assert [each.key for each in store.list("p/", start_after="p/1")] == ["p/1.x", "p/10", "p/2"]
    assert [each.key for each in store.list("none")] == []
    (found,) = store.list("q/")
    head = store.head("q/1")
    assert head is not None
    assert (found.size_bytes, found.etag) == (head.size_bytes, head.etag)


def test_a_listing_goes_over_many_pages(store: ObjectStore) -> None:
    keys = [f"n/{number:020d}" for number in range(23)]
    for key in keys:
        store.put(key, b"")
    assert [each.key for each in store.list("n/")] == keys


def test_conditional_writes_have_one_winner_among_many(opener: Opener, unique: str) -> None:
    verdict = race([opener() for _ in range(8)], unique, rounds=10)
    assert verdict.broken == ()
    assert verdict.honest
    assert [each.key for each in opener().list("_probe/")] == ["_probe/kept"]


def test_races_beside_each_other_do_not_take_each_others_folders_away(opener: Opener, unique: str) -> None:
    with ThreadPoolExecutor(3) as pool:
        verdicts = pool.map(lambda name: race([opener(), opener()], f"{unique}-{name}", rounds=20), range(3))
        assert [verdict.broken for verdict in verdicts] == [(), (), ()]


@pytest.mark.parametrize("dishonest", [IgnoresConditions, Races, KnowsNoConditions])
def test_a_store_that_does_not_honour_conditions_is_found_out(
    dishonest: Callable[[], MemoryStore], unique: str
) -> None:
    verdict = race([dishonest()] * 4, unique, rounds=3)
    assert not verdict.honest
    found = {problem.partition(",")[0] for problem in verdict.broken}
    assert found == {"put_if_absent", "upload_if_absent", "put_if_match"}


def test_a_store_that_races_obeys_whoever_comes_alone() -> None:
    store = Races()
    assert store.put_if_absent("a", b"1") is not None
    assert store.put_if_absent("a", b"2") is None
    assert store.put_if_match("a", b"2", "another") is None


def test_a_store_that_is_away_is_named_with_the_next_step(unique: str) -> None:
    nowhere = S3Store(f"http://127.0.0.1:{free_port()}", unique, "a", "b", timeout_s=1)
    with pytest.raises(Transient, match=r"does not answer.*127\.0\.0\.1.*lyrebird status"):
        nowhere.put_if_absent("k", b"v")


def test_a_bucket_that_is_missing_and_a_wrong_secret_are_refused(request: pytest.FixtureRequest, unique: str) -> None:
    server = request.getfixturevalue("s3")
    with pytest.raises(Terminal, match=unique):
        S3Store(server.endpoint, unique, server.access_key, server.secret_key).put("k", b"v")
    with pytest.raises(Terminal, match="refuses"):
        S3Store(server.endpoint, unique, server.access_key, "wrong").put("k", b"v")


def test_a_certificate_of_an_unknown_authority_is_refused_with_the_setting_that_names_it(
    https: SecureBucket, unique: str
) -> None:
    store = S3Store(https.endpoint, unique, https.access_key, https.secret_key)
    with pytest.raises(Terminal, match=r"certificate is not trusted.*ca_file"):
        store.put("k", b"v")


def test_keys_come_from_a_profile_where_the_deployment_names_none(
    https: SecureBucket, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = f"aws_access_key_id = {https.access_key}\naws_secret_access_key = {https.secret_key}\n"
    (tmp_path / "credentials").write_text(f"[lake]\n{keys}", encoding="utf-8")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    store = S3Store(https.endpoint, unique, profile="lake", ca_file=https.ca_file)
    store.ensure_bucket()
    store.put("k", b"v")
    found = store.get("k")
    assert found is not None
    assert found.body == b"v"
    store.delete("k")
