"""Audits of joins under load: ten in a row find nothing, and one finds what was planted, of each kind.

LYREBIRD_PROVE=1 .venv/bin/pytest tests/prove/test_join_audits.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from include.join.algorithm.versions import VECTOR_HEADER
from include.log.kafka.log import KafkaReader, KafkaWriter
from include.log.ports import Record
from include.record.codec import Decoder, Encoder
from include.record.version import from_headers, to_header
from tests.support.application_process import ApplicationProcess
from tests.support.joins.harness import JoinHarness

pytestmark = pytest.mark.prove
if os.environ.get("LYREBIRD_PROVE") != "1":
    pytest.skip("LYREBIRD_PROVE=1 pytest tests/prove/test_join_audits.py", allow_module_level=True)

_LYREBIRD = Path(sys.executable).with_name("lyrebird")
_STEADY = 20
"""Reviews below this one do not change any more once faults are planted."""


@pytest.fixture
def world(unique: str, kafka: str, registry_url: str, s3: Any, tmp_path: Path) -> Any:
    made = JoinHarness(unique, kafka, registry_url, s3, tmp_path)
    yield made
    made.close()


def judged(folder: Path, *words: str) -> Any:
    """The report of an audit; its exit code says whether it is clean."""
    environment = {"LYREBIRD_DEPLOYMENT": str(folder), "LYREBIRD_STATE": str(folder / "by-hand")}
    done = subprocess.run(
        [_LYREBIRD, *words, "--json"], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr[-3000:] + done.stdout
    report = json.loads(done.stdout)
    assert report["clean"] is (done.returncode == 0)
    return report


@contextmanager
def load(world: JoinHarness) -> Iterator[None]:
    """Reviews from `_STEADY` on come, change and go all the time, and both servers say how far they are."""
    over, failed = threading.Event(), list[BaseException]()

    def work() -> None:
        try:
            while not over.is_set():
                review = world.draw.randrange(_STEADY, 60)
                row = {"review_id": review, "business_id": world.draw.randrange(12), "stars": 1, "noise": 0}
                world.review(review, None if world.draw.random() < 0.2 else row)
                world.heartbeat()
                time.sleep(0.05)
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)
    assert not failed, failed


def steady(world: JoinHarness) -> list[Record]:
    """The newest records of outputs that do not change any more."""
    decode, newest = Decoder(world.registry.schema), dict[bytes, Record]()
    reader = KafkaReader(world.kafka)
    for partition, end in reader.end_offsets(world.second).items():
        for record in reader.read(world.second, partition, 0, end):
            newest[record.key or b""] = record
    reader.close()
    return [r for key, r in newest.items() if r.value is not None and decode(key)["review_id"] < _STEADY]


def plant(world: JoinHarness) -> None:
    """One fault of each kind, by a writer that is not the join."""
    gone, stale, altered, moved = steady(world)[:4]
    writer, decode = KafkaWriter(world.kafka, f"erring-{world.name}"), Decoder(world.registry.schema)
    schema_id = int.from_bytes((gone.key or b"")[1:5], "big")
    stranger = Encoder(schema_id, world.registry.schema(schema_id))({**decode(gone.key or b""), "review_id": 999})

    def write(record: Record, key: bytes | None, value: bytes | None, vector: bytes) -> None:
        headers = (to_header(from_headers(record.headers) + 1000), (VECTOR_HEADER, vector))
        writer.append(world.second, key, value, headers=headers)

    writer.begin()
    write(gone, gone.key, None, b"1,1")
    write(stale, stale.key, moved.value, b"1,1")
    write(altered, altered.key, moved.value, dict(altered.headers)[VECTOR_HEADER] or b"")
    write(moved, stranger, moved.value, dict(moved.headers)[VECTOR_HEADER] or b"")
    writer.commit()
    writer.close()


@pytest.mark.timeout(1800)
def test_ten_audits_under_load_are_clean_and_one_finds_what_was_planted(world: JoinHarness, tmp_path: Path) -> None:
    world.change(300)
    process = ApplicationProcess(f"join_{world.name}", tmp_path)
    try:
        world.wait(lambda: process.revived() and world.equal(), within_s=240)
        assert len(steady(world)) > 4
        with load(world):
            for number in range(10):
                for words in (("audit", "join"), ("state", "verify")):
                    report = judged(tmp_path, *words, ("reviewed", "owned")[number % 2])
                    assert report["found"] == {}, report
                    assert report["held"] == report["expected"] > 5
            plant(world)
            # The join has to speak for offsets behind what was planted.
            time.sleep(10)
            report = judged(tmp_path, "audit", "join", "owned")
            assert report["found"] == {"missing": 1, "extra": 1, "stale": 1, "altered": 1}, report
            assert "--repair" in report["next_command"]
            judged(tmp_path, "audit", "join", "owned", "--repair")
            time.sleep(10)
            assert judged(tmp_path, "audit", "join", "owned")["found"] == {}
        assert process.starts == 1
        assert process.stop() == 0
    finally:
        process.kill()
