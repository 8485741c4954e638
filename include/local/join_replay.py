"""A join over a file of changes by the real application, on servers of its own (`lyrebird join replay --engine spark`).

Inputs and output have one partition each, and nobody else writes: so versions are those of `join.replay`. Records are
written without transactions, whose markers would take offsets. A batch ends where the first input's resolved topic says
so: it is written when all records of a batch are there, and the next batch when this one is joined.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import orjson
import yaml
from confluent_kafka import KafkaError

from include.clock import Clock
from include.errors import LyrebirdError, Terminal, Transient
from include.join.algorithm.batch import JoinOutput
from include.join.algorithm.versions import vector_from_header
from include.join.config.definition import read_join
from include.join.config.deployed import declared_joins
from include.join.config.fields import field_plan
from include.join.config.schema import InputSchema, check_join_keys
from include.join.replay import JoinReplay, ReplayedChange, of_batch
from include.join.replay_schemas import replay_schemas
from include.join.status import join_status
from include.local import process
from include.local.process import Launch
from include.local.sections import sections
from include.local.stack import Stack
from include.log import topics
from include.log.kafka.errors import Connection
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.ports import Record
from include.log.registry.confluent import ConfluentRegistry
from include.log.resolved import ResolvedRecord
from include.metrics.progress import read_file
from include.record.codec import Decoder, Encoder
from include.record.position import SourcePosition
from include.record.version import from_headers, number_of, to_header
from include.settings.connections import Kafka, Registry, StoreSettings
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT, checkout
from include.store.s3 import store_of

__all__ = ["replay_on_spark"]

_NAME: Final = "replay"
"""Of the join, its application, the bucket and the source whose resolved records end batches."""
_GUARDIAN: Final = PROJECT_ROOT / "plugins" / "supervision" / "guardian.py"
_BATCH_WITHIN_S: Final = 600.0
_STOPS_WITHIN_S: Final = 90.0
_LOOK_EVERY_S: Final = 0.1
_FLUSH_EVERY: Final = 10_000
_FLUSH_WITHIN_S: Final = 60.0
# The registry has only begun, beside JVMs that take what the machine has, and nobody asks it a second time here.
_REGISTRY_S: Final = 60.0


def replay_on_spark(
    config: Path,
    file: Path,
    changes: Mapping[int, ReplayedChange],
    batch: int,
    clock: Clock,
    *,
    say: Callable[[str], None] = lambda _line: None,
    tell: Callable[[int, int], None] = lambda _done, _all: None,
) -> JoinReplay:
    """Join the changes, so many in each batch; servers, application and their files are gone when this returns.

    Args:
        config: the join's file; the topics that it names are not looked at.
        file: where the changes stand.
        changes: by line.
        batch: at most the join's `records_per_batch`.
        clock: for waiting.
        say: hears of what is started.
        tell: hears how many changes are joined, of how many.

    Raises:
        SettingsError: changes and file do not fit each other, or this is no checkout; before anything starts.
        Terminal: a server or the application ended, or a record was refused.
        Transient: a server does not answer, or a batch takes longer than ten minutes.
    """
    checkout()
    places, join = read_join(config)
    schemas = replay_schemas(file, changes, join)
    field_plan(places, join, [each.fields for each in schemas])
    check_join_keys(places, join, schemas)
    names = [topics.declared(f"{topics.declared(join.output.topic)}.input{i}") for i in range(len(schemas))]
    with tempfile.TemporaryDirectory(prefix="lyrebird-replay-") as name:
        state = Path(name) / "state"
        stack = Stack(state, free_ports=True, clock=clock, say=say)
        try:
            env = stack.up(["kafka", "registry", "s3"])
            deployment = _deployment(Path(name) / "deployment", places, join.output.topic, names, env)
            with closing(store_of(deployment.one("store", StoreSettings))) as store:
                store.ensure_bucket()
            inputs = _Inputs(deployment, names, schemas, clock)
            say("the application starts")
            with _Application(state, deployment.folder, env, clock).running() as application:
                found = _joined(deployment, application, inputs, list(changes.values()), batch, tell)
            application.require_clean_end()
            return found
        finally:
            stack.down()


def _deployment(
    folder: Path, places: Deployment, output: str, names: Sequence[str], env: Mapping[str, str]
) -> Deployment:
    """Deployment files that host the join, which reads topics of these names and is else what its file says."""
    given = [{key: value for key, value in each.items() if key != "schema_id"} for each in places.filled("join")]
    join = {**places.filled(), "join": [{**each, "topic": name} for each, name in zip(given, names, strict=True)]}
    values = {
        **sections(env, _NAME),
        "joins": {_NAME: {"application": _NAME, "file": f"joins/{_NAME}.yaml", "partitions": 1}},
        "applications": {_NAME: {"entry": "spark_apps/join.py", "topics": [output]}},
    }
    (folder / "joins").mkdir(parents=True)
    (folder / "joins" / f"{_NAME}.yaml").write_text(yaml.safe_dump(join, sort_keys=False), encoding="utf-8")
    (folder / "all.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return Deployment.load(folder)


def _joined(
    deployment: Deployment,
    application: _Application,
    inputs: _Inputs,
    changes: Sequence[ReplayedChange],
    batch: int,
    tell: Callable[[int, int], None],
) -> JoinReplay:
    """What the application makes of each batch, all of it joined before the next one is written."""
    kafka, join = deployment.one("kafka", Kafka), declared_joins(deployment)[_NAME]
    admin = KafkaAdmin(kafka.bootstrap, kafka.options)
    registry = ConfluentRegistry(deployment.one("registry", Registry), timeout_s=_REGISTRY_S)
    decode, outputs, told, begin = Decoder(registry.schema), list[JoinOutput](), Counter[str](), 0
    with closing(registry), closing(KafkaReader(kafka.bootstrap, kafka.options)) as reader:
        for number, first in enumerate(range(0, len(changes), batch)):
            inputs.write(changes[first : first + batch])
            counts = application.await_batch(number, lambda: not join_status(join, reader, admin).behind)
            told.update({name: counts[name] for name in ("held", "stale")})
            end = reader.end_offsets(join.topic)[0]
            outputs += of_batch(_output(each, decode) for each in reader.read(join.topic, 0, begin, end))
            begin = end
            tell(min(first + batch, len(changes)), len(changes))
    return JoinReplay(outputs, told["held"], told["stale"])


def _output(record: Record, decode: Decoder) -> JoinOutput:
    key, value = (None if each is None else orjson.dumps(decode(each)) for each in (record.key, record.value))
    return JoinOutput(key or b"", value, number_of(from_headers(record.headers)), vector_from_header(record.headers))


class _Inputs:
    """The topics that the application reads, and their only writer."""

    def __init__(
        self, deployment: Deployment, names: Sequence[str], schemas: Sequence[InputSchema], clock: Clock
    ) -> None:
        # Errors alone: a broker that has just begun tells of more.
        kafka = deployment.one("kafka", Kafka)
        self._connection = Connection(kafka.bootstrap, {**kafka.options, "log_level": 3})
        self._names, self._clock, self._resolved = names, clock, topics.resolved(names[0])
        specs = [topics.document_spec(name, 1) for name in (*names, self._resolved)]
        KafkaAdmin(kafka.bootstrap, kafka.options).ensure_all(specs)
        with closing(ConfluentRegistry(deployment.one("registry", Registry), timeout_s=_REGISTRY_S)) as registry:
            self._encoders = [
                tuple(
                    Encoder(registry.register(f"{name}-{part}", schema), schema)
                    for part, schema in (("key", schemas[i].key), ("value", schemas[i].row))
                )
                for i, name in enumerate(names)
            ]
        self._producer = self._connection.producer(enable_idempotence=True, message_max_bytes=topics.LARGEST_RECORD)
        self._ends, self._batches = Counter[str](), 0
        self._failure: LyrebirdError | None = None

    def write(self, changes: Iterable[ReplayedChange]) -> None:
        """Write a batch, then that it is complete."""
        for change in changes:
            name, (key, value) = self._names[change.input], self._encoders[change.input]
            row = None if change.value is None else value(change.value)
            self._append(name, key(change.key), row, change.version)
        self._flush()
        self._batches += 1
        at = {"flavour": "mariadb", "gtids": f"0-1-{self._batches}", "file": "replay.1", "pos": self._batches}
        position = SourcePosition.from_json({**at, "commit_us": self._clock.now_us()})
        first = self._names[0]
        said = ResolvedRecord(_NAME, self._batches, self._batches, position, {(first, 0): self._ends[first]}, full=True)
        self._append(self._resolved, said.key, said.value(), said.version)
        self._flush()

    def _append(self, topic: str, key: bytes, value: bytes | None, version: int) -> None:
        self._producer.produce(topic, value, key, 0, self._delivered, headers=[to_header(version)])
        self._ends[topic] += 1
        if self._ends[topic] % _FLUSH_EVERY == 0:
            self._flush()

    def _flush(self) -> None:
        left = self._producer.flush(_FLUSH_WITHIN_S)
        if self._failure is not None:
            raise self._failure
        if left:
            raise self._connection.unreachable("flush", waiting=left)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failure = self._connection.error(error, "append", topic=message.topic())


class _Application:
    """`spark_apps/join.py` under a guardian, which ends it some minutes after this process, should that be killed."""

    def __init__(self, state: Path, deployment: Path, env: Mapping[str, str], clock: Clock) -> None:
        self._folder, self._clock = state / "run" / _NAME, clock
        self._folder.mkdir(parents=True)
        own = {"LYREBIRD_DEPLOYMENT": str(deployment), "LYREBIRD_SPARK_MASTER": "local[2]"}
        self._env = {**os.environ, **env, **own, "PYTHONPATH": str(PROJECT_ROOT)}
        self._guardian: subprocess.Popen[bytes] | None = None

    @contextmanager
    def running(self) -> Iterator[_Application]:
        """From its start until it has been asked to end, and has ended."""
        options = ["--folder", str(self._folder), "--token", uuid.uuid4().hex, "--owner", _NAME]
        words = [sys.executable, "spark_apps/join.py", "--application", _NAME]
        argv = (sys.executable, "-I", "-S", str(_GUARDIAN), *options, "--", *words)
        log = str(self._folder / "guardian.log")
        self._guardian = process.start(Launch("guardian", argv, self._env, str(PROJECT_ROOT), log))
        try:
            yield self
        finally:
            leader = process.identify(self._guardian.pid)
            process.stop([(leader, _STOPS_WITHIN_S)] if leader else [], self._clock)
            self._guardian.wait()

    def await_batch(self, number: int, joined: Callable[[], bool]) -> Mapping[str, Any]:
        """Returns what the application tells of its batch of this number, once that is over and `joined` holds."""
        until_s = self._clock.monotonic_s() + _BATCH_WITHIN_S
        told = self._read("progress.json")
        while told.get("batch", -1) < number or not joined():
            if self._guardian is None or self._guardian.poll() is not None:
                raise self._ended()
            if self._clock.monotonic_s() > until_s:
                waits = told.get("waiting_for", "")
                raise Transient(
                    "a batch is not joined", batch=number, waited_s=_BATCH_WITHIN_S, waits=waits, log=self._tail()
                )
            (self._folder / "lease").touch()
            self._clock.sleep(_LOOK_EVERY_S)
            told = self._read("progress.json")
        for incident in told["incidents"]:
            if incident["kind"] == "refused":
                raise Terminal("the join refused changes", text=incident["text"], log=self._tail())
        return told

    def require_clean_end(self) -> None:
        """Raises `Terminal` where it ended with an error."""
        if self._read("exit.json").get("rc") != 0:
            raise self._ended()

    def _ended(self) -> Terminal:
        return Terminal(
            "the application has ended",
            exit_code=self._read("exit.json").get("rc"),
            log=self._tail(),
            fix="Mend what the last line of its log names; where it was the machine that was too busy, run it again. "
            "With `--engine python` the same changes need no server.",
        )

    def _tail(self) -> str:
        return " | ".join(process.tail(self._folder / "app.log", 5)) or "its log is empty"

    def _read(self, name: str) -> Mapping[str, Any]:
        return read_file(self._folder / name)
