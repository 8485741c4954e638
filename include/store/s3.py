"""`S3Store`: any store that speaks S3 and honours `If-None-Match` and `If-Match` (see `race_probe`)."""

from __future__ import annotations

import contextlib
import datetime as dt
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import boto3
from botocore.client import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, SSLError
from typing_extensions import override

from include.errors import LyrebirdError, Terminal, Transient
from include.settings.certificates import require_files
from include.settings.connections import Addressing, Checksums, Encryption, StoreSettings
from include.settings.secret import revealed
from include.store.object_store import ObjectInfo, ObjectStore, StoredObject
from include.store.s3_errors import Absent, ConditionFailed, code_of, error_of

__all__ = ["S3Store", "store_of"]

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# What a server that keeps objects as files says when a folder is filled while its last object is removed.
_FOLDER_IN_USE: Final = "ExistingObjectIsDirectory"
# Classes other than the standard one bill so much at least.
_LEAST_CLASSED: Final = 128 << 10


class S3Store(ObjectStore):
    """`ObjectStore` over boto3. Safe between threads, not between processes: open one in each.

    Conditional writes are sent once: a repetition by the client itself would meet the object that the lost first
    try has made, and report a refusal for what succeeded.

    All arguments but the last two are settings of section `store` (`settings.connections.StoreSettings`).

    Args:
        endpoint: the store's URL, without a login.
        bucket: its name.
        access_key: with `secret_key`; None: botocore's own chain finds keys.
        secret_key: with `access_key`.
        session_token: of keys that were given for some hours.
        profile: of `~/.aws/config`; instead of keys.
        region: as the store calls it.
        addressing: where the bucket stands, in the URL's path or in its host; auto: as botocore finds fit.
        ca_file: file of certificates (PEM) that the store's is verified by; None: the public ones.
        encryption: asked for with each object; None: what the bucket does by itself.
        kms_key: id or ARN of the key for `aws:kms`; None: the account's own.
        storage_class: of objects of 128 KiB or more; None: what the store does by itself.
        checksums: when_required: the request's signature covers a body; always: a CRC is kept beside the object too.
        timeout_s: seconds to connect, and seconds to wait for bytes.
        page_keys: most keys in a page of a listing.

    Raises:
        Terminal: the profile or `ca_file` is not on this host.
    """

    def __init__(
        self,
        endpoint: str,
        bucket: str,
        access_key: str | None = None,
        secret_key: str | None = None,
        *,
        session_token: str | None = None,
        profile: str | None = None,
        region: str = "us-east-1",
        addressing: Addressing = "path",
        ca_file: str | None = None,
        encryption: Encryption | None = None,
        kms_key: str | None = None,
        storage_class: str | None = None,
        checksums: Checksums = "when_required",
        timeout_s: float = 30.0,
        page_keys: int = 1000,
    ) -> None:
        self.endpoint = endpoint
        self._page_keys = page_keys
        self.bucket = bucket
        self._region = region
        self._storage_class = storage_class
        self._encrypted: dict[str, str] = {"ServerSideEncryption": encryption} if encryption else {}
        if kms_key:
            self._encrypted["SSEKMSKeyId"] = kms_key
        require_files("store", ca_file=ca_file)
        calculated: Literal["when_required", "when_supported"] = (
            "when_required" if checksums == "when_required" else "when_supported"
        )
        try:
            session = boto3.Session(access_key, secret_key, session_token, region_name=region, profile_name=profile)
        except BotoCoreError as error:
            raise self._error(error, "") from error

        def client(attempts: int) -> Any:
            return session.client(
                "s3",
                endpoint_url=endpoint,
                verify=ca_file,
                config=Config(
                    connect_timeout=timeout_s,
                    read_timeout=timeout_s,
                    retries={"mode": "standard", "total_max_attempts": attempts},
                    # A body without a checksum of its own is covered by the signature, over TLS too.
                    s3={"addressing_style": addressing, "payload_signing_enabled": checksums == "when_required"},
                    request_checksum_calculation=calculated,
                    response_checksum_validation=calculated,
                    max_pool_connections=16,
                ),
            )

        self._once = client(1)
        self._patient = client(4)
        # Closes the connections of a store that nobody closed.
        self._end = weakref.finalize(self, _close, self._once, self._patient)

    def close(self) -> None:
        """Give up connections; may be called twice."""
        self._end()

    def ensure_bucket(self) -> None:
        """Make the bucket unless it is there."""
        try:
            place = {} if self._region == "us-east-1" else {"LocationConstraint": self._region}
            self._patient.create_bucket(Bucket=self.bucket, **({"CreateBucketConfiguration": place} if place else {}))
        except ClientError as error:
            if code_of(error) not in {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}:
                raise self._error(error, "") from error
        except BotoCoreError as error:
            raise self._error(error, "") from error

    @override
    def put(self, key: str, body: bytes, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        return self._put(self._patient, key, body, metadata)

    @override
    def put_if_absent(self, key: str, body: bytes, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo | None:
        return self._put_if(key, body, metadata, None)

    @override
    def put_if_match(
        self, key: str, body: bytes, etag: str, *, metadata: Mapping[str, str] | None = None
    ) -> ObjectInfo | None:
        return self._put_if(key, body, metadata, etag)

    @override
    def upload(
        self,
        key: str,
        parts: Iterable[bytes],
        *,
        if_absent: bool = False,
        if_match: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectInfo | None:
        target = {"Bucket": self.bucket, "Key": key}
        condition = {"IfNoneMatch": "*"} if if_absent else {"IfMatch": if_match} if if_match is not None else {}
        begun = self._call(
            self._patient.create_multipart_upload,
            key,
            **target,
            Metadata=dict(metadata or {}),
            **self._kept(_LEAST_CLASSED),
        )
        upload_id = begun["UploadId"]
        done = False
        try:
            size, sent = 0, []
            for number, part in enumerate(_at_least_one(parts), 1):
                answer = self._call(
                    self._patient.upload_part, key, **target, UploadId=upload_id, PartNumber=number, Body=part
                )
                sent.append({"PartNumber": number, "ETag": answer["ETag"]})
                size += len(part)
            with _refusal(absent=if_match is not None):
                answer = self._call(
                    self._once.complete_multipart_upload,
                    key,
                    **target,
                    UploadId=upload_id,
                    MultipartUpload={"Parts": sent},
                    **condition,
                )
                done = True
                return ObjectInfo(key, size, answer["ETag"], dict(metadata or {}))
            return None
        finally:
            if not done:
                # After a lost answer it may be finished: then there is nothing to abort.
                with contextlib.suppress(ClientError, BotoCoreError):
                    self._once.abort_multipart_upload(**target, UploadId=upload_id)

    @override
    def get(self, key: str) -> StoredObject | None:
        with _refusal(absent=True):
            answer = self._call(self._patient.get_object, key, Bucket=self.bucket, Key=key)
            try:
                body = answer["Body"].read()
            except (BotoCoreError, OSError) as error:
                raise self._error(error, key) from error
            return StoredObject(_info(key, answer), body)
        return None

    @override
    def head(self, key: str) -> ObjectInfo | None:
        with _refusal(absent=True):
            return _info(key, self._call(self._patient.head_object, key, Bucket=self.bucket, Key=key))
        return None

    @override
    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        token: dict[str, str] = {"StartAfter": start_after} if start_after else {}
        while True:
            page = self._call(
                self._patient.list_objects_v2,
                prefix,
                Bucket=self.bucket,
                Prefix=prefix,
                MaxKeys=self._page_keys,
                **token,
            )
            for each in page.get("Contents", ()):
                yield ObjectInfo(each["Key"], each["Size"], each["ETag"], None, _us(each.get("LastModified")))
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    @override
    def delete(self, key: str) -> None:
        with _refusal(absent=True):
            try:
                self._call(self._patient.delete_object, key, Bucket=self.bucket, Key=key)
            except Terminal as refused:
                if _FOLDER_IN_USE not in str(refused.details.get("reason", "")):
                    raise
                raise Transient(
                    "the object store failed", fix="Remove it again.", **{**refused.details, "system": "s3"}
                ) from refused

    def _put_if(self, key: str, body: bytes, metadata: Mapping[str, str] | None, etag: str | None) -> ObjectInfo | None:
        """Replace the object with this etag; None: write where there is none.

        A server may refuse before it has read the body, and close. Over TLS the client then sees the end of the
        connection alone, each time, so what lies there is looked at: it tells a refusal unless it may be our own.
        """
        condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
        try:
            with _refusal(absent=etag is not None):
                return self._put(self._once, key, body, metadata, **condition)
        except Transient as lost:
            if not isinstance(lost.__cause__, HTTPClientError | SSLError):
                raise
            found = self.get(key)
            ours = found is not None and (found.body, found.info.metadata) == (body, dict(metadata or {}))
            undone = (found.info.etag if found else None) == etag
            if ours or undone:
                raise
        return None

    def _put(
        self, client: Any, key: str, body: bytes, metadata: Mapping[str, str] | None, **condition: str
    ) -> ObjectInfo:
        named = dict(metadata or {})
        answer = self._call(
            client.put_object,
            key,
            Bucket=self.bucket,
            Key=key,
            Body=body,
            Metadata=named,
            **self._kept(len(body)),
            **condition,
        )
        return ObjectInfo(key, len(body), answer["ETag"], named)

    def _call(self, call: Any, key: str, /, **arguments: Any) -> Any:
        try:
            return call(**arguments)
        except (ClientError, BotoCoreError) as error:
            raise self._error(error, key) from error

    def _kept(self, size_bytes: int) -> dict[str, str]:
        """How the store is to keep an object."""
        if self._storage_class and size_bytes >= _LEAST_CLASSED:
            return {**self._encrypted, "StorageClass": self._storage_class}
        return self._encrypted

    def _error(self, error: ClientError | BotoCoreError | OSError, key: str) -> LyrebirdError:
        return error_of(error, {"system": "s3", "endpoint": self.endpoint, "bucket": self.bucket, "key": key})


def _refusal(*, absent: bool = False) -> contextlib.suppress:
    """A condition that does not hold (and, where it may be, a missing object) ends the block with None."""
    return contextlib.suppress(ConditionFailed, Absent) if absent else contextlib.suppress(ConditionFailed)


def _close(*clients: Any) -> None:
    for client in clients:
        client.close()


def _info(key: str, answer: Mapping[str, Any]) -> ObjectInfo:
    metadata = dict(answer.get("Metadata", {}))
    return ObjectInfo(key, answer["ContentLength"], answer["ETag"], metadata, _us(answer.get("LastModified")))


def _us(when: dt.datetime | None) -> int | None:
    return None if when is None else (when - _EPOCH) // dt.timedelta(microseconds=1)


def _at_least_one(parts: Iterable[bytes]) -> Iterator[bytes]:
    """S3 completes no upload without a part."""
    empty = True
    for part in parts:
        empty = False
        yield part
    if empty:
        yield b""


def store_of(settings: StoreSettings, *, timeout_s: float = 30.0) -> S3Store:
    """The bucket that a deployment names. It waits `timeout_s` for an answer, and asks four times where it may."""
    secrets = {name: revealed(getattr(settings, name)) for name in ("secret_key", "session_token")}
    return S3Store(**{**settings.model_dump(), **secrets}, timeout_s=timeout_s)
