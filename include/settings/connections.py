"""Definitions of the sections that name the servers, which every stage shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, PlainSerializer, SecretStr, SerializationInfo, model_validator

from include.settings.deployment import Strict
from include.settings.secret import REVEALED, Secret, login_apart, revealed

__all__ = ["Addressing", "Checksums", "Cluster", "Elasticsearch", "Encryption", "Kafka", "Registry", "StoreSettings"]

Addressing = Literal["path", "virtual", "auto"]
"""Where the bucket stands: in the URL's path, or in its host; auto: as botocore finds fit."""

Checksums = Literal["when_required", "always"]
"""when_required: bodies are covered by the request's signature (SHA-256), which every S3-like verifies; always: by a
CRC that the store keeps beside the object as well. Over HTTPS that comes in a trailer, which older S3-likes refuse."""

Encryption = Literal["AES256", "aws:kms", "aws:kms:dsse"]

_THIS_MACHINE: Final = {"127.0.0.1", "localhost", "::1"}
_ARCHIVES: Final = {"GLACIER", "DEEP_ARCHIVE"}


def _joined(value: Any) -> Any:
    """A list of addresses as one text, without spaces."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        value = ",".join(value)
    return ",".join(filter(None, (each.strip() for each in value.split(",")))) if isinstance(value, str) else value


def _one_way_in(user: str | None, password: SecretStr | None, **other: SecretStr | None) -> None:
    for name, value in other.items():
        if value is not None and user is not None:
            raise ValueError(f"user and {name}: which of them?")
    if password is not None and user is None:
        raise ValueError("a password belongs to a user")


def _with_login(options: Mapping[str, Any], bootstrap: str, user: Any, password: Any) -> dict[str, Any]:
    """Options of Kafka's clients, by which this user logs in; what they name themselves stays."""
    if password is None:
        raise ValueError("a user needs a password")
    login = {
        "sasl.username": user,
        "sasl.password": revealed(password) if isinstance(password, SecretStr) else password,
    }
    for name, value in login.items():
        if options.get(name, value) != value:
            raise ValueError(f"user, password and the option {name}: which of them?")
    hosts = {urlsplit(f"//{each.strip()}").hostname for each in bootstrap.split(",") if each.strip()}
    usual = {"security.protocol": "SASL_PLAINTEXT" if hosts <= _THIS_MACHINE else "SASL_SSL"}
    if "sasl.mechanisms" not in options:
        usual["sasl.mechanism"] = "PLAIN"
    found = {**usual, **options, **login}
    protocol = str(found["security.protocol"]).upper()
    if not protocol.startswith("SASL_"):
        raise ValueError(f"a user does not log in by security.protocol {protocol}, but by SASL_SSL or SASL_PLAINTEXT")
    return found


def _without_login(**addresses: str) -> None:
    for name, value in addresses.items():
        if "@" in value:
            raise ValueError(f"{name} takes no login, as errors show it: name it by the fields for it")


def _client_pair(cert: str | None, key: str | None) -> None:
    if cert is None and key is not None:
        raise ValueError("client_key belongs to client_cert")


def _over_tls(urls: tuple[str, ...], **settings: str | None) -> None:
    named = [name for name, value in settings.items() if value is not None]
    if named and not all(url.startswith("https://") for url in urls):
        raise ValueError(f"{named[0]} is for https:// addresses")


def _written(options: dict[str, Any], info: SerializationInfo) -> dict[str, Any]:
    # Whatever their names are: a misspelt one is found out by the client alone.
    if info.context != REVEALED:
        raise TypeError("who writes a secret as JSON says so, by the context REVEALED")
    return options


class Cluster(Strict):
    """Section `cluster`: how this installation names itself in documents' metadata."""

    name: str = Field(pattern=r"^[A-Za-z0-9-]+$")
    """`cluster_name` of documents."""
    type: str
    """`cluster_type` of documents."""

    def __str__(self) -> str:
        """`<name>/<type>`."""
        return f"{self.name}/{self.type}"


class Kafka(Strict):
    """Section `kafka`. `options` go to librdkafka as they are (security.protocol, …), with the user's login."""

    bootstrap: str
    """`host:port` of brokers, with commas between."""
    user: str | None = None
    """Logs in by PLAIN over TLS, or without TLS where `bootstrap` names this machine alone (127.0.0.1, localhost, ::1);
    `options` may say otherwise (`security.protocol`, `sasl.mechanism`)."""
    password: Secret | None = None
    """The user's."""
    options: Annotated[dict[str, str | int | bool], PlainSerializer(_written, when_used="json")] = Field(
        default_factory=dict, repr=False
    )
    """Of librdkafka, for every client."""

    @model_validator(mode="before")
    @classmethod
    def _login_among_options(cls, values: Any) -> Any:
        values = login_apart(values)
        if not isinstance(values, Mapping) or values.get("user") is None:
            return values
        options = values.get("options", {})
        if not isinstance(options, Mapping) or not isinstance(values.get("bootstrap"), str):
            return values
        return {**values, "options": _with_login(options, values["bootstrap"], values["user"], values.get("password"))}

    @model_validator(mode="after")
    def _agree(self) -> Self:
        _without_login(bootstrap=self.bootstrap)
        _one_way_in(self.user, self.password)
        return self


