"""Stores a Kafka partition exactly once in the object store, whoever works at it and however often it is tried.

The chain in the bucket is the only truth. Everything is written with `If-None-Match: *`. A cut at `first`:

1. Read [first, …) into local files.
2. Put the intent: end and files. Where one stands already, it binds: its range is read again, exactly, unless what
   was read is what it says.
3. Put each file. Where an object stands, its metadata decide: the same bytes are done; other bytes of the same
   intent are adopted, as they come of the same offsets (compaction between the attempts, another library); anything
   else stops the worker.
4. Put the commit. Where one stands, somebody finished.

After an answer that was lost, the object is read before anything is written again. A worker that was asleep meets
its own past: every name of the cut is taken. A re-reading may show less than the intent says (compaction), never
more: then records were told apart otherwise than before, and the worker stops before it stores one of them twice.
(So it does when a new leader still has what the old one had compacted away, in the midst of a cut: go on under a new
generation then.)

Nothing here does I/O or knows the time: `chain` carries the steps out, a model of the tests tries their orders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from include.errors import Terminal
from include.lake.protocol.chain_key import ChainKey, parse_cut_key
from include.lake.protocol.commit_rules import (
    Contradictions,
    agreed,
    as_stored,
    check_reread,
    commit_of,
    fits,
    joined_gaps,
    judge,
    metadata_of,
    planned,
    stopped,
)
from include.lake.protocol.cut import Commit, CutObject, Gap, Intent, Reason
from include.lake.protocol.object_key import digits
from include.lake.protocol.steps import (
    CutCommitted,
    Get,
    Heads,
    ListAfter,
    LocalCut,
    ObjectSeen,
    PutBody,
    PutFile,
    PutFiles,
    PutOutcome,
    ReadRange,
    Steps,
)

__all__ = ["Head", "PlannedEnd", "advance", "find_head", "write_cut"]

_FIX: Final = (
    "Let no lifecycle rule of the bucket touch `_chain/`. Put the commits back from older versions of the bucket; or "
    "raise the group's `revision`: it goes on with what Kafka has."
)


@dataclass(frozen=True, slots=True)
class PlannedEnd:
    """Up to where the upload policy wants the partition stored, and why.

    `policy` and `writer` are noted in the intent, nothing depends on them. `exact`: in one cut, whatever its size.
    `stored`: up to where the topic was stored once, by a generation whose commits are gone.
    """

    until: int
    reason: Reason
    policy: str
    writer: str
    exact: bool = False
    stored: int = 0


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a chain: every offset below `next` is settled.

    `last` is the `first` of its last commit (None: no commit yet), `unfinished` whether an intent stands at `next`,
    `listed` how many commits were listed to find it, `epoch` that of the last commit's last record (None: not known).
    """

    next: int
    last: int | None
    unfinished: bool
    listed: int = 0
    epoch: int | None = None


def advance(chain: ChainKey, start: int, hint: int | None, plan: PlannedEnd, *, known: bool = False) -> Steps[Head]:
    """Carry the chain to `plan.until` at least, from wherever its head is; nothing when it is beyond.

    `start` is where a chain of this generation begins (its entry's range in the pointer), `hint` the `first` of any
    commit, which saves listing those before it; `known`: that commit stood there, so `Terminal` where it is gone.
    """
    head = yield from find_head(chain, start, hint)
    if known and hint is not None and (head.last is None or head.last < hint):
        raise stopped("a commit that stood there is gone: did a lifecycle rule take it?", chain.commit(hint), _FIX)
    while head.next < plan.until:
        commit = yield from write_cut(chain, head.next, plan, begun=head.unfinished, epoch=head.epoch)
        yield CutCommitted(commit)
        # A cut without records changes nothing in what is known.
        epoch = head.epoch if commit.leader_epoch is None else commit.leader_epoch
        head = Head(commit.next, commit.first, unfinished=False, epoch=epoch)
    return head


def find_head(chain: ChainKey, start: int, hint: int | None) -> Steps[Head]:
    """The end of the chain. Its last commit tells, as a cut is begun nowhere but where the one before it ends."""
    keys: tuple[str, ...] = yield ListAfter(f"{chain}/", "" if hint is None else f"{chain}/{digits(hint)}")
    cuts = [parse_cut_key(key, chain) for key in keys]
    commits = [first for first, kind in cuts if kind == "commit"]
    if not commits and hint is not None:
        return (yield from find_head(chain, start, None))
    last = commits[-1] if commits else None
    commit = None if last is None else (yield from _commit(chain, last))
    where, epoch = (start, None) if commit is None else (commit.next, commit.leader_epoch)
    return Head(where, last, unfinished=(where, "intent") in cuts[-2:], listed=len(commits), epoch=epoch)


