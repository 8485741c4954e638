"""Where the servers are: the sections that every stage shares."""

from __future__ import annotations

from pydantic import Field

from include.settings.deployment import Strict

__all__ = ["Cluster", "Elasticsearch", "Kafka", "ObjectStore", "Registry"]


class Cluster(Strict):
    """Section `cluster`: how this installation names itself in documents' metadata."""

    name: str = Field(pattern=r"^[A-Za-z0-9-]+$")
    type: str

    def __str__(self) -> str:
        """`<name>/<type>`."""
        return f"{self.name}/{self.type}"


class Kafka(Strict):
    """Section `kafka`. `options` go to librdkafka as they are (security.protocol, …)."""

    bootstrap: str
    options: dict[str, str | int | bool] = Field(default_factory=dict)


class Registry(Strict):
    """Section `registry`: a Confluent-compatible schema registry."""

    url: str


class Elasticsearch(Strict):
    """Section `elasticsearch`."""

    url: str
    user: str | None = None
    password: str | None = Field(default=None, repr=False)


class ObjectStore(Strict):
    """Section `store`: an S3 endpoint and the bucket that Lyrebird writes to."""

    endpoint: str
    bucket: str
    access_key: str = Field(repr=False)
    secret_key: str = Field(repr=False)
    region: str = "us-east-1"
