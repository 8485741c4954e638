"""Decides for the protocol whether promises are kept, which objects are adopted, and what a commit says. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from include.errors import Terminal
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.cut import Commit, CutObject, Gap, Intent, PlannedFile, gap_kind
from include.lake.protocol.steps import LocalCut, LocalFile, ObjectSeen, PutOutcome

__all__ = [
    "Contradictions",
    "agreed",
    "as_stored",
    "check_reread",
    "commit_of",
    "fits",
    "joined_gaps",
    "judge",
    "metadata_of",
    "planned",
    "stopped",
]

# A store that says "exists" and then shows nothing, again and again, has deletes going on, or is none of ours.
_MOST: Final = 5


def planned(files: Iterable[LocalFile]) -> tuple[PlannedFile, ...]:
    """Files as an intent names them, sorted by key."""
    found = (PlannedFile(each.key, each.records, each.first, each.last) for each in files)
    return tuple(sorted(found, key=lambda file: file.key))


def fits(cut: LocalCut, intent: Intent) -> bool:
    """Whether what was read before the intent was known is what it says."""
    return (cut.end, cut.config, planned(cut.files)) == (intent.end, intent.config, intent.files)


def check_reread(chain: ChainKey, first: int, cut: LocalCut, intent: Intent) -> None:
    """Less than was promised is compaction or retention; as much in all, or more of anything, must be the same."""
    now = planned(cut.files)
    less = sum(file.records for file in now) < sum(file.records for file in intent.files)
    same_names = [file.key for file in now] == [file.key for file in intent.files]
    whole = (cut.end, cut.config) == (intent.end, intent.config)
    if not (whole and same_names and (now == intent.files or (less and all(map(_within, now, intent.files))))):
        raise stopped(
            "a range read again is told apart otherwise than when its cut was promised",
            chain.intent(first),
            fix="Give this worker the parser that began the cut, or go on under a new generation.",
            promised=[tuple(file) for file in intent.files if file not in now][:3],
            now=[tuple(file) for file in now if file not in intent.files][:3],
        )


def _within(now: PlannedFile, promised: PlannedFile) -> bool:
    if now.first is None or now.last is None:
        return True
    if promised.first is None or promised.last is None:
        return False
    return now.records <= promised.records and promised.first <= now.first and now.last <= promised.last


def metadata_of(file: LocalFile, promise: str, gaps: Iterable[Gap]) -> dict[str, str]:
    """The metadata by which an adopter lists the object; times, offsets and gaps only where there are any.

    The gaps go along, as the adopter may have read the range before retention took a part of it.
    """
    lost = ",".join(f"{gap.first}-{gap.until}" for gap in gaps)
    numbers = {"first": file.first, "last": file.last, "min-ts": file.min_ts, "max-ts": file.max_ts}
    return {
        "intent": promise,
        "sha256": file.sha256,
        "records": str(file.records),
        **{name: str(number) for name, number in numbers.items() if number is not None},
        **({"gaps": lost} if lost else {}),
    }


def as_stored(file: LocalFile) -> CutObject:
    """A local file once its object is there."""
    return CutObject(file.key, *file[2:])


def judge(
    file: LocalFile, found: ObjectSeen, promise: str, promised: PlannedFile
) -> tuple[CutObject, tuple[tuple[int, int], ...]]:
    """The object under a name of ours, the file itself or another attempt's, and the gaps that it was made with.

    `Terminal` when it is neither.
    """
    metadata = found.metadata
    if metadata.get("sha256") == file.sha256 and found.size_bytes == file.bytes:
        return as_stored(file), ()
    if metadata.get("intent") != promise:
        raise stopped(
            "an object that is none of this cut has a name of it",
            file.key,
            fix="Find out who wrote it (two deployments with one prefix?); go on under a new generation.",
            intent=metadata.get("intent"),
        )
    return _adopted(file.key, found.size_bytes, metadata, promised)


def _adopted(
    key: str, size: int, metadata: Mapping[str, str], promised: PlannedFile
) -> tuple[CutObject, tuple[tuple[int, int], ...]]:
    try:
        first, last, least, most = (
            int(metadata[name]) if name in metadata else None for name in ("first", "last", "min-ts", "max-ts")
        )
        adopted = CutObject(key, size, metadata["sha256"], int(metadata["records"]), first, last, least, most, True)
        texts = (text.split("-") for text in metadata.get("gaps", "").split(",") if text)
        gaps = tuple((int(start), int(until)) for start, until in texts)
    except (KeyError, ValueError) as error:
        raise stopped("the metadata of an object cannot be read", key, reason=repr(error)) from error
    if not _within(PlannedFile(key, adopted.records, first, last), promised):
        raise stopped("an object has more than its cut promised", key, records=adopted.records)
    return adopted, gaps


def joined_gaps(first: int, gaps: Iterable[tuple[int, int]], stored: int = 0) -> tuple[Gap, ...]:
    """All gaps of the cut at `first`, sorted, none touching another; `stored`: see `gap_kind`."""
    joined: list[tuple[int, int]] = []
    for start, until in sorted(gaps):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(until, joined[-1][1]))
        else:
            joined.append((start, until))
    return tuple(Gap(start, until, gap_kind(first, stored)) for start, until in joined)


def commit_of(
    chain: ChainKey, first: int, intent: Intent, cut: LocalCut, stored: Sequence[CutObject], gaps: Sequence[Gap]
) -> Commit:
    """The commit of a cut whose files are all stored.

    Args:
        chain: of the Kafka partition and generation.
        first: the cut's first offset.
        intent: the promise that stands.
        cut: what reading the range gave.
        stored: its objects, also those that were adopted: counts and times are of these.
        gaps: what the log had lost, when the cut or one of its files was read.

    Raises:
        Terminal: an object has a name that is none of this cut's.
    """
    least = [time for time in (cut.min_ts, *(file.min_ts for file in stored)) if time is not None]
    most = [time for time in (cut.max_ts, *(file.max_ts for file in stored)) if time is not None]
    refused = sum(file.records for file in stored if chain.parse_data(file.key, first).refused)
    return Commit(
        first=first,
        next=intent.end,
        intent=intent.id(chain, first),
        n_records=cut.filtered + sum(file.records for file in stored),
        filtered=cut.filtered,
        quarantined=refused,
        min_ts=min(least, default=None),
        max_ts=max(most, default=None),
        gaps=tuple(gaps),
        leader_epoch=cut.leader_epoch,
        config=cut.config,
        versions=cut.versions,
        files=tuple(stored),
    )


def agreed(chain: ChainKey, commit: Commit, intent: Intent) -> Commit:
    """`commit`, which stands already, if it keeps the promise; `Terminal` otherwise."""
    if (commit.next, commit.intent) != (intent.end, intent.id(chain, commit.first)):
        raise stopped(
            "a commit is not the one that its intent promised",
            chain.commit(commit.first),
            next=commit.next,
            promised=intent.end,
        )
    return commit


class Contradictions:
    """Counts how often the store says that an object is there and then shows none; `Terminal` when it goes on so."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._count = 0

    def absent(self, outcomes: Iterable[PutOutcome]) -> None:
        """After these answers to puts, nothing was found."""
        self._count += "exists" in outcomes
        if self._count >= _MOST:
            raise stopped(
                "the store says that an object is there, and shows none",
                self._key,
                fix="Who deletes here? Writers and readers of the lake must not.",
            )


def stopped(
    message: str, key: str, fix: str = "Run `lyrebird audit chain` on the topic.", **details: object
) -> Terminal:
    """The error for what must not be, at an object."""
    return Terminal(message, key=key, fix=fix, **details)
