"""The demo itself: stack, shop, DAGs through Airflow's REST interface, orders, comparison, audit.

Everything that the pipeline does is started as a user would start it, from Airflow; the demo only writes orders, and
searches. `Demo.run` leaves the stack running; whoever made it takes it down.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from demo import pipeline
from demo.airflow import Airflow
from demo.comparison import DemoComparison, compare
from demo.extras import DemoPart
from demo.kept_audit import found, judged_nothing
from demo.latency import Latencies, percentile
from demo.orders_index import OrdersIndex
from demo.part_summary import PartSummary, together
from demo.screen import Figures, Screen, ScreenStage
from demo.shop.connection import ShopServer
from demo.shop.counts import CommittedRow
from demo.shop.generator import Shop
from demo.shop.truth import truth
from include.audit.history import dag_of
from include.clock import Clock
from include.errors import Terminal, Transient
from include.local.footprint import resident_mb
from include.local.stack import Stack
from include.settings.connections import Elasticsearch
from include.settings.deployment import Deployment

__all__ = ["Demo", "Summary"]

_SEARCH_EVERY_S = 0.2
_FIGURES_EVERY_S = 1.0
_MEMORY_EVERY_S = 10.0
_SEARCHED_AT_ONCE = 500
_FIRST_ORDER_WITHIN_S = 300.0
_EQUAL_WITHIN_S = 120.0
# A run of audit_tables has a job for each table, two at a time: seven minutes beside all applications on two cores.
_DAG_WITHIN_S = 1800.0


@dataclass(frozen=True)
class Summary:
    """What the demo saw. Order ids in `different_orders` and `missing_orders`: the first few.

    `searchable`, `different`, `missing`: orders of `shop truth`, compared field by field once the shop was quiet.
    `p50_s`, `p99_s`: from the commit of a final row in MySQL to a search that shows it. `first_searchable_s`: from
    the command to the first such search. `memory_mb`: the most that all processes together held resident.
    `orders_per_s`: what the shop came to, which is less than it was told where the machine has too little for all.
    `parts`: what further parts of the platform have come to, `told` the same in words.
    """

    searchable: int
    different: int
    missing: int
    extra: int
    p50_s: float | None
    p99_s: float | None
    first_searchable_s: float
    orders: int
    orders_per_s: float
    rows: int
    audit: str
    memory_mb: int
    explanation: list[str] = field(default_factory=list)
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    parts_good: bool = True

    @property
    def good(self) -> bool:
        """Whether every order is searchable and equal, the audits are clean, and further parts are content."""
        right = not (self.different or self.missing or self.extra) and self.searchable > 0
        return right and self.audit == "clean" and self.parts_good

    def to_json(self) -> dict[str, Any]:
        """Plain values; seconds to the millisecond."""
        return {k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(self).items()}


class Demo:
    """One run of the demo on a stack that is up.

    Args:
        stack: the servers.
        env: the stack's values, by name.
        parts: further parts of the platform that join in.
        screen: shows how far the demo is.
        clock: for times and waits.
        begun_s: when the demo began, by the clock's monotonic seconds.
    """

    def __init__(
        self,
        stack: Stack,
        env: dict[str, str],
        parts: Sequence[DemoPart],
        screen: Screen,
        clock: Clock,
        *,
        begun_s: float,
    ) -> None:
        self._stack, self._parts, self._screen, self._clock = stack, parts, screen, clock
        self._begun_s, self._env = begun_s, env
        self._shop_server = ShopServer.from_environment(values=env)
        self._index = OrdersIndex(Deployment.load().one("elasticsearch", Elasticsearch))
        self._airflow = Airflow(
            env["LYREBIRD_AIRFLOW"], env["LYREBIRD_AIRFLOW_USER"], env["LYREBIRD_AIRFLOW_PASSWORD"], clock
        )
        self._latencies = Latencies()
        self._memory_mb = 0
        self._weighed_s = float("-inf")
        self._orders = 0
        self._shop: Shop | None = None

    def run(self, orders: int, rate: float, seed: int) -> Summary:
        """Place `orders` at `rate` a second, wait until all is quiet, compare, audit."""
        self._orders = orders
        with Shop(self._shop_server.connect, seed, clock=self._clock) as shop, contextlib.ExitStack() as beside:
            self._shop = shop
            self._screen.step("the shop opens: tables and reference data")
            shop.prepare()
            for writing in [each for part in self._parts for each in part.writings]:
                beside.enter_context(writing(self._env, seed, self._clock))
            self._screen.step("Airflow starts snapshot, assembler and indexer, then the replication")
            pipeline.await_snapshots(self._airflow, pipeline.start(self._airflow, self._parts))
            with self._searching():
                first_s = self._first_order(shop)
                self._screen.step(f"{orders} orders at {rate:g} a second")
                began_s = self._clock.monotonic_s()
                shop.run(rate, orders=max(orders - 1, 0), on_event=self._on_event)
                placing_s = self._clock.monotonic_s() - began_s
                self._screen.step("the shop closes: orders in flight are finished")
                shop.quiesce(self._on_event)
                self._screen.step("truth against search, field by field")
                comparison = self._compare_until_equal()
        # Closings wait until their part has come to rest: a join that has said nothing yet cannot be audited.
        told = {part.name: self._closed(part) for part in self._parts if part.closings}
        audit, runs = self._verdict([dag for part in self._parts for dag in part.verdicts])
        for part in self._parts:
            if part.audits:
                said = [found(kind, runs[dag_of(kind)]) for kind in part.audits]
                told[part.name] = together([*([told[part.name]] if part.name in told else []), *said])
        seconds = self._latencies.seconds()
        return Summary(
            searchable=comparison.searchable,
            different=len(comparison.different),
            missing=len(comparison.missing),
            extra=len(comparison.extra),
            p50_s=percentile(seconds, 0.5),
            p99_s=percentile(seconds, 0.99),
            first_searchable_s=first_s,
            orders=orders,
            orders_per_s=max(orders - 1, 0) / max(placing_s, 1e-9),
            rows=len(seconds),
            audit=audit,
            memory_mb=self._memory_mb,
            explanation=comparison.explain(),
            parts={name: dict(part_told.values) for name, part_told in told.items()},
            told=[line for part_told in told.values() for line in part_told.lines],
            parts_good=all(part_told.good for part_told in told.values()),
        )

    def _closed(self, part: DemoPart) -> PartSummary:
        self._screen.step(f"{part.name}: what it has come to")
        return together(closing(self._clock) for closing in part.closings)

    def close(self) -> None:
        """Give up connections."""
        self._airflow.close()
        self._index.close()

    def _first_order(self, shop: Shop) -> float:
        """Place one order, finish it, and wait until search shows it; seconds since the demo began."""
        self._screen.step("the first order, from MySQL to search")
        shop.run(1000, orders=1, on_event=self._on_event)
        shop.quiesce(self._on_event)
        start_s = self._clock.monotonic_s()
        while self._latencies.waiting():
            if self._clock.monotonic_s() - start_s > _FIRST_ORDER_WITHIN_S:
                raise Terminal(
                    "the first order never became searchable",
                    waited_s=_FIRST_ORDER_WITHIN_S,
                    fix="`lyrebird status` shows which application lags; its task log in Airflow says why.",
                )
            self._clock.sleep(_SEARCH_EVERY_S)
        # The first one measures the platform's start, not its speed.
        self._latencies = Latencies()
        return self._clock.monotonic_s() - self._begun_s

    def _on_event(self, event: CommittedRow) -> None:
        if event.final:
            self._latencies.committed(event.order_id, event.order_row_id, event.committed_us)

    @contextlib.contextmanager
    def _searching(self) -> Iterator[None]:
        """Search for awaited orders and refresh the screen, in threads of their own, until the block ends."""
        over = threading.Event()

        def search() -> None:
            while not over.is_set():
                awaited = self._latencies.awaited(_SEARCHED_AT_ONCE)
                if awaited:
                    shown = self._index.rows(awaited)
                    self._latencies.seen(shown, self._clock.now_us())
                over.wait(_SEARCH_EVERY_S)

        def show() -> None:
            while not over.is_set():
                self._screen.figures(self._figures())
                over.wait(_FIGURES_EVERY_S)

        threads = [threading.Thread(target=work, daemon=True) for work in (search, show)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def _figures(self) -> Figures:
        status = self._stack.status()
        now_s = self._clock.monotonic_s()
        if now_s - self._weighed_s > _MEMORY_EVERY_S:
            self._weighed_s = now_s
            self._memory_mb = max(self._memory_mb, resident_mb(status.state))
        seconds = self._latencies.seconds()
        shown = [name for part in self._parts for name in part.applications]
        by_name = {application.application: application for application in status.applications}
        stages = []
        for name in shown:
            found = by_name.get(name)
            numbers = found.numbers if found and found.alive else {}
            commit_s = numbers.get("lyrebird_position_commit_seconds")
            stages.append(
                ScreenStage(
                    name=name,
                    state=_state(numbers),
                    position=_time_of_day(commit_s),
                    lag_s=numbers.get("lyrebird_lag_seconds"),
                    lag_records=numbers.get("lyrebird_lag_records"),
                    done=_done(numbers),
                )
            )
        return Figures(
            placed=self._shop.counts.placed if self._shop else 0,
            orders=self._orders,
            documents=self._index.count(),
            waiting=self._latencies.waiting(),
            p50_s=percentile(seconds, 0.5),
            p99_s=percentile(seconds, 0.99),
            stages=tuple(stages),
        )

    def _compare_until_equal(self) -> DemoComparison:
        """Compare until equal, or until the pipeline has had its time."""
        start_s = self._clock.monotonic_s()
        connection = self._shop_server.connect()
        try:
            while True:
                with contextlib.suppress(Transient):
                    comparison = compare(truth(connection), self._index.bodies())
                    if comparison.equal or self._clock.monotonic_s() - start_s > _EQUAL_WITHIN_S:
                        return comparison
                if self._clock.monotonic_s() - start_s > 2 * _EQUAL_WITHIN_S:
                    raise Terminal("the index does not answer", fix="`lyrebird status`, `lyrebird logs elasticsearch`.")
                self._clock.sleep(0.5)
        finally:
            connection.close()

    def _verdict(self, dags: Sequence[str]) -> tuple[str, dict[str, str]]:
        """`clean`, or which audit did not succeed; their runs. One after the other, as each has a Spark of its own."""
        runs, bad = dict[str, str](), list[str]()
        for dag in dags:
            self._screen.step(f"{dag}, by Airflow")
            runs[dag] = self._airflow.trigger(dag)
            state = self._airflow.wait(dag, runs[dag], _DAG_WITHIN_S)
            if state != "success":
                bad.append(f"{dag} {state}")
            elif judged_nothing(dag, runs[dag]):
                bad.append(f"{dag} judged nothing")
        return ", ".join(bad) or "clean", runs


def _time_of_day(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    whole = int(seconds) % 86400
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d} UTC"


def _state(numbers: dict[str, float]) -> Literal["running", "starting"]:
    """An application shows its first figures when its program begins, and these when its session is there."""
    begun = numbers.keys() & {"lyrebird_up_seconds", "lyrebird_lag_seconds"}
    return "running" if begun else "starting"


def _done(numbers: dict[str, float]) -> str:
    parts = (
        ("lyrebird_transactions_total", "transactions"),
        ("lyrebird_documents_total", "documents"),
        ("lyrebird_cuts_total", "cuts"),
        ("lyrebird_set_aside_total", "set aside"),
    )
    return ", ".join(f"{numbers[name]:,.0f} {word}" for name, word in parts if numbers.get(name))
