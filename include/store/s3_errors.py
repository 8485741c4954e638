"""Maps botocore's errors to those of Lyrebird, which are named by the reaction that they ask for."""

from __future__ import annotations

from typing import Any, Final

from botocore import exceptions as aws
from botocore.exceptions import BotoCoreError, ClientError

from include.errors import BackPressure, LyrebirdError, Terminal, Transient
from include.store.object_store import NotImplementedByStore

__all__ = ["Absent", "ConditionFailed", "code_of", "error_of"]

_REFUSED: Final = {"PreconditionFailed", "412"}
_ABSENT: Final = {"NoSuchKey", "NotFound", "404"}
_FULL: Final = {"SlowDown", "ServiceUnavailable", "TooManyRequests", "RequestLimitExceeded", "503", "429"}
# A conditional write beside a delete or another one: undecided, S3 asks to try again. So do uploads that a lifecycle
# rule or a server's restart has ended, and bodies that came damaged: the next attempt sends all of it again.
_UNDECIDED: Final = {
    *{"ConditionalRequestConflict", "OperationAborted", "RequestTimeout", "NoSuchUpload"},
    *{"BadDigest", "IncompleteBody", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"},
}
_NO_CREDENTIALS: Final = (
    *(aws.NoCredentialsError, aws.PartialCredentialsError, aws.UnknownCredentialError, aws.ProfileNotFound),
    *(aws.NoAuthTokenError, aws.UnauthorizedSSOTokenError, aws.SSOTokenLoadError, aws.LoginTokenLoadError),
)
_FIXES: Final = {
    "InvalidObjectState": (
        "an object lies in an archive and cannot be read",
        "Restore it (`aws s3api restore-object`), and let no lifecycle rule move the lake's objects to Glacier.",
    ),
    "ExpiredToken": (
        "the session token of the credentials has expired",
        "Fetch new ones; a role or a profile that botocore renews by itself needs no token in the deployment files.",
    ),
    "NoSuchBucket": ("no such bucket", "Make it, or mend `store` in the deployment files."),
}


class ConditionFailed(Terminal):
    """A condition does not hold."""


class Absent(Terminal):
    """There is no such object."""


def error_of(error: ClientError | BotoCoreError | OSError, place: dict[str, Any]) -> LyrebirdError:
    """The error to raise; `place` are its details."""
    place = {**place, "reason": str(error)}
    if isinstance(error, ClientError):
        return _answered(error, place)
    if isinstance(error, _NO_CREDENTIALS):
        return Terminal(
            "no credentials for the object store",
            **place,
            fix="Give `store` keys or a profile, or this host a role that botocore finds.",
        )
    if isinstance(error, aws.SSLError) and "CERTIFICATE_VERIFY_FAILED" in place["reason"]:
        return Terminal(
            "the object store's certificate is not trusted", **place, fix="Name its authority: `ca_file` of `store`."
        )
    return Transient("the object store does not answer", fix="Is it up? See `lyrebird status`.", **place)


def _answered(error: ClientError, place: dict[str, Any]) -> LyrebirdError:
    code = code_of(error)
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in _REFUSED or status == 412:
        return ConditionFailed("the object store refuses a condition", **place)
    if code in _ABSENT:
        return Absent("no such object", **place)
    if code in _FULL:
        return BackPressure("the object store asks to slow down", **place)
    if code == "NotImplemented" or status == 501:
        return NotImplementedByStore(
            "the object store does not know this call",
            **place,
            fix="Exactly once rests on If-None-Match and If-Match: use a store that has them.",
        )
    if code in _UNDECIDED or status >= 500:
        return Transient("the object store failed", fix="See its log.", **place)
    text, fix = _FIXES.get(
        code, ("the object store refuses this", "Check `store` in the deployment files and the account's rights.")
    )
    return Terminal(text, fix=fix, **place)


def code_of(error: ClientError) -> str:
    """As S3 names it; "" where the answer has none."""
    return str(error.response.get("Error", {}).get("Code", ""))
