"""The audit of the lake's chains: beside all that may happen, and over 100,000 commits; unit tests try a sample."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from include.audit.chain.audit import audit_chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit, CutObject, Intent, PlannedFile
from include.lake.protocol.pointer import ReadersPointer
from include.store.memory import MemoryStore
from tests.support.lake.chain_activity import audited_beside
from tests.support.lake.harness import GROUP
from tests.support.servers.fixture import PROVE

COMMITS = 100_000
MOST_CPU_S = 60.0
RECORDS = 1000

pytestmark = pytest.mark.skipif(PROVE not in os.environ, reason=f"takes minutes: set {PROVE}=1")


@pytest.mark.parametrize("start", range(0, 400, 20))
def test_nothing_is_found_beside_writers_upgrades_backfills_and_expiry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    found = {seed: audited_beside(tmp_path / str(seed), seed, monkeypatch) for seed in range(start, start + 20)}
    assert {seed: each for seed, each in found.items() if each[0]} == {}


def filled(chain: ChainKey) -> MemoryStore:
    """A chain of so many cuts, each with one object."""
    store = MemoryStore()
    store.put(chain.of.pointer, ReadersPointer().reserve("revision 1", "live").upgrade(1, {}).to_bytes())
    for first in range(0, COMMITS * RECORDS, RECORDS):
        key = str(chain.data((f"offset={first // 1_000_000 * 1_000_000}",), first, ""))
        end, body = first + RECORDS, key.encode()
        intent = Intent(end, "size", "p", "c" * 64, "w", (PlannedFile(key, RECORDS, first, end - 1),))
        stored = CutObject(key, len(body), hashlib.sha256(body).hexdigest(), RECORDS, first, end - 1, 1, 2)
        promise = intent.id(chain, first)
        commit = Commit(first, end, promise, RECORDS, 0, 0, 1, 2, (), 3, "c" * 64, {"zlib": "1"}, (stored,))
        for name, content in (
            (key, body),
            (chain.intent(first), intent.to_bytes()),
            (chain.commit(first), commit.to_bytes()),
        ):
            store.put(name, content)
    return store


def test_100_000_commits_take_less_than_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    chain = ChainKey(TopicKey("raw", "e", "q2mGjA1dRHyJ8pAQ1gK9xw"), 1, 0)
    store = filled(chain)
    told = []
    for what, summaries in (("without summaries, which it writes", 100), ("with them", 0), ("with all but one", 1)):
        if summaries == 1:
            store.delete(chain.summary(50_000 * RECORDS))
        begin_s = time.process_time()
        report = audit_chain(store, {"raw": GROUP}, "e", 0)
        took_s = time.process_time() - begin_s
        told.append(f"audit of {COMMITS:,} commits {what}: {took_s:.1f} s of CPU")
        assert report.clean
        assert (report.groups[0].commits, report.groups[0].summaries) == (COMMITS, summaries)
        assert took_s < MOST_CPU_S
    with capsys.disabled():
        print("\n" + "\n".join(told))
