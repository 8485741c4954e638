"""Makes our errors of Kafka's, configures its clients, and hears what they report."""

# ruff: noqa: SLF001
# librdkafka names the codes that are its own, not the broker's, with an underscore in front.

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from include.clock import Clock, SystemClock
from include.errors import Fenced, LyrebirdError, Restart, Terminal, Transient

__all__ = ["AT_END", "LEADERLESS", "NOT_HELD", "PURGED", "UNKNOWN_TOPIC", "ClientOptions", "Connection", "KafkaClient"]

ClientOptions = Mapping[str, str | int | bool]
"""Configuration of librdkafka by its own names (`security.protocol`, …); it wins over ours."""

LOGGER: Final = logging.getLogger("lyrebird.kafka")
# One line for each failed attempt to connect, many a second: the error that follows says it once.
LOGGER.addFilter(lambda record: not record.getMessage().startswith("FAIL "))
_FENCED: Final = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.TRANSACTION_COORDINATOR_FENCED,
}
AT_END: Final = KafkaError._PARTITION_EOF
PURGED: Final = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
NOT_HELD: Final = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
# Of a topic that was made just now, or while a broker that has come back finds its way to the newest metadata.
LEADERLESS: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
    }
)
UNKNOWN_TOPIC: Final = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
_DENIED: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,
}
_UNREACHABLE: Final = {
    KafkaError._TIMED_OUT,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError.REQUEST_TIMED_OUT,
}
# Refusals that the same bytes, name or number meets again.
_REFUSED: Final = {
    *NOT_HELD,
    KafkaError.INVALID_RECORD,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_TRANSACTION_TIMEOUT,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.POLICY_VIOLATION,
    KafkaError._STATE,
    KafkaError._INVALID_ARG,
    KafkaError._CONFLICT,
}


# Shorter ones are no secrets, and stand in many words.
_LEAST: Final = 4


def _without_values(reason: str, options: ClientOptions) -> str:
    """What librdkafka says of an option that it refuses, without the value that it may repeat."""
    values = (value for value in options.values() if isinstance(value, str) and len(value) >= _LEAST)
    for value in sorted(values, key=len, reverse=True):
        reason = reason.replace(value, "…")
        # It cuts off what is longer than its buffer.
        begun = next((size for size in range(len(value) - 1, _LEAST - 1, -1) if reason.endswith(value[:size])), 0)
        reason = f"{reason[:-begun]}…" if begun else reason
    return reason


