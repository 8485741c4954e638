"""What the bucket says of a run, by plain listings and the JSON of its commits: which objects are read, what is odd.

Nothing of the product is imported here: names, pointer and commits are read as they are documented.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tests.support.kills.kafka_reader import Ran

__all__ = ["Chains", "Found", "Piece"]

_DATA: Final = re.compile(r"(?P<names>.+)/(?P<generation>\d+)_(?P<partition>\d+)_(?P<first>\d{20})")
_CHAIN: Final = re.compile(r"(?P<generation>\d+)/(?P<partition>\d+)/(?P<first>\d{20})\.(?P<kind>intent|commit)")
_REWRITTEN: Final = re.compile(r"(current|\d+/hint/\d+)")


class Piece(NamedTuple):
    """An object that readers read."""

    key: str
    names: str
    partition: int


@dataclass
class Found:
    """Of one run: `faults` is empty when the bucket is as it should be."""

    pieces: list[Piece] = field(default_factory=list)
    records: int = 0
    filtered: int = 0
    faults: list[str] = field(default_factory=list)


class Chains:
    """One listing of a bucket with all its versions."""

    def __init__(self, client: Any, bucket: str, prefix: str = "") -> None:
        self._client, self._bucket = client, bucket
        # By id, as a server may tell the last one of a page again on the next.
        self._versions: dict[str, set[str]] = defaultdict(set)
        self._markers: list[str] = []
        for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
            for each in page.get("Versions", ()):
                self._versions[each["Key"]].add(each["VersionId"])
            self._markers += [each["Key"] for each in page.get("DeleteMarkers", ())]

    def body(self, key: str) -> bytes:
        """An object's bytes."""
        found: bytes = self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        return found

    def found(self, run: Ran, keep: Callable[[Piece, bytes], None] = lambda _piece, _body: None) -> Found:
        """What readers read of a run, and all that is not as it should be; `keep` is given each of those objects."""
        found = Found()
        head = f"{run.prefix}/{run.topic}/"
        chain_head = f"{run.prefix}/_chain/{run.topic}~"
        keys = [key for key in self._versions if key.startswith(f"{run.prefix}/")]
        found.faults += [f"{key} was deleted" for key in self._markers if key.startswith(f"{run.prefix}/")]
        keys = [key for key in keys if key not in self._markers]
        data = {key: match for key in keys if (match := _DATA.fullmatch(key.removeprefix(head)))}
        below = {key: key.removeprefix(chain_head).partition("/")[2] for key in keys if key.startswith(chain_head)}
        chain = {key: match for key, rest in below.items() if (match := _CHAIN.fullmatch(rest))}
        rewritten = {key for key, rest in below.items() if _REWRITTEN.fullmatch(rest)}
        found.faults += [f"{key} is no name of the lake" for key in keys if key not in {*data, *chain, *rewritten}]
        found.faults += [
            f"{key} has {len(self._versions[key])} versions" for key in (*data, *chain) if len(self._versions[key]) != 1
        ]
        pointers = [key for key in rewritten if key.endswith("/current")]
        if len(pointers) != 1:
            found.faults.append(f"it has {len(pointers)} pointers")
            return found
        entries = json.loads(self.body(pointers[0]))["entries"]
        if len(entries) != run.generations:
            found.faults.append(f"its pointer has {len(entries)} entries, not {run.generations}")
        commits = self._commits(chain)
        live = {at: commit for at, commit in commits.items() if _read_in(entries, at[1], at[2]) == at[0]}
        self._whole(run, live, found)
        self._promises(chain, live, commits, entries, data, found)
        self._listed(head, live, data, found, keep)
        return found

    def _commits(self, chain: Mapping[str, re.Match[str]]) -> dict[tuple[int, int, int], Any]:
        """By generation, partition and first offset."""
        return {_place(match): json.loads(self.body(key)) for key, match in chain.items() if match["kind"] == "commit"}

    def _whole(self, run: Ran, live: Mapping[tuple[int, int, int], Any], found: Found) -> None:
        """What is read begins at 0, has no hole, and ends where the log does."""
        for partition, end in run.ends.items():
            at = 0
            for _, place, first in sorted(live, key=lambda each: each[2]):
                if place != partition:
                    continue
                if first != at:
                    found.faults.append(f"partition {partition}: a cut begins at {first}, the one before ends at {at}")
                at = next(commit["next"] for key, commit in live.items() if key[1:] == (partition, first))
            if at != end:
                found.faults.append(f"partition {partition}: all is stored up to {at}, and the log ends at {end}")
        for commit in live.values():
            found.filtered += commit["filtered"]
            if commit["gaps"]:
                found.faults.append(f"the cut at {commit['first']} tells of {commit['gaps']}")

    @staticmethod
    def _promises(
        chain: Mapping[str, re.Match[str]],
        live: Mapping[tuple[int, int, int], Any],
        commits: Mapping[tuple[int, int, int], Any],
        entries: list[Any],
        data: Mapping[str, re.Match[str]],
        found: Found,
    ) -> None:
        """Promises are kept unless another generation has their offsets; objects are listed or of such a promise."""
        intents = {_place(match) for match in chain.values() if match["kind"] == "intent"}
        found.faults += [f"a commit without an intent: {at}" for at in commits if at not in intents]
        for at in intents - commits.keys():
            if _read_in(entries, at[1], at[2]) == at[0]:
                found.faults.append(f"an intent without a commit: {at}")
        listed = {file[0] for commit in commits.values() for file in commit["files"]}
        for key, match in data.items():
            at = _place(match)
            if key not in listed and (at in commits or at not in intents):
                found.faults.append(f"{key} is listed nowhere")

    def _listed(
        self,
        head: str,
        live: Mapping[tuple[int, int, int], Any],
        data: Mapping[str, re.Match[str]],
        found: Found,
        keep: Callable[[Piece, bytes], None],
    ) -> None:
        """Each object that a commit lists is there, with its bytes."""
        for at, commit in live.items():
            for key, size, sha256, records, *_ in commit["files"]:
                match = data.get(key)
                if match is None or _place(match) != at or not key.startswith(head):
                    found.faults.append(f"the commit of {at} lists {key}, which is not there")
                    continue
                body = self.body(key)
                if (len(body), hashlib.sha256(body).hexdigest()) != (size, sha256):
                    found.faults.append(f"{key} has other bytes than its commit says")
                found.records += records
                found.pieces.append(Piece(key, match["names"], at[1]))
                keep(found.pieces[-1], body)


def _place(match: re.Match[str]) -> tuple[int, int, int]:
    return int(match["generation"]), int(match["partition"]), int(match["first"])


def _read_in(entries: Iterable[Any], partition: int, first: int) -> int | None:
    """The generation of the newest entry that holds a cut."""
    for entry in reversed(list(entries)):
        ranges = entry["cuts"].get(str(partition))
        if ranges is None:
            if entry["others"]:
                return int(entry["generation"])
            continue
        if any(start <= first and (until is None or first < until) for start, until in ranges):
            return int(entry["generation"])
    return None
