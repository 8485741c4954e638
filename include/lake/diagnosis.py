"""What an error of a system that the lake rests on means for an operator: a state with a name, and what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from include.errors import BackPressure, LyrebirdError, Transient

__all__ = ["Diagnosis", "System", "Trouble", "diagnose", "system_of"]

System = Literal["store", "log", "registry", "disk"]
"""What a group cannot do without; disk: of a host that runs tasks."""

Trouble = Literal[
    "store away",
    "store busy",
    "wrong credentials",
    "no rights",
    "bucket missing",
    "clock skew",
    "log away",
    "registry away",
    "disk full",
    "task lost",
    "damaged",
]
"""store away, log away, registry away: no answer; store busy: asks to slow down; wrong credentials: it does not know
the account; no rights: it knows it and refuses; clock skew: this machine's clock is not the store's; disk full: the
disk of a host takes no more; task lost: with its host; damaged: an object or a setting is not as it must be."""

# How botocore words a refusal: "An error occurred (<code>) when calling the …".
_CODE: Final = re.compile(r"An error occurred \(([A-Za-z0-9.]+)\)")
_CREDENTIALS: Final = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidClientTokenId", "ExpiredToken"}
_SKEW: Final = {"RequestTimeTooSkewed", "RequestExpired"}
_RIGHTS: Final = {"AccessDenied", "403", "AllAccessDisabled", "AccountProblem"}
_SYSTEMS: Final[Mapping[Trouble, System]] = {
    "store away": "store",
    "store busy": "store",
    "wrong credentials": "store",
    "no rights": "store",
    "bucket missing": "store",
    "clock skew": "store",
    "log away": "log",
    "registry away": "registry",
    "disk full": "disk",
}
_ELSEWHERE: Final[Mapping[Any, tuple[Trouble, str]]] = {
    "registry": ("registry away", "See that the schema registry runs (`lyrebird status`); writers go on when it does."),
    "disk": ("disk full", "Make room there; the cut is read again."),
    "spark": ("task lost", "Nothing to do: it is planned again."),
}


class Diagnosis(NamedTuple):
    """What is wrong, in one line, and what to do."""

    trouble: Trouble
    text: str
    fix: str


def diagnose(error: LyrebirdError) -> Diagnosis:
    """What this error of a look at store or log means."""
    # What to do stands in `fix`, once.
    text = str(error).removesuffix(" ".join(error.fix.split())).rstrip()
    at_store = error.details.get("system") == "s3" or "bucket" in error.details
    found = _CODE.search(str(error.details.get("reason", "")))
    code = found[1] if found else ""
    place = f"bucket {error.details.get('bucket')} at {error.details.get('endpoint')}"
    if isinstance(error, BackPressure):
        return Diagnosis("store busy", text, "Nothing to do: writers slow down. If it lasts, raise the store's limits.")
    if isinstance(error, Transient):
        if at_store:
            fix = "See that it runs (`lyrebird status`); writers go on by themselves when it answers."
            return Diagnosis("store away", text, fix)
        if elsewhere := _ELSEWHERE.get(error.details.get("system")):
            return Diagnosis(elsewhere[0], text, elsewhere[1])
        return Diagnosis("log away", text, "See that Kafka runs (`lyrebird status`); writers go on when it answers.")
    if code == "NoSuchBucket":
        return Diagnosis("bucket missing", text, f"Make {place}, or mend `store` in the deployment files.")
    if code in _CREDENTIALS:
        fix = f"Mend access_key and secret_key of `store` in the deployment files: {place} does not know them."
        return Diagnosis("wrong credentials", text, fix)
    if code in _SKEW:
        fix = "Set this machine's clock by NTP: the store takes requests of some minutes' difference only."
        return Diagnosis("clock skew", text, fix)
    if code in _RIGHTS:
        return Diagnosis("no rights", text, f"Grant the account of `store` listing, reading and writing in {place}.")
    return Diagnosis("damaged", text, error.fix or "Run `lyrebird lake audit` on the topic.")


def system_of(error: LyrebirdError) -> System | None:
    """The system that stands in the way; None where it is none of them."""
    return _SYSTEMS.get(diagnose(error).trouble)