class Connection:
    """Configuration for clients of one cluster, the last thing that they heard of it, and its errors as ours."""

    def __init__(self, bootstrap: str, options: ClientOptions | None = None) -> None:
        self.bootstrap = bootstrap
        self._options = dict(options or {})
        self._heard, self._login_refused = "", False
        self._admins: weakref.WeakSet[Any] = weakref.WeakSet()

    def configuration(self, **ours: str | int | bool) -> dict[str, Any]:
        """For a client's constructor; keys of `ours` are librdkafka's with `_` for the dot."""
        named = {name.replace("_", "."): value for name, value in ours.items()}
        return {
            "bootstrap.servers": self.bootstrap,
            "reconnect.backoff.max.ms": 2000,
            "socket.keepalive.enable": True,
            "topic.metadata.refresh.interval.ms": 60_000,
            **named,
            **self._options,
            "error_cb": self._hear,
            "logger": LOGGER,
        }

    def consumer(
        self, group: str, on_commit: Callable[[Any, Any], None] | None = None, **ours: str | int | bool
    ) -> Any:
        """One of committed records that does not join its group; what it commits to it is told to `on_commit`."""
        usual: dict[str, str | int | bool] = {"isolation_level": "read_committed", "enable_auto_commit": False}
        hears = {"on_commit": on_commit} if on_commit else {}
        with self.asking("make a reader", group=group):
            settings = self.configuration(group_id=group, **{**usual, "auto_offset_reset": "error", **ours})
            return Consumer({**settings, **hears})

    def range_consumer(self, group: str, *, fetch_wait_max_ms: int) -> Any:
        """A `consumer` that tells where partitions end, and is soon ready for the next ranges."""
        return self.consumer(
            group,
            enable_partition_eof=True,
            allow_auto_create_topics=False,
            check_crcs=True,
            fetch_wait_max_ms=fetch_wait_max_ms,
            fetch_queue_backoff_ms=20,
            fetch_error_backoff_ms=100,
            queued_max_messages_kbytes=16384,
        )

    def producer(self, **ours: str | int | bool) -> Any:
        """Of keys and values in bytes."""
        with self.asking("make a writer"):
            return Producer(self.configuration(**ours))

    def admin(self) -> Any:
        """Asks and changes the cluster."""
        # Not at the top: Spark's workers only read.
        from confluent_kafka.admin import AdminClient

        with self.asking("make an admin client"):
            made = AdminClient(self.configuration())
        self._admins.add(made)
        return made

    def _hear(self, error: KafkaError) -> None:
        LOGGER.debug("kafka client: %s", error)
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self._heard:
            return  # which comes behind the reason
        self._heard, self._login_refused = error.str(), error.code() == KafkaError._AUTHENTICATION

    def unreachable(self, what: str, **details: Any) -> Transient:
        """The cluster did not answer in time, or not to this login: a broker that has just begun may know no user."""
        for admin in list(self._admins):
            admin.poll(0)  # or it tells nothing
        reason = {"reason": self._heard} if self._heard else {}
        problem, fix = "Kafka does not answer", "Is Kafka up? See `lyrebird status`."
        if self._login_refused:
            problem, fix = "Kafka refuses the login", "Check user and password of `kafka` in the deployment files."
        elif not any(name.startswith("sasl.") for name in self._options):
            fix = "Is Kafka up (`lyrebird status`)? Does it want a login, which `kafka` in the deployment files lacks?"
        return Transient(
            f"{problem}: {what}",
            fix=fix,
            system="kafka",
            bootstrap=self.bootstrap,
            **details,
            **reason,
        )

    def error(self, error: KafkaError, what: str, **details: Any) -> LyrebirdError:
        """Our error for Kafka's; `what` was being done, `details` are the place."""
        code, reason = error.code(), error.str() or error.name()
        if code == KafkaError._INVALID_ARG:
            reason = _without_values(reason, self._options)
        coordinates = {"system": "kafka", "bootstrap": self.bootstrap, **details, "reason": reason}
        if code in _FENCED:
            return Fenced(
                f"another process has taken over ({what})",
                fix="This one ends; look for a second instance if none was meant to run.",
                **coordinates,
            )
        if code in UNKNOWN_TOPIC:
            return Terminal(
                f"topic does not exist ({what})", fix="Does what writes it run? See `lyrebird status`.", **coordinates
            )
        if code in _DENIED:
            return Terminal(
                f"Kafka refuses access ({what})",
                fix="Check `kafka` in the deployment files and its ACLs.",
                **coordinates,
            )
        if error.fatal():
            return Restart(
                f"the Kafka client cannot go on ({what})",
                fix="A new writer resumes: start the process again if it ends.",
                **coordinates,
            )
        if code in _REFUSED and not error.retriable():
            return Terminal(
                f"Kafka refuses this ({what})", fix="See the reason; trying again cannot help.", **coordinates
            )
        if code in _UNREACHABLE:
            return self.unreachable(what, **details)
        return Transient(f"Kafka failed ({what})", fix="Is Kafka up? See `lyrebird status`.", **coordinates)

    @contextmanager
    def asking(self, what: str, **details: Any) -> Iterator[None]:
        """Calls to the client inside raise our errors."""
        try:
            yield
        except KafkaException as error:
            # The client's own error repeats the value of an option, which a trace would show.
            cause = None if error.args[0].code() == KafkaError._INVALID_ARG else error
            raise self.error(error.args[0], what, **details) from cause
        except TimeoutError as error:
            raise self.unreachable(what, **details) from error
        except SystemError as error:
            # The client raises a fatal error inside whatever callback runs, which makes this of it.
            if isinstance(error.__cause__, KafkaException):
                raise self.error(error.__cause__.args[0], what, **details) from error
            # Or it loses it on its way, and says that there was none: seen once, in a writer that had been fenced.
            raise Restart(
                f"Kafka's client ended a call without an answer ({what})",
                fix="A new writer resumes: start the process again if it ends.",
                system="kafka",
                reason=str(error),
                **details,
            ) from error


class KafkaClient:
    """A client that reads, writes or asks a cluster. `timeout_s` bounds every call; `options` are librdkafka's own."""

    def __init__(
        self,
        bootstrap: str,
        options: ClientOptions | None = None,
        *,
        timeout_s: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        self._connection = Connection(bootstrap, options)
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()
        self._admin: Any = None
        self._first_use = threading.Lock()

    @property
    def _client(self) -> Any:
        """An admin client, once it is needed."""
        with self._first_use:
            if self._admin is None:
                self._admin = self._connection.admin()
            return self._admin
