"""`KafkaWriter`: the one transactional writer of its topics."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, Final, Literal, cast

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from typing_extensions import override

from include.clock import Clock
from include.errors import Fenced, LyrebirdError, Restart, Terminal, Transient
from include.log.kafka.errors import PURGED, ClientOptions, KafkaClient
from include.log.ports import Headers, LogWriter, Versioned
from include.log.topics import LARGEST_RECORD
from include.record.key import partition_of
from include.record.version import HEADER, to_header

__all__ = ["KafkaWriter"]

_CALL_S: Final = 5.0
_CLOSE_S: Final = 2.0
_SERVE_EVERY: Final = 100
_PLACE: Final = itemgetter(0, 4)
WriterState = Literal["idle", "open", "unknown", "closed"]
"""unknown: a commit was sent and its answer is lost, or the client does not come back from it."""
_Record = tuple[bytes | None, bytes | None, Headers, int | None]


class KafkaWriter(KafkaClient, LogWriter):
    """`LogWriter` over an idempotent transactional producer. Not for use from several threads.

    An outage shorter than `timeout_s` is waited out inside the call that meets it. After a longer one `abort` may
    raise `Restart`: the client has lost track of what the broker knows, and opening anew by itself could fence a
    process that has taken over meanwhile. Its owner, who can tell, opens another, or ends: its next start resumes.

    Partitions are computed here, as librdkafka's default partitioner differs from the Java client's.

    Args:
        bootstrap: the brokers.
        transactional_id: the writer's; opening it fences older ones of that id.
        options: librdkafka's own.
        timeout_s: seconds; bounds every call.
        transaction_timeout_s: after so many seconds without a commit the broker aborts by itself.
        clock: measures them; None for the system's.

    Raises:
        Transient: Kafka does not answer for `timeout_s`.
        Terminal: it refuses.
    """

    def __init__(
        self,
        bootstrap: str,
        transactional_id: str,
        options: ClientOptions | None = None,
        *,
        timeout_s: float = 30.0,
        transaction_timeout_s: float = 60.0,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(bootstrap, options, timeout_s=timeout_s, clock=clock)
        self._id = transactional_id
        self._partitions: dict[str, int] = {}
        self._groups: dict[str, Any] = {}
        self._ends: dict[tuple[str, int], int] = {}
        # Each partition's newest record is held back until another follows: the last one alone tells where it went.
        self._last: dict[tuple[str, int], _Record] = {}
        self._failure: LyrebirdError | None = None
        self._state: WriterState = "idle"
        self._producer: Any = self._connection.producer(
            transactional_id=transactional_id,
            transaction_timeout_ms=round(transaction_timeout_s * 1000),
            linger_ms=5,
            compression_type="lz4",
            message_max_bytes=LARGEST_RECORD,
            queue_buffering_max_kbytes=65536,
        )
        self._produce: Any = self._producer.produce
        self._unserved = 0
        self._repeat("open a writer", self._producer.init_transactions)

    @override
    def begin(self) -> None:
        if self._state != "idle":
            raise Terminal("a transaction cannot begin here", transactional_id=self._id, state=self._state)
        with self._asking("begin a transaction"):
            self._producer.begin_transaction()
        self._ends, self._last, self._failure, self._state = {}, {}, None, "open"

    @override
    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """A record with neither key nor partition is refused."""
        if self._state != "open":
            self._need_open()
        place = topic, self._partition(topic, key) if partition is None else partition
        before = self._last.get(place)
        self._last[place] = value, key, headers, timestamp_ms
        if before is not None:
            self._put(place, before, None)

    @override
    def append_all(self, records: Sequence[Versioned]) -> None:
        self._need_open()
        last = dict[tuple[str, int], int]()
        left = set(map(_PLACE, records))
        if any(partition is None for _, partition in left):
            for topic, key, value, version, partition in records:
                self.append(topic, key, value, headers=(to_header(version),), partition=partition)
            return
        # From the end on, as each partition's last record mostly stands near it.
        for number in range(len(records) - 1, -1, -1):
            if not left:
                break
            topic_partition = _PLACE(records[number])
            if topic_partition in left:
                left.remove(topic_partition)
                last[topic_partition] = number
        for topic_partition in last:
            before = self._last.pop(topic_partition, None)
            if before is not None:
                self._put(topic_partition, before, None)
        begin = 0
        for topic_partition, number in reversed(last.items()):
            self._put_all(records[begin:number])
            _, key, value, version, _ = records[number]
            self._last[topic_partition] = value, key, (to_header(version),), None
            begin = number + 1
        self._put_all(records[begin:])

    def _put_all(self, records: Sequence[Versioned]) -> None:
        """As `_put` does each, untold; without a call of ours for a record that the client takes at once."""
        produce = self._produce
        for begin in range(0, len(records), _SERVE_EVERY):
            for topic, key, value, version, partition in records[begin : begin + _SERVE_EVERY]:
                headers = [(HEADER, b"%d" % version)]
                try:
                    produce(topic, value, key, partition, headers=headers)
                except (BufferError, KafkaException, SystemError):
                    self._put((topic, cast("int", partition)), (value, key, headers, None), None)
            self._serve(0)
            self._check()

    def _put(self, place: tuple[str, int], record: _Record, told: Callable[..., None] | None) -> None:
        """Hand a record to the client; `told` hears where it went, which costs a fifth of all that a record does."""
        (topic, partition), (value, key, headers, timestamp_ms) = place, record
        more = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
        until_s: float | None = None
        while True:
            # Without `asking`, which would cost as much as the rest: this is called for every row.
            try:
                self._produce(topic, value, key, partition, told, headers=list(headers), **more)
            except BufferError as full:
                until_s = until_s or self._clock.monotonic_s() + self._timeout_s
                self._serve(0.1)
                if self._clock.monotonic_s() > until_s:
                    raise self._connection.unreachable("append", topic=topic, transactional_id=self._id) from full
                continue
            except (KafkaException, SystemError) as refused:
                self._serve(0)
                self._check()
                with self._asking("append", topic=topic, partition=partition):
                    self._raise_earlier(refused)
                    raise
            self._unserved += 1
            if self._unserved >= _SERVE_EVERY:
                self._unserved = 0
                self._serve(0)
                self._check()
            return

    def _raise_earlier(self, refused: Exception) -> None:
        """What befell an earlier record, where the client refuses this one for that alone: an attempt to commit tells.

        In the state that refuses records of an open transaction it does nothing else.
        """
        reason = refused.args[0] if isinstance(refused, KafkaException) else None
        if isinstance(reason, KafkaError) and reason.code() == KafkaError._STATE:  # noqa: SLF001 - librdkafka's own code
            self._producer.commit_transaction(_CALL_S)

    @override
    def next_offsets(self) -> dict[tuple[str, int], int]:
        self._need_open()
        last, self._last = self._last, {}
        for place, record in last.items():
            self._put(place, record, self._delivered)
        with self._asking("flush"):
            left = self._producer.flush(self._timeout_s)
        self._check()
        if left:
            raise self._connection.unreachable("flush", transactional_id=self._id, waiting=left)
        return dict(self._ends)

    @override
    def commit(self, group: str | None = None, offsets: Mapping[tuple[str, int], int] | None = None) -> None:
        """`Restart` when the answer is lost: only a new writer can find out what was committed."""
        self.next_offsets()
        if group is not None and offsets:
            positions = [TopicPartition(topic, partition, at) for (topic, partition), at in sorted(offsets.items())]
            metadata = self._group(group)
            send = self._producer.send_offsets_to_transaction
            self._bounded("commit offsets", lambda seconds: send(positions, metadata, seconds))
        try:
            self._repeat("commit", self._producer.commit_transaction)
        except Transient as error:
            if _requires_abort(error):
                self._require_ours(error)
                raise
            self._state = "unknown"
            raise Restart(
                "the answer to a commit is lost",
                fix="Is Kafka up? Once it is, what was committed is read.",
                system="kafka",
                transactional_id=self._id,
                reason=error.message,
            ) from error
        self._state = "idle"

    def _require_ours(self, error: Transient) -> None:
        """Raise `Fenced` where that is what befell a commit: the abort that has to follow tells.

        A broker that opens another writer while it ends this one's transaction answers UNKNOWN_SERVER_ERROR. Whoever
        took that for a passing trouble and opened anew would fence the one that has taken over.
        """
        try:
            self._repeat("abort", self._producer.abort_transaction, _CALL_S)
        except Fenced as fenced:
            raise fenced from error
        except LyrebirdError:
            return
        self._state = "idle"

    @override
    def abort(self) -> None:
        """After `Transient` it may be called again. `Restart` after a commit of unknown outcome."""
        if self._state in ("idle", "closed"):
            return
        if self._state == "unknown":
            raise Restart(
                "a transaction whose commit was begun cannot be aborted",
                fix="Start the process again: it reads what was committed.",
                transactional_id=self._id,
            )
        self._repeat("abort", self._producer.abort_transaction)
        self._state = "idle"

    @override
    def close(self) -> None:
        """What cannot be aborted soon is left to the broker, or to the next writer of this id."""
        if self._state == "open":
            with contextlib.suppress(LyrebirdError):
                self._repeat("abort", self._producer.abort_transaction, _CLOSE_S)
        self._state = "closed"
        self._producer = self._produce = None

    def _need_open(self) -> None:
        if self._state != "open":
            raise Terminal("no transaction is open", transactional_id=self._id, state=self._state)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            if error.code() not in PURGED and self._failure is None:
                place = {"topic": message.topic(), "partition": message.partition(), "transactional_id": self._id}
                self._failure = self._connection.error(error, "append", **place)
            return
        topic_partition, offset = (message.topic(), message.partition()), message.offset()
        if offset is None or offset < 0:
            # A repeated request whose first answer was lost: stored, but nobody knows where.
            self._failure = self._failure or self._connection.unreachable(
                "where a record went", topic=topic_partition[0]
            )
            return
        if offset >= self._ends.get(topic_partition, 0):
            self._ends[topic_partition] = offset + 1

    def _serve(self, seconds: float) -> None:
        with self._asking("append"):
            self._producer.poll(seconds)

    def _check(self) -> None:
        if self._failure is not None:
            self._require_no_newer(self._failure)
            raise self._failure

    def _partition(self, topic: str, key: bytes | None) -> int:
        if key is None:
            raise Terminal("a record without a key needs a partition", topic=topic, transactional_id=self._id)
        if topic not in self._partitions:
            with self._connection.asking("look up a topic", topic=topic):
                found = self._producer.list_topics(topic, timeout=self._timeout_s).topics[topic]
            if found.error is not None:
                raise self._connection.error(found.error, "look up a topic", topic=topic)
            self._partitions[topic] = len(found.partitions)
        return partition_of(key, self._partitions[topic])

    def _group(self, group: str) -> Any:
        """Metadata of a group that nobody joins: fencing is by the transactional id alone."""
        if group not in self._groups:
            consumer = self._connection.consumer(group)
            self._groups[group] = consumer.consumer_group_metadata()
            consumer.close()
        return self._groups[group]

    @contextmanager
    def _asking(self, what: str, **details: Any) -> Iterator[None]:
        """As the connection's; raises `Fenced` also where the client has lost it on its way."""
        try:
            with self._connection.asking(what, transactional_id=self._id, **details):
                yield
        except Restart as lost:
            self._require_no_newer(lost)
            raise

    def _require_no_newer(self, error: LyrebirdError) -> None:
        """Raise `Fenced` where that is why the client cannot go on.

        Of several that raise at once the client may lose the one that says it: a call that does nothing in an open
        transaction is refused with whatever was fatal.
        """
        if isinstance(error, Fenced):
            return
        try:
            self._producer.begin_transaction()
        except KafkaException as refused:
            told = self._connection.error(refused.args[0], "append", transactional_id=self._id)
            if isinstance(told, Fenced):
                raise told from error

    def _repeat(self, what: str, call: Callable[[float], object], within_s: float | None = None) -> None:
        """Make a call that resumes where its last try ended, until it succeeds or `within_s` (`timeout_s`) is over."""
        within_s = self._timeout_s if within_s is None else min(within_s, self._timeout_s)
        until_s = self._clock.monotonic_s() + within_s
        while True:
            try:
                call(min(_CALL_S, within_s))
            except (KafkaException, SystemError) as error:
                found = error if isinstance(error, KafkaException) else error.__cause__
                if not isinstance(found, KafkaException):
                    with self._asking(what):
                        raise
                reason: KafkaError = found.args[0]
                late = self._clock.monotonic_s() > until_s
                if reason.retriable() and not reason.txn_requires_abort() and not late:
                    self._clock.sleep(0.05)
                    continue
                raise self._connection.error(reason, what, transactional_id=self._id) from error
            return

    def _bounded(self, what: str, call: Callable[[float], object]) -> None:
        """As `_repeat`, for a call that may never return: `Restart` then, as nobody else can use this client any more.

        Given up where one try lasts although the broker answers others, or when the time is over.
        docs/adr/0002-a-commit-that-never-returns.md has the reason.
        """
        outcomes: list[BaseException | None] = []
        begun_s = self._clock.monotonic_s()

        def once(timeout_s: float) -> None:
            nonlocal begun_s
            begun_s = self._clock.monotonic_s()
            call(timeout_s)

        def repeat() -> None:
            try:
                self._repeat(what, once)
            except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
                outcomes.append(error)
            else:
                outcomes.append(None)

        # A daemon: one that never ends does not keep the process.
        thread = threading.Thread(target=repeat, name=what, daemon=True)
        thread.start()
        until_s = self._clock.monotonic_s() + self._timeout_s + 2 * _CALL_S
        thread.join(2 * _CALL_S)
        while not outcomes and self._clock.monotonic_s() < until_s:
            tried_s = begun_s
            answers = self._answers()
            thread.join(_CALL_S)
            if answers and begun_s == tried_s and self._clock.monotonic_s() - begun_s >= 3 * _CALL_S:
                break
        if not outcomes:
            self._state = "unknown"
            raise Restart(
                "a transaction cannot be committed: the client does not come back",
                fix="Is Kafka up? A new writer aborts the transaction; what was committed is read.",
                system="kafka",
                transactional_id=self._id,
                call=what,
            )
        if outcomes[0] is not None:
            raise outcomes[0]

    def _answers(self) -> bool:
        """Whether the broker answers this client."""
        try:
            self._producer.list_topics("__consumer_offsets", timeout=1.0)
        except KafkaException:
            return False
        return True


def _requires_abort(error: Transient) -> bool:
    cause = error.__cause__
    return isinstance(cause, KafkaException) and bool(cause.args[0].txn_requires_abort())
