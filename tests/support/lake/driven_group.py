"""A group of the lake on a real Kafka and a real S3 server, driven by the test itself."""

from __future__ import annotations

import io
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from include.clock import SystemClock
from include.errors import LyrebirdError
from include.lake.definition import LakeGroup
from include.lake.formats.sequence.sequence_file import SequenceFile
from include.lake.message import Message
from include.lake.parsing.definition import ParserContext
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit
from include.lake.reading.group_log import TopicIdPartition
from include.lake.reading.kafka_group import KafkaGroupLog
from include.lake.reading.kafka_ranges import KafkaRanges
from include.lake.writing.driver import Driver
from include.lake.writing.planner import TopicRecreated
from include.lake.writing.task import Outcome, Task, TaskContext, run_task
from include.lake.writing.topic_pipelines import logics_of
from include.log.kafka.log import KafkaAdmin
from include.store.s3 import S3Store

__all__ = ["DrivenGroup"]


class DrivenGroup:
    """A backup of the topics that begin with a name of the test's own; tasks run in two threads."""

    def __init__(self, unique: str, folder: Path, kafka: str, bucket: Any) -> None:
        self.unique, self.folder, self.kafka = unique, folder, kafka
        self.store = S3Store(bucket.endpoint, unique, bucket.access_key, bucket.secret_key)
        self.store.ensure_bucket()
        self.group = LakeGroup.model_validate(
            {
                "kind": "backup",
                "application": "lake",
                "topics": [f"{unique}*"],
                "prefix": "lake/raw",
                "offset_step": 1000,
                "policy": {"max_bytes": 100_000, "max_age_s": 3600},
                "rules": [{"topics": "*", "format": {"sequence": {"layout": "verbatim"}}}],
            }
        )
        self.threads = ThreadPoolExecutor(2)
        self.local = threading.local()
        self.running: list[Future[Outcome]] = []
        self.errors: list[LyrebirdError] = []

    slots, together = 2, 1

    def submit(self, *tasks: Task) -> None:
        self.running += [self.threads.submit(self._run, task) for task in tasks]

    def _run(self, task: Task) -> Outcome:
        topic = task.range.tp.topic
        logics = logics_of("raw", self.group, topic, ParserContext(self.folder))
        if not hasattr(self.local, "log"):
            self.local.log = KafkaRanges(self.kafka)
        return run_task(task, TaskContext(self.store, self.local.log, logics, self.folder, SystemClock()))

    def finished(self) -> list[Outcome]:
        done = [each for each in self.running if each.done()]
        self.running = [each for each in self.running if each not in done]
        return [each.result() for each in done]

    def on_outcome(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            self.errors.append(outcome.error)

    def on_lost(self, remade: TopicRecreated) -> None:
        raise AssertionError(remade)

    def on_gone(self, tp: TopicIdPartition, first: int, until: int) -> None:
        raise AssertionError(tp, first, until)

    def on_refused(self, tp: TopicIdPartition, error: LyrebirdError) -> None:
        self.errors.append(error)

    def on_away(self, error: LyrebirdError) -> None:
        self.errors.append(error)

    def on_back(self) -> None:
        """They answer again."""

    def flush(self) -> None:
        """As a run on a schedule does."""
        clock = SystemClock()
        driver = Driver("raw", self.group, KafkaGroupLog(self.kafka), self.store, self, clock, self, "test")
        driver.freeze()
        until_s = clock.monotonic_s() + 60
        while driver.left("flush"):
            driver.step("flush")
            clock.sleep(0.01)
            assert clock.monotonic_s() < until_s, self.errors

    def commits(self, topic: str, partition: int) -> list[Commit]:
        info = KafkaAdmin(self.kafka).describe(topic)
        assert info is not None
        chain = ChainKey(TopicKey(self.group.prefix, topic, info.named_id), 1, partition)
        return list(Chain(self.store, chain).commits())

    def stored(self, topic: str, partition: int) -> list[Message]:
        found = []
        for commit in self.commits(topic, partition):
            for file in commit.files:
                body = self.store.get(file.key)
                assert body is not None
                found += list(SequenceFile(layout="verbatim").read(io.BytesIO(body.body)))
        return found