def write_cut(
    chain: ChainKey, first: int, plan: PlannedEnd, *, begun: bool = False, epoch: int | None = None
) -> Steps[Commit]:
    """Make the cut at `first` whole: that of `plan`, or the one that stands there already (`begun`: it is known to).

    `epoch`: see `ReadRange`.
    Gives the commit that stands at the end, whoever wrote it. For a backfill, too, whose cuts are given one by one.
    """
    local: LocalCut | None = None
    mine: Intent | None = None
    if begun:
        intent = yield from _intent(chain, first)
    else:
        # 1. Read.
        local = yield ReadRange(first, plan.until, plan.exact, epoch=epoch)
        # 2. Promise.
        mine = _promise(chain, first, plan, local)
        intent = yield from _settle_intent(chain, first, mine)
    if intent != mine:
        commit = yield from _commit_or_none(chain, first)
        if commit is not None:
            return agreed(chain, commit, intent)
    if local is None or not fits(local, intent):
        local = yield ReadRange(first, intent.end, True, intent.config, tuple(file.key for file in intent.files), epoch)
        check_reread(chain, first, local, intent)
    # 3. Store.
    stored, gaps = yield from _store(chain, first, local, intent, plan.stored)
    # 4. Commit.
    return (yield from _settle_commit(chain, commit_of(chain, first, intent, local, stored, gaps), intent))


def _promise(chain: ChainKey, first: int, plan: PlannedEnd, cut: LocalCut) -> Intent:
    if not (first < cut.end <= plan.until and (cut.end == plan.until or not plan.exact)):
        raise stopped("a reader ended a cut where it must not", chain.intent(first), end=cut.end, until=plan.until)
    reason: Reason = plan.reason if cut.end == plan.until else "size"
    intent = Intent(cut.end, reason, plan.policy, cut.config, plan.writer, planned(cut.files))
    try:
        intent.check(chain, first)
    except (ValueError, Terminal) as error:
        raise stopped("a reader made files that no cut can have", chain.intent(first), reason=str(error)) from error
    return intent


def _settle_intent(chain: ChainKey, first: int, mine: Intent) -> Steps[Intent]:
    """The intent that stands, mine or another's."""
    contradictions = Contradictions(chain.intent(first))
    while True:
        outcome: PutOutcome = yield PutBody(chain.intent(first), mine.to_bytes())
        if outcome == "created":
            return mine
        found = yield from _intent_or_none(chain, first)
        if found is not None:
            return found
        contradictions.absent((outcome,))


def _store(
    chain: ChainKey, first: int, cut: LocalCut, intent: Intent, once: int
) -> Steps[tuple[list[CutObject], tuple[Gap, ...]]]:
    """Every file of the cut as the store has it, sorted by key, and what the log had lost when they were made."""
    promise = intent.id(chain, first)
    promised = {file.key: file for file in intent.files}
    stored: list[CutObject] = []
    gaps = [gap[:2] for gap in cut.gaps]
    pending = sorted(cut.files, key=lambda file: file.key)
    contradictions = Contradictions(chain.intent(first))
    while pending:
        puts = tuple(PutFile(file, metadata_of(file, promise, cut.gaps)) for file in pending)
        outcomes: tuple[PutOutcome, ...] = yield PutFiles(puts)
        answered = list(zip(pending, outcomes, strict=True))
        stored += [as_stored(file) for file, outcome in answered if outcome == "created"]
        answered = [each for each in answered if each[1] != "created"]
        if not answered:
            break
        seen: tuple[ObjectSeen | None, ...] = yield Heads(tuple(file.key for file, _ in answered))
        pending, absent = [], []
        for (file, outcome), object_seen in zip(answered, seen, strict=True):
            if object_seen is None:
                pending.append(file)
                absent.append(outcome)
            else:
                there, made_with = judge(file, object_seen, promise, promised[file.key])
                stored.append(there)
                gaps += made_with
        contradictions.absent(absent)
    return sorted(stored, key=lambda file: file.key), joined_gaps(first, gaps, once)


def _settle_commit(chain: ChainKey, mine: Commit, intent: Intent) -> Steps[Commit]:
    """The commit that stands, mine or another's."""
    contradictions = Contradictions(chain.commit(mine.first))
    while True:
        outcome: PutOutcome = yield PutBody(chain.commit(mine.first), mine.to_bytes())
        if outcome == "created":
            return mine
        standing = yield from _commit_or_none(chain, mine.first)
        if standing is not None:
            agreed(chain, standing, intent)
            if [file[:3] for file in standing.files] != [file[:3] for file in mine.files]:
                raise stopped("a commit lists other bytes than the store has", chain.commit(mine.first))
            return standing
        contradictions.absent((outcome,))


def _intent(chain: ChainKey, first: int) -> Steps[Intent]:
    found = yield from _intent_or_none(chain, first)
    if found is None:
        raise stopped("an intent that was listed is gone", chain.intent(first))
    return found


def _intent_or_none(chain: ChainKey, first: int) -> Steps[Intent | None]:
    body: bytes | None = yield Get(chain.intent(first))
    return None if body is None else Intent.parse(body, chain, first)


def _commit(chain: ChainKey, first: int) -> Steps[Commit]:
    found = yield from _commit_or_none(chain, first)
    if found is None:
        raise stopped("a commit that was listed is gone", chain.commit(first))
    return found


def _commit_or_none(chain: ChainKey, first: int) -> Steps[Commit | None]:
    body: bytes | None = yield Get(chain.commit(first))
    return None if body is None else Commit.parse(body, chain, first)
