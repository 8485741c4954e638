"""`S3Store`: any store that speaks S3 and honours `If-None-Match` and `If-Match` (see `race_probe`)."""

from __future__ import annotations

import contextlib
import datetime as dt
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import boto3
from botocore.client import Config
from botocore.exceptions import BotoCoreError, ClientError

from include.errors import BackPressure, LyrebirdError, Terminal, Transient
from include.store.object_store import ObjectInfo, StoredObject

__all__ = ["S3Store"]

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_REFUSED: Final = {"PreconditionFailed", "412"}
_ABSENT: Final = {"NoSuchKey", "NotFound", "404"}
_FULL: Final = {"SlowDown", "ServiceUnavailable", "TooManyRequests", "RequestLimitExceeded", "503", "429"}
# A conditional write beside a delete or another one: undecided, S3 asks to try again. So do uploads that a lifecycle
# rule or a server's restart has ended, and bodies that came damaged: the next attempt sends all of it again.
_UNDECIDED: Final = {
    *{"ConditionalRequestConflict", "OperationAborted", "RequestTimeout", "NoSuchUpload"},
    *{"BadDigest", "IncompleteBody", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"},
}
# What a server that keeps objects as files says when a folder is filled while its last object is removed.
_FOLDER_IN_USE: Final = "ExistingObjectIsDirectory"


class S3Store:
    """`ObjectStore` over boto3. Safe between threads, not between processes: open one in each.

    Conditional writes are sent once: a repetition by the client itself would meet the object that the lost first
    try has made, and report a refusal for what succeeded.
    """

    def __init__(
        self,
        endpoint: str,
        bucket: str,
        access_key: str,
        secret_key: str,
        *,
        region: str = "us-east-1",
        timeout_s: float = 30.0,
        page_keys: int = 1000,
    ) -> None:
        self.endpoint = endpoint
        self._page_keys = page_keys
        self.bucket = bucket

        def client(attempts: int) -> Any:
            return boto3.client(
                "s3",
                endpoint_url=endpoint,
                aws_access_key_id=access_key,
                aws_secret_access_key=secret_key,
                region_name=region,
                config=Config(
                    connect_timeout=timeout_s,
                    read_timeout=timeout_s,
                    retries={"mode": "standard", "total_max_attempts": attempts},
                    s3={"addressing_style": "path"},
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
            self._patient.create_bucket(Bucket=self.bucket)
        except ClientError as error:
            if _code(error) not in {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}:
                raise self._error(error, "") from error
        except BotoCoreError as error:
            raise self._error(error, "") from error

    def put(self, key: str, body: bytes, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        """See `ObjectStore`."""
        return self._put(self._patient, key, body, metadata)

    def put_if_absent(self, key: str, body: bytes, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo | None:
        """See `ObjectStore`."""
        with _refusal():
            return self._put(self._once, key, body, metadata, IfNoneMatch="*")
        return None

    def put_if_match(
        self, key: str, body: bytes, etag: str, *, metadata: Mapping[str, str] | None = None
    ) -> ObjectInfo | None:
        """See `ObjectStore`."""
        with _refusal(absent=True):
            return self._put(self._once, key, body, metadata, IfMatch=etag)
        return None

    def upload(
        self,
        key: str,
        parts: Iterable[bytes],
        *,
        if_absent: bool = False,
        if_match: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectInfo | None:
        """See `ObjectStore`."""
        place = {"Bucket": self.bucket, "Key": key}
        condition = {"IfNoneMatch": "*"} if if_absent else {"IfMatch": if_match} if if_match is not None else {}
        upload_id = self._call(self._patient.create_multipart_upload, key, **place, Metadata=dict(metadata or {}))[
            "UploadId"
        ]
        done = False
        try:
            size, sent = 0, []
            for number, part in enumerate(_at_least_one(parts), 1):
                answer = self._call(
                    self._patient.upload_part, key, **place, UploadId=upload_id, PartNumber=number, Body=part
                )
                sent.append({"PartNumber": number, "ETag": answer["ETag"]})
                size += len(part)
            with _refusal(absent=if_match is not None):
                answer = self._call(
                    self._once.complete_multipart_upload,
                    key,
                    **place,
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
                    self._once.abort_multipart_upload(**place, UploadId=upload_id)

    def get(self, key: str) -> StoredObject | None:
        """See `ObjectStore`."""
        with _refusal(absent=True):
            answer = self._call(self._patient.get_object, key, Bucket=self.bucket, Key=key)
            try:
                body = answer["Body"].read()
            except (BotoCoreError, OSError) as error:
                raise self._error(error, key) from error
            return StoredObject(_info(key, answer), body)
        return None

    def head(self, key: str) -> ObjectInfo | None:
        """See `ObjectStore`."""
        with _refusal(absent=True):
            return _info(key, self._call(self._patient.head_object, key, Bucket=self.bucket, Key=key))
        return None

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """See `ObjectStore`."""
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

    def delete(self, key: str) -> None:
        """See `ObjectStore`."""
        with _refusal(absent=True):
            try:
                self._call(self._patient.delete_object, key, Bucket=self.bucket, Key=key)
            except Terminal as refused:
                if _FOLDER_IN_USE not in str(refused.details.get("reason", "")):
                    raise
                raise Transient(
                    "the object store failed", fix="Remove it again.", **{**refused.details, "system": "s3"}
                ) from refused

    def _put(
        self, client: Any, key: str, body: bytes, metadata: Mapping[str, str] | None, **condition: str
    ) -> ObjectInfo:
        named = dict(metadata or {})
        answer = self._call(client.put_object, key, Bucket=self.bucket, Key=key, Body=body, Metadata=named, **condition)
        return ObjectInfo(key, len(body), answer["ETag"], named)

    def _call(self, call: Any, key: str, /, **arguments: Any) -> Any:
        try:
            return call(**arguments)
        except (ClientError, BotoCoreError) as error:
            raise self._error(error, key) from error

    def _error(self, error: Exception, key: str) -> LyrebirdError:
        place = {"system": "s3", "endpoint": self.endpoint, "bucket": self.bucket, "key": key}
        if not isinstance(error, ClientError):
            return Transient(
                "the object store does not answer", fix="Is it up? See `lyrebird status`.", **place, reason=str(error)
            )
        code = _code(error)
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        place["reason"] = str(error)
        if code in _REFUSED or status == 412:
            return _Refused("the object store refuses a condition", **place)
        if code in _ABSENT:
            return _Absent("no such object", **place)
        if code in _FULL:
            return BackPressure("the object store asks to slow down", **place)
        if code in _UNDECIDED or status >= 500:
            return Transient("the object store failed", fix="See its log.", **place)
        if code == "NoSuchBucket":
            return Terminal("no such bucket", fix="Make it, or mend `store` in the deployment files.", **place)
        return Terminal(
            "the object store refuses this",
            fix="Check `store` in the deployment files and the account's rights.",
            **place,
        )


class _Refused(Terminal):
    pass


class _Absent(Terminal):
    pass


def _refusal(*, absent: bool = False) -> contextlib.suppress:
    """A condition that does not hold (and, where it may be, a missing object) ends the block with None."""
    return contextlib.suppress(_Refused, _Absent) if absent else contextlib.suppress(_Refused)


def _close(*clients: Any) -> None:
    for client in clients:
        client.close()


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


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
