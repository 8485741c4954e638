"""Delta's log on a real object store: of several writers of one version one succeeds, and the others are told so."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from include.clock import SystemClock
from include.errors import Fenced
from include.lake.tables.columns import KEY, VERSION
from include.lake.tables.delta_log import DeltaLog, TableState, storage_options
from include.lake.tables.standing import Standing
from include.settings.connections import ObjectStore
from include.store.s3 import S3Store

SCHEMA = pa.schema([pa.field(KEY, pa.binary()), pa.field(VERSION, pa.int64())])
WRITERS, ROUNDS = 3, 12


def test_of_writers_that_race_for_a_version_one_wins_and_its_numbers_stand(s3: Any, unique: str) -> None:
    S3Store(s3.endpoint, unique, s3.access_key, s3.secret_key).ensure_bucket()
    connection = ObjectStore(endpoint=s3.endpoint, bucket=unique, access_key=s3.access_key, secret_key=s3.secret_key)
    options = storage_options(connection)

    def opened() -> DeltaLog:
        return DeltaLog(f"s3://{unique}/tables/t/g1", options, SystemClock())

    start = Standing("t", "id", 2, 1)
    state = opened().create(SCHEMA, start, days=1)
    with ThreadPoolExecutor(WRITERS) as threads:
        for number in range(1, ROUNDS + 1):
            ready = threading.Barrier(WRITERS)

            def write(who: int, number: int = number, ready: threading.Barrier = ready) -> TableState | None:
                log = opened()
                seen = log.state()
                assert seen is not None
                ready.wait()
                try:
                    return log.commit(seen, Standing("t", "id", 2, 1, {0: number * 10 + who}, committed_ms=number))
                except Fenced:
                    return None

            made = [each for each in threads.map(write, range(WRITERS)) if each is not None]
            assert len(made) == 1
            found = opened().state()
            assert found == made[0]
            assert found.version == state.version + 1 == number
            state = found
