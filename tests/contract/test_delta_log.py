"""A table's log on an object store whose certificate is of an authority of one's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pydantic import SecretStr

from include.clock import SystemClock
from include.errors import SettingsError, Transient
from include.lake.tables.columns import KEY, VERSION
from include.lake.tables.delta_log import DeltaLog, storage_options
from include.lake.tables.standing import GenerationState
from include.settings.connections import StoreSettings
from include.store.s3 import S3Store
from tests.support.tls.https_s3 import SecureBucket, https_s3

SCHEMA = pa.schema([pa.field(KEY, pa.binary()), pa.field(VERSION, pa.int64()), pa.field("id", pa.int64())])
START = GenerationState("shop.orders", "an id", 4, 2)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBucket]:
    with https_s3(tmp_path_factory.mktemp("https")) as found:
        S3Store(found.endpoint, "tables", found.access_key, found.secret_key, ca_file=found.ca_file).ensure_bucket()
        yield found


def log(secure: SecureBucket, folder: str, ca_file: str | None) -> DeltaLog:
    store = StoreSettings(
        endpoint=secure.endpoint,
        bucket="tables",
        access_key=secure.access_key,
        secret_key=SecretStr(secure.secret_key),
        ca_file=ca_file,
    )
    return DeltaLog(f"s3://tables/{folder}", storage_options(store), SystemClock())


def test_a_table_is_made_written_and_read_where_its_authority_is_named(secure: SecureBucket) -> None:
    trusted = os.environ.get("SSL_CERT_FILE")
    mine = log(secure, "named", secure.ca_file)
    assert mine.state() is None
    state = mine.create(SCHEMA, START, days=1)
    state = mine.commit(state, GenerationState("shop.orders", "an id", 4, 2, {0: 5}))
    other = log(secure, "named", secure.ca_file)
    assert other.state() == state
    assert [version for version, _, _ in other.labels()] == [1, 0]
    assert other.at(0).standing.ends == {}
    assert os.environ.get("SSL_CERT_FILE") == trusted, "what others trust is as it was"


@pytest.mark.timeout(120)
def test_a_certificate_of_a_stranger_and_a_file_that_is_not_there_are_told(
    secure: SecureBucket, tmp_path: Path
) -> None:
    with pytest.raises(Transient, match="cannot be read or written"):
        log(secure, "strange", None).state()
    with pytest.raises(SettingsError, match=r"store\.ca_file"):
        log(secure, "lost", str(tmp_path / "gone.pem")).state()
