"""A topic of tracks and the offline detector that reads it, as the benches of event time have them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from include.clock import SystemClock
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.ports import TopicSpec
from include.store.s3 import S3Store
from tests.support.application_process import ApplicationProcess
from tests.support.servers.addresses import registry_url

__all__ = ["PARTITIONS", "Tracks", "track"]

PARTITIONS: Final = 8
_WITHIN_S: Final = 900.0
_STEP_US: Final = 60_000_000


class Tracks:
    """A topic of tracks, and the detector that reads it.

    Args:
        env: of the servers.
        folder: of the deployment and the run; made here.
        name: unique among those of these servers.
        settings: of the detector.
        more: else of its entry in `eventtime`.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        folder: Path,
        name: str,
        settings: Mapping[str, Any] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        folder.mkdir()
        self.topic, self.events, self.application = f"{name}.tracks", f"{name}.events", f"{name}_detector"
        self.status, self.folder, self.kafka = f"{name}.status", folder, env["LYREBIRD_KAFKA"]
        kafka = self.kafka
        self.reader, self.writer = KafkaReader(kafka), KafkaWriter(kafka, f"{name}-devices")
        KafkaAdmin(kafka).ensure(TopicSpec(self.topic, PARTITIONS))
        self.now_us = SystemClock().now_us() - 86_400_000_000
        self.ends: dict[int, int] = {}
        outputs: dict[str, dict[str, Any]] = {
            "status": {"topic": self.status, "compacted": True},
            "events": {"topic": self.events},
        }
        job = {
            "application": self.application,
            "process": "include.eventtime.jobs.offline.Offline",
            "sources": [{"topic": self.topic, "key": "device", "time": {"field": "at", "unit": "us"}}],
            "outputs": outputs,
            "settings": dict(settings or {}),
            **(more or {}),
        }
        values = {
            "eventtime": {"status": job},
            "applications": {
                self.application: {
                    "entry": "spark_apps/process_events.py",
                    "topics": [each["topic"] for each in outputs.values()],
                }
            },
            "kafka": {"bootstrap": kafka},
            "registry": {"url": registry_url(env)},
            "store": {
                "endpoint": env["LYREBIRD_S3"],
                "bucket": f"{name}-bench",
                "access_key": env["LYREBIRD_S3_ACCESS_KEY"],
                "secret_key": env["LYREBIRD_S3_SECRET_KEY"],
            },
        }
        (folder / "all.yaml").write_text(yaml.safe_dump(values))
        store: Any = values["store"]
        S3Store(store["endpoint"], store["bucket"], store["access_key"], store["secret_key"]).ensure_bucket()

    def values(self, devices: int) -> Iterator[bytes]:
        """A track of each device, a little later than the last ones."""
        self.now_us += _STEP_US
        for device in range(devices):
            at = self.now_us + device * 4_000_000 // devices
            yield track(device, at)

    @contextmanager
    def held(self) -> Iterator[None]:
        """What is written inside is seen behind it."""
        self.writer.begin()
        yield
        self.ends = {partition: end for (_, partition), end in self.writer.next_offsets().items()}
        self.writer.commit()

    def write(self, values: Iterable[bytes]) -> None:
        for number, value in enumerate(values):
            self.writer.append(self.topic, None, value, partition=number % PARTITIONS)

    def process(self) -> ApplicationProcess:
        """The application, started; once it has read something."""
        process = ApplicationProcess(self.application, self.folder, script="spark_apps/process_events.py")
        try:
            with self.held():
                self.write(self.values(1_000))
            self.await_all(process)
        except BaseException:
            process.kill()
            raise
        return process

    def close(self) -> None:
        self.writer.close()
        self.reader.close()

    def await_all(self, process: ApplicationProcess) -> float:
        """Until the detector has committed all; the seconds that it took."""
        begun_s = time.monotonic()
        group = f"{self.application}.{self.status}.0"
        while True:
            read = self.reader.committed(group, self.topic)
            if all(read.get(partition, 0) >= end for partition, end in self.ends.items()):
                return time.monotonic() - begun_s
            if time.monotonic() - begun_s > _WITHIN_S or not process.alive:
                raise SystemExit(f"not read within {_WITHIN_S:.0f} s: {process.tail()[-500:]}")
            time.sleep(0.2)


def track(device: int, at_us: int) -> bytes:
    """What a device sends."""
    return orjson.dumps({"device": f"device-{device:08}", "at": at_us, "battery": 50, "lat": 52.5, "lon": 13.4})
