"""One run of the lake on a Spark of one-core executors, in a process of its own: asked on stdin, told on stdout.

The groups of the deployment store what the log has, and it ends. A first group's topic warms what is there. In
mid-run an executor may come, or one be killed. Then the chains are audited, and records counted.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from include.audit.chain.audit import audit_chain
from include.clock import SystemClock
from include.lake.definition import declared_groups
from include.lake.groups_spark import build
from include.lake.host import GroupHost
from include.lake.writing.report import GroupReport
from include.metrics.progress import RunFolder
from include.settings.connections import StoreSettings
from include.settings.deployment import Deployment
from include.store.s3 import store_of
from tests.support.spark_cluster import SparkCluster

__all__ = ["WARM", "main"]

WARM: Final = "warm"
_Seen = tuple[float, int]
"""When, and how many records were stored."""
_MID: Final = 0.15
"""The change comes when this share is stored."""


def main() -> int:
    """Do what stdin asks for."""
    asked = json.load(sys.stdin)
    print(json.dumps(_run(Path(asked["folder"]), asked["executors"], asked["change"], asked["records"])))
    return 0


class _Change:
    """An executor that comes or goes once a share is stored, and how fast records are stored before and after."""

    def __init__(self, cluster: SparkCluster, reports: Sequence[GroupReport], change: str, records: int) -> None:
        self._cluster, self._reports, self._change, self._records = cluster, reports, change, records
        self._ended = threading.Event()
        self._thread = ThreadPoolExecutor(1)
        self._changed = self._thread.submit(self._run)

    def end(self) -> dict[str, float]:
        """Records a second before and after it, and the share that was left then."""
        done_s = time.monotonic()
        self.close()
        found = self._changed.result()
        if found is None:
            raise SystemExit("all was stored before the change came: store more")
        (begun_s, begun), (asked_s, asked), (there_s, there) = found
        left = self._records - there
        return {
            "before": (asked - begun) / (asked_s - begun_s),
            "after": left / (done_s - there_s),
            "left": left / self._records,
        }

    def close(self) -> None:
        """Wait no more for it."""
        self._ended.set()
        self._thread.shutdown()

    def _now(self) -> _Seen:
        return time.monotonic(), sum(report.records for report in self._reports)

    def _run(self) -> tuple[_Seen, _Seen, _Seen] | None:
        """When the first cut was whole, when the change was asked for, when it had come; with what was stored by then.

        What a first cut takes is no rate: clients connect.
        """
        begun = self._when(1)
        before = self._when(int(_MID * self._records))
        if begun is None or before is None or begun == before:
            return None
        if self._change == "killed":
            self._cluster.kill()
        else:
            self._cluster.add()
            self._cluster.wait_for_executors()
        return None if self._ended.is_set() else (begun, before, self._now())

    def _when(self, records: int) -> _Seen | None:
        """Once so many are stored; None if all ended before."""
        while (seen := self._now())[1] < records:
            if self._ended.wait(0.05):
                return None
        return seen


def _run(folder: Path, executors: int, change: str, records: int) -> dict[str, Any]:
    """Store the warming topic, then, measured, those of the other groups, `records` together."""
    deployment = Deployment.load(folder, {})
    groups = declared_groups(deployment)
    clock, run = SystemClock(), RunFolder(folder, SystemClock())
    with ExitStack() as stack:
        cluster = SparkCluster(folder)
        stack.callback(cluster.close)
        for _ in range(executors):
            cluster.add()
        built = dict(zip(groups, build(cluster.session(), deployment, groups, clock), strict=True))
        for *_, pool in built.values():
            stack.callback(pool.close)

        def drain(names: Sequence[str]) -> None:
            hosted = [built[name][:2] for name in names]
            GroupHost("bench", hosted, run, clock, lambda: False).drain(flush=True)

        drain([WARM])
        names = [name for name in groups if name != WARM]
        reports = [built[name][1] for name in names]
        begun_s, before_s = time.monotonic(), cluster.cpu_s()
        changing = _Change(cluster, reports, change, records) if change else None
        if changing is not None:
            stack.callback(changing.close)
        drain(names)
        found = {
            "wall_s": time.monotonic() - begun_s,
            # Of a killed one nothing is known any more.
            "cpu_s": None if change == "killed" else cluster.cpu_s() - before_s,
            "cuts": sum(report.cuts for report in reports),
            "rates": changing.end() if changing else {},
        }
    return found | _audited(deployment, names)


def _audited(deployment: Deployment, names: Sequence[str]) -> dict[str, Any]:
    """Records of committed objects, and what the audit of the chains finds."""
    groups = declared_groups(deployment)
    topic = groups[names[0]].topics[0]
    store = store_of(deployment.one("store", StoreSettings))
    try:
        report = audit_chain(store, {name: groups[name] for name in names}, topic, SystemClock().now_us())
    finally:
        store.close()
    return {"stored": [each.records for each in report.groups], "findings": [str(each) for each in report.findings]}


if __name__ == "__main__":
    sys.exit(main())
