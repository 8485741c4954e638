"""Diagnoses an error of a system that the lake rests on for an operator: a state with a name, and what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from include.errors import BackPressure, Fenced, LyrebirdError, Transient

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
    "store refuses",
    "log away",
    "log refuses",
    "registry away",
    "registry refuses",
    "disk full",
    "tried again",
    "damaged",
]
"""store away, log away, registry away: no answer; store busy: asks to slow down; wrong credentials: it does not know
the account; no rights: it knows it and refuses; clock skew: this machine's clock is not the store's; … refuses: for
another cause; disk full: the disk of a host takes no more; tried again: anything else that may pass, a task that was
lost with its host, say; damaged: an object or a setting is not as it must be."""

# How botocore words a refusal: "An error occurred (<code>) when calling the …".
_CODE: Final = re.compile(r"An error occurred \(([A-Za-z0-9.]+)\)")
_CREDENTIALS: Final = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidClientTokenId", "InvalidToken"}
_SKEW: Final = {"RequestTimeTooSkewed", "RequestExpired"}
_RIGHTS: Final = {"AccessDenied", "403", "AllAccessDisabled", "AccountProblem"}
_SYSTEMS: Final[Mapping[Any, System]] = {"s3": "store", "kafka": "log", "registry": "registry", "disk": "disk"}
_REFUSES: Final[Mapping[System, Trouble]] = {
    "store": "store refuses",
    "log": "log refuses",
    "registry": "registry refuses",
}
_ELSEWHERE: Final[Mapping[Any, tuple[Trouble, str]]] = {
    "registry": ("registry away", "See that the schema registry runs (`lyrebird status`); writers go on when it does."),
    "disk": ("disk full", "Make room there; the cut is read again."),
    "kafka": ("log away", "See that Kafka runs (`lyrebird status`); writers go on when it answers."),
}


class Diagnosis(NamedTuple):
    """What is wrong, in one line, and what to do."""

    trouble: Trouble
    text: str
    fix: str


def diagnose(error: LyrebirdError) -> Diagnosis:
    """Diagnoses an error of a look at store or log."""
    # What to do stands in `fix`, once.
    text = str(error).removesuffix(" ".join(error.fix.split())).rstrip()
    at_store = error.details.get("system") == "s3" or "bucket" in error.details
    found = _CODE.search(str(error.details.get("reason", "")))
    code = found[1] if found else ""
    where = f"bucket {error.details.get('bucket')} at {error.details.get('endpoint')}"
    if isinstance(error, BackPressure):
        return Diagnosis("store busy", text, "Nothing to do: writers slow down. If it lasts, raise the store's limits.")
    if isinstance(error, Transient):
        if at_store:
            fix = "See that it runs (`lyrebird status`); writers go on by themselves when it answers."
            return Diagnosis("store away", text, fix)
        system = error.details.get("system", "kafka")
        trouble, fix = _ELSEWHERE.get(system, ("tried again", error.fix or "Nothing to do, unless it lasts."))
        if "schema_id" in error.details:
            # It answers, and lacks a schema.
            trouble, fix = "registry refuses", error.fix
        return Diagnosis(trouble, text, fix)
    if code == "NoSuchBucket":
        return Diagnosis("bucket missing", text, f"Make {where}, or mend `store` in the deployment files.")
    if code == "ExpiredToken":
        return Diagnosis("wrong credentials", text, error.fix)
    if code in _CREDENTIALS:
        fix = f"Mend access_key and secret_key of `store` in the deployment files: {where} does not know them."
        return Diagnosis("wrong credentials", text, fix)
    if code in _SKEW:
        fix = "Set this machine's clock by NTP: the store takes requests of some minutes' difference only."
        return Diagnosis("clock skew", text, fix)
    if code in _RIGHTS:
        return Diagnosis("no rights", text, f"Grant the account of `store` listing, reading and writing in {where}.")
    refuses = _REFUSES.get(system_of(error) or "disk")
    if refuses is not None:
        return Diagnosis(refuses, text, error.fix or "See its log.")
    return Diagnosis("damaged", text, error.fix or "Run `lyrebird audit chain` on the topic.")


def system_of(error: LyrebirdError) -> System | None:
    """The system that stands in the way; None where it is none of them, or it lets another writer in instead."""
    return None if isinstance(error, Fenced) else _SYSTEMS.get(error.details.get("system"))
