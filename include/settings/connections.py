"""Where the servers are: the sections that every stage shares."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from include.settings.deployment import Strict

__all__ = ["Addressing", "Checksums", "Cluster", "Elasticsearch", "Encryption", "Kafka", "ObjectStore", "Registry"]

Addressing = Literal["path", "virtual", "auto"]
"""Where the bucket stands: in the URL's path, or in its host; auto: as botocore finds fit."""

Checksums = Literal["when_required", "always"]
"""when_required: bodies are covered by the request's signature (SHA-256), which every S3-like verifies; always: by a
CRC that the store keeps beside the object as well. Over HTTPS that comes in a trailer, which older S3-likes refuse."""

Encryption = Literal["AES256", "aws:kms", "aws:kms:dsse"]

_ARCHIVES: Final = {"GLACIER", "DEEP_ARCHIVE"}


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
    """Section `store`: an S3 endpoint and the bucket that Lyrebird writes to.

    Without keys each process asks botocore's own chain: environment (session tokens, web identity), the profiles of
    `~/.aws`, which may assume a role, then the host's or the container's role. What is named here (`ca_file`,
    `profile`) has to be on every host that runs tasks.
    """

    endpoint: str
    bucket: str
    access_key: str | None = Field(default=None, min_length=1, repr=False)
    secret_key: str | None = Field(default=None, min_length=1, repr=False)
    session_token: str | None = Field(default=None, min_length=1, repr=False)
    """Of keys that were given for some hours."""
    profile: str | None = None
    """Of `~/.aws/config`; instead of keys."""
    region: str = "us-east-1"
    addressing: Addressing = "path"
    ca_file: str | None = None
    """Certificates (PEM) that the store's is verified by, instead of the public ones."""
    encryption: Encryption | None = None
    """Asked for with each object; None: what the bucket does by itself."""
    kms_key: str | None = None
    """Id or ARN of the key for `aws:kms`; None: the account's own."""
    storage_class: str | None = None
    """Of objects of 128 KiB or more, the least that other classes bill."""
    checksums: Checksums = "when_required"

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if (self.access_key is None) != (self.secret_key is None):
            raise ValueError("access_key and secret_key come together, or not at all")
        if self.session_token is not None and self.access_key is None:
            raise ValueError("a session_token belongs to access_key and secret_key")
        if self.profile is not None and self.access_key is not None:
            raise ValueError("keys and a profile: which of them?")
        if self.kms_key is not None and self.encryption in (None, "AES256"):
            raise ValueError("kms_key needs encryption: aws:kms")
        if self.storage_class in _ARCHIVES:
            raise ValueError(f"objects of class {self.storage_class} cannot be read at once, as the lake has to")
        return self
