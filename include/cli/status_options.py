"""Prints the status of one hosted thing by its name, or of all: for people or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click
import orjson

from include.cli.colours import painted

if TYPE_CHECKING:
    from include.log.ports import LogReader, TopicAdmin
    from include.settings.deployment import Deployment

__all__ = ["StreamStatus", "tell_status"]

T = TypeVar("T")


class StreamStatus(Protocol):
    """The status of one of them."""

    def lines(self) -> list[str]:
        """For a person."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""


def tell_status(
    kind: str,
    declared: Callable[[Deployment], Mapping[str, T]],
    status: Callable[[T, LogReader, TopicAdmin], StreamStatus],
    name: str | None,
    *,
    as_json: bool,
) -> None:
    """Print the status of those of a kind (`job`, `join`) that the deployment declares, or of the one of this name.

    Raises:
        SettingsError: there is none of this name, with the nearest ones.
        Transient: the log does not answer.
    """
    from contextlib import closing

    from include.log.kafka.log import KafkaAdmin, KafkaReader
    from include.settings.connections import Kafka
    from include.settings.deployment import Deployment
    from include.settings.names import require_known

    deployment = Deployment.load()
    kafka, known = deployment.one("kafka", Kafka), declared(deployment)
    if name is not None:
        require_known(name, known, f"no {kind} of this name is declared")
    admin = KafkaAdmin(kafka.bootstrap, kafka.options)
    with closing(KafkaReader(kafka.bootstrap, kafka.options)) as reader:
        found = [status(one, reader, admin) for each, one in known.items() if name in (None, each)]
    if as_json:
        click.echo(orjson.dumps({f"{kind}s": [each.to_json() for each in found]}).decode())
    else:
        click.echo(painted("\n".join(line for each in found for line in each.lines())) or f"no {kind} is declared")
