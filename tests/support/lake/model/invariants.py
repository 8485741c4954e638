"""What must hold of a bucket and its log at the end of a schedule. Reads names and JSON by itself."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

from include.lake.protocol.pointer import read_pointer
from tests.support.lake.model.log import TOPIC
from tests.support.lake.model.simulation import LakeSimulation

FOLDER_OF_CHAIN = f"{TOPIC.prefix}/_chain/{TOPIC.topic}~{TOPIC.topic_id}"


def faults(world: LakeSimulation) -> list[str]:
    """Everything that is wrong, as sentences; empty when nothing is."""
    found = [f"a worker stopped: {text}" for text in world.stopped]
    if not world.finished:
        found.append("it never ends")
    found += [f"{key} was written {n} times" for key, n in world.store.writes.items() if n > 1 and "current" not in key]
    found += [f"{key} was changed after others could read it" for key in world.store.changed if "current" not in key]
    stored: Counter[int] = Counter()
    settled: set[int] = set()
    for generation in sorted({worker.generation for worker in world.workers}):
        commits = _commits(world, generation)
        found += _chain_faults(world, generation, commits)
        listed: set[str] = set()
        for commit in commits:
            found += _commit_faults(world, commit)
            keys = {file[0] for file in commit["files"]}
            found += [f"{key} is in two commits" for key in keys & listed]
            listed |= keys
            if read_pointer(world.store, TOPIC).generation_of(3, commit["first"]) == generation:
                settled |= _excused(world, commit)
                for key in keys:
                    stored.update(_offsets(world, key))
        found += _unlisted(world, generation, commits, listed)
    found += [f"offset {offset} is read {n} times" for offset, n in stored.items() if n > 1]
    for offset in world.log.records:
        if offset not in stored and offset not in world.log.compacted and offset not in settled:
            found.append(f"offset {offset} is lost")
    return found


def _commits(world: LakeSimulation, generation: int) -> list[dict[str, Any]]:
    keys = [info.key for info in world.store.list(f"{FOLDER_OF_CHAIN}/{generation}/3/")]
    return [json.loads(_body(world, key)) for key in keys if key.endswith(".commit")]


def _body(world: LakeSimulation, key: str) -> bytes:
    found = world.store.get(key)
    return found.body if found else b"{}"


def _offsets(world: LakeSimulation, key: str) -> list[int]:
    return list(json.loads(_body(world, key)).get("offsets", []))


def _chain_faults(world: LakeSimulation, generation: int, commits: list[dict[str, Any]]) -> list[str]:
    found = []
    at = world.start_of(generation)
    for commit in commits:
        if commit["first"] != at and generation != 7:
            found.append(f"a commit begins at {commit['first']}, the one before ends at {at}")
        at = commit["next"]
        intent = json.loads(_body(world, f"{FOLDER_OF_CHAIN}/{generation}/3/{commit['first']:020d}.intent"))
        if intent.get("end") != commit["next"]:
            found.append(f"the intent at {commit['first']} says {intent.get('end')}, its commit {commit['next']}")
    if generation == world.live[0].generation and at != world.log.end and commits:
        found.append(f"the chain ends at {at}, the log at {world.log.end}")
    return found


def _commit_faults(world: LakeSimulation, commit: dict[str, Any]) -> list[str]:
    found = []
    for key, size, sha256, records, first, last, *_ in commit["files"]:
        body = _body(world, key)
        offsets = _offsets(world, key)
        if (len(body), hashlib.sha256(body).hexdigest()) != (size, sha256):
            found.append(f"{key} is not as its commit says")
        if (len(offsets), min(offsets, default=None), max(offsets, default=None)) != (records, first, last):
            found.append(f"{key} has not the records that its commit says")
        folder = key.split("/")[-2]
        wrong = [offset for offset in offsets if not _belongs(world, offset, folder, commit)]
        if wrong:
            found.append(f"{key} holds {wrong}, which do not belong there")
    total = sum(file[3] for file in commit["files"])
    if commit["n_records"] != total + commit["filtered"]:
        found.append(f"{commit['n_records']} read, {total} written, {commit['filtered']} filtered")
    most = len(_filtered(world, commit, ()))
    least = len([offset for offset in _filtered(world, commit, world.log.compacted) if offset >= world.log.begin])
    if not least <= commit["filtered"] <= most:
        found.append(f"the commit at {commit['first']} filtered {commit['filtered']}, not {least} to {most}")
    return found


def _belongs(world: LakeSimulation, offset: int, folder: str, commit: dict[str, Any]) -> bool:
    record = world.log.records.get(offset)
    inside = commit["first"] <= offset < commit["next"]
    return record is not None and inside and record.folders[int(commit["config"])] == folder


def _filtered(world: LakeSimulation, commit: dict[str, Any], gone: Any) -> list[int]:
    parser = int(commit["config"])
    span = range(commit["first"], commit["next"])
    records = world.log.records
    return [each for each in span if each in records and records[each].folders[parser] is None and each not in gone]


def _excused(world: LakeSimulation, commit: dict[str, Any]) -> set[int]:
    """Offsets that need no object: filtered ones, and those that the log had lost, as the commit says."""
    lost = {each for first, until, _ in commit["gaps"] for each in range(first, until)}
    return set(_filtered(world, commit, ())) | {each for each in lost if each < world.log.begin}


def _unlisted(world: LakeSimulation, generation: int, commits: list[dict[str, Any]], listed: set[str]) -> list[str]:
    """Objects that no commit lists, although their cut is committed or nobody ever promised it."""
    firsts = {commit["first"] for commit in commits}
    found = []
    for info in world.store.list(f"{TOPIC.prefix}/{TOPIC.topic}/"):
        number, _, first = info.key.split("/")[-1].removesuffix(".seq").split("_")
        if int(number) == generation and info.key not in listed and int(first) in firsts:
            found.append(f"{info.key} is in no commit")
    return found