class Registry(Strict):
    """Section `registry`: a Confluent-compatible schema registry.

    What is named here by path has to be on every host that runs tasks.
    """

    url: str
    """May name a user and a password itself, which are taken out of it; those of the fields win."""
    user: str | None = None
    """For basic authentication."""
    password: Secret | None = Field(default=None, min_length=1)
    """The user's."""
    token: Secret | None = Field(default=None, min_length=1)
    """Sent as `Authorization: Bearer`, instead of user and password."""
    ca_file: str | None = None
    """Certificates (PEM) that the registry's is verified by, instead of the system's."""
    client_cert: str | None = None
    """This client's certificate (PEM)."""
    client_key: str | None = None
    """Its key; without it, the key is in `client_cert`."""

    @model_validator(mode="before")
    @classmethod
    def _login_apart(cls, values: Any) -> Any:
        return login_apart(values, "token")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        _one_way_in(self.user, self.password, token=self.token)
        _client_pair(self.client_cert, self.client_key)
        _over_tls((self.url,), ca_file=self.ca_file, client_cert=self.client_cert)
        return self


class Elasticsearch(Strict):
    """Section `elasticsearch`: one cluster.

    What is named here by path has to be on every host that runs tasks.
    """

    url: str
    """Of one node or of several: a list, or addresses with commas between. They take turns; one that does not answer is
    left out for a while."""
    user: str | None = None
    """For basic authentication."""
    password: Secret | None = None
    """The user's."""
    api_key: Secret | None = Field(default=None, min_length=1)
    """As Elasticsearch gives it (`encoded`), instead of user and password."""
    ca_file: str | None = None
    """Certificates (PEM) that the nodes' are verified by, instead of the public ones."""
    fingerprint: str | None = Field(default=None, pattern=r"^([0-9A-Fa-f]{2}:?){32}$")
    """SHA-256 of the nodes' authority or of a node's own certificate, as Elasticsearch prints it at its first start."""
    client_cert: str | None = None
    """This client's certificate (PEM)."""
    client_key: str | None = None
    """Its key; without it, the key is in `client_cert`."""

    @property
    def urls(self) -> tuple[str, ...]:
        """The address of each node."""
        return tuple(self.url.split(","))

    @model_validator(mode="before")
    @classmethod
    def _login_apart(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and "url" in values:
            values = {**values, "url": _joined(values["url"])}
        return login_apart(values, "api_key")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        _one_way_in(self.user, self.password, api_key=self.api_key)
        _client_pair(self.client_cert, self.client_key)
        if self.ca_file is not None and self.fingerprint is not None:
            raise ValueError("ca_file and fingerprint: which of them?")
        tls = {"ca_file": self.ca_file, "fingerprint": self.fingerprint, "client_cert": self.client_cert}
        _over_tls(self.urls, **tls)
        return self


class StoreSettings(Strict):
    """Section `store`: an S3 endpoint and the bucket that Lyrebird writes to.

    Without keys each process asks botocore's own chain: environment (session tokens, web identity), the profiles of
    `~/.aws`, which may assume a role, then the host's or the container's role. What is named here (`ca_file`,
    `profile`) has to be on every host that runs tasks.
    """

    endpoint: str
    """The store's URL, without a login."""
    bucket: str
    """It has to be there."""
    access_key: str | None = Field(default=None, min_length=1, repr=False)
    """With `secret_key`, or not at all."""
    secret_key: Secret | None = Field(default=None, min_length=1)
    """With `access_key`, or not at all."""
    session_token: Secret | None = Field(default=None, min_length=1)
    """Of keys that were given for some hours."""
    profile: str | None = None
    """Of `~/.aws/config`; instead of keys."""
    region: str = "us-east-1"
    """As the store calls it."""
    addressing: Addressing = "path"
    """Where the bucket stands: in the URL's path, or in its host; auto: as botocore finds fit."""
    ca_file: str | None = None
    """Certificates (PEM) that the store's is verified by, instead of the public ones."""
    encryption: Encryption | None = None
    """Asked for with each object; None: what the bucket does by itself."""
    kms_key: str | None = None
    """Id or ARN of the key for `aws:kms`; None: the account's own."""
    storage_class: str | None = None
    """Of objects of 128 KiB or more, the least that other classes bill."""
    checksums: Checksums = "when_required"
    """when_required: a body is covered by the request's signature; always: a CRC is kept beside the object too."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        _without_login(endpoint=self.endpoint)
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
