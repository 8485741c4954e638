"""`python -m tests.bench.search`: a user's order history, from the index and by a join of four tables in the database.

Readers open the newest page of users drawn at random, each with a pause between pages, as people do; the same number,
pauses and users for both sides, in rounds that take turns. Meanwhile the shop writes: its own transactions are measured
with no readers, with those of the index and with those of the database, and the index takes each new order, with the
refresh interval that is shipped. Both servers share the machine with the bench. First readers without pauses, until
caches are warm and the index's server has compiled itself; at the end the database once more, with the buffer pool that
it has by default, too small for the shop. Ends with 1 when a bound is missed; the database that counts is the one that
holds all in memory.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import psutil
from pymysql.connections import Connection

from tests.bench.search_place import ORDERS_OF_A_USER, SearchPlace, search_placed

__all__ = ["main"]

Mode = Literal["no readers", "index", "database", "small pool"]
_MODES: Final[tuple[Mode, ...]] = ("no readers", "index", "database")
_DEFAULT_POOL_MB: Final = 128
_MOST_P95_MS: Final = 50.0
_MOST_RATIO: Final = 0.1
_INDEX_EVERY_S: Final = 0.5

_HISTORY: Final = """
SELECT o.order_id, o.state, o.currency, f.created, o.user_id, o.business_id,
       a.street, a.city, a.postal_code, a.country, a.lat, a.lon, p.name, p.site,
       l.line_no, l.name, l.description, l.category, l.quantity, l.price
FROM (SELECT order_id, MIN(created_at) AS created, MAX(IF(state = 'pending', 0, id)) AS newest
      FROM orders WHERE user_id = %s GROUP BY order_id HAVING newest > 0
      ORDER BY created DESC, order_id DESC LIMIT %s) f
JOIN orders o ON o.id = f.newest
JOIN addresses a ON a.id = o.address_id
JOIN partners p ON p.id = o.partner_id
JOIN order_lines l ON l.order_row_id = o.id
ORDER BY f.created DESC, o.order_id DESC, l.line_no
"""


@dataclass
class Round:
    """Latencies in seconds; `cpu_s` of both servers."""

    seconds: float
    pages: list[float] = field(default_factory=list)
    transactions: list[float] = field(default_factory=list)
    cpu_s: dict[str, float] = field(default_factory=dict)


class Load:
    """Readers and one writer, for one round."""

    def __init__(self, place: SearchPlace, arguments: argparse.Namespace) -> None:
        self._place, self._arguments = place, arguments
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._broken: list[BaseException] = []
        # One for all readers, as a process shares it.
        self._search = place.search()

    def run(self, mode: Mode, seed: int) -> Round:
        """One round of `mode`."""
        round_ = Round(self._arguments.seconds)
        threads = [threading.Thread(target=self._guarded, args=(lambda: self._write(round_),))]
        for number in range(self._arguments.readers if mode != "no readers" else 0):
            # The same users in the same order for either side.
            rng = random.Random(f"{seed}/{number}")
            threads.append(
                threading.Thread(target=self._guarded, args=(lambda rng=rng: self._read(mode, rng, round_),))
            )
        servers = {name: _process(port) for name, port in self._place.ports.items()}
        before = {name: _cpu_s(each) for name, each in servers.items()}
        for thread in threads:
            thread.start()
        self._ended.wait(self._arguments.seconds)
        self._ended.set()
        for thread in threads:
            thread.join()
        if self._broken:
            raise self._broken[0]
        round_.cpu_s = {name: _cpu_s(each) - before[name] for name, each in servers.items()}
        return round_

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told by the thread that waits
            self._broken.append(error)
            self._ended.set()

    def _read(self, mode: Mode, rng: random.Random, round_: Round) -> None:
        size, pause_s = self._arguments.page, self._arguments.pause_ms / 1000
        connection = None if mode == "index" else self._place.shop.connect()
        try:
            while not self._ended.wait(rng.uniform(0, 2 * pause_s)):
                user = 100_001 + rng.randrange(self._place.users)
                began = time.perf_counter()
                if connection is None:
                    found: int = len(self._search.of_user(user, size).hits)
                else:
                    found = len(_history(connection, user, size))
                took = time.perf_counter() - began
                if found != min(size, ORDERS_OF_A_USER):
                    raise SystemExit(f"user {user} has {found} orders")
                with self._lock:
                    round_.pages.append(took)
        finally:
            if connection is not None:
                connection.close()

    def _write(self, round_: Round) -> None:
        """Two transactions for each order: placed, completed. What is done is indexed twice a second."""
        place, every_s = self._place, 2 / self._arguments.writes_per_s
        indexed_s = began_s = time.perf_counter()
        waiting: list[int] = []
        number = 0
        with place.shop.connect() as connection:
            while not self._ended.wait(max(0.0, began_s + number * every_s - time.perf_counter())):
                number += 1
                place.orders += 1
                for statements in _order(place, place.orders):
                    started = time.perf_counter()
                    with connection.cursor() as cursor:
                        for statement, values in statements:
                            cursor.execute(statement, values)
                    connection.commit()
                    round_.transactions.append(time.perf_counter() - started)
                waiting.append(place.orders)
                if time.perf_counter() - indexed_s > _INDEX_EVERY_S:
                    place.write(waiting)
                    waiting, indexed_s = [], time.perf_counter()
        if waiting:
            place.write(waiting)


def main() -> int:
    """Fill, measure, tell; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=1_000_000, help=f"in all; each user has {ORDERS_OF_A_USER}")
    parser.add_argument("--readers", type=int, default=20)
    parser.add_argument("--pause-ms", type=float, default=200, help="mean pause of a reader between pages")
    parser.add_argument("--page", type=int, default=20, help="orders of a page")
    parser.add_argument("--writes-per-s", type=float, default=100, help="the shop's own transactions")
    parser.add_argument("--seconds", type=float, default=15, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--warm-s", type=float, default=40, help="of readers without pauses, each side, before it counts"
    )
    parser.add_argument(
        "--pool-mb", type=int, default=1024, help="the database's buffer pool; the index's heap is 1 GB"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    if arguments.orders % ORDERS_OF_A_USER or arguments.page > ORDERS_OF_A_USER:
        parser.error(f"orders are a multiple of {ORDERS_OF_A_USER}, a page has as many at most")
    rounds: dict[Mode, list[Round]] = {mode: [] for mode in (*_MODES, "small pool")}
    warming = argparse.Namespace(**vars(arguments) | {"pause_ms": 0, "seconds": arguments.warm_s})
    with search_placed(arguments.orders, arguments.pool_mb) as place:
        Load(place, warming).run("index", -1)
        Load(place, warming).run("database", -1)
        for number in range(arguments.rounds):
            for mode in _MODES:
                print(f"round {number + 1} of {arguments.rounds}: {mode}", file=sys.stderr)
                rounds[mode].append(Load(place, arguments).run(mode, number))
        place.pool(_DEFAULT_POOL_MB)
        Load(place, warming).run("small pool", -1)
        for number in range(arguments.rounds):
            rounds["small pool"].append(Load(place, arguments).run("small pool", number))
    return _tell(rounds, arguments)


def _history(connection: Connection[Any], user: int, size: int) -> list[dict[str, Any]]:
    """The page as nested values, as the index's client gives them."""
    with connection.cursor() as cursor:
        cursor.execute(_HISTORY, (user, size))
        rows = cursor.fetchall()
    connection.commit()  # each page is of its own moment
    orders: dict[int, dict[str, Any]] = {}
    for row in rows:
        order = orders.get(row[0])
        if order is None:
            names = ("order_id", "state", "currency", "created_at", "user_id", "business_id")
            address = dict(zip(("street", "city", "postal_code", "country", "lat", "lon"), row[6:12], strict=True))
            partner = {"name": row[12], "site": row[13]}
            order = dict(zip(names, row[:6], strict=True)) | {"address": address, "partner": partner, "lines": []}
            orders[row[0]] = order
        line = zip(("line_no", "name", "description", "category", "quantity", "price"), row[14:], strict=True)
        order["lines"].append(dict(line))
    return list(orders.values())


def _order(place: SearchPlace, number: int) -> list[list[tuple[str, tuple[Any, ...]]]]:
    """The statements of an order's two transactions. It comes a year later than those that are there."""
    user, business = 100_001 + number % place.users, 1 + number % 5
    partner = "(SELECT partner_id FROM businesses WHERE id = %s)"
    row = (
        "INSERT INTO orders SELECT %s, %s, %s, 1, %s, %s, %s, "
        f"{partner}, %s, %s, NULL, 'EUR', 30, NULL, '2026-01-01' + INTERVAL %s SECOND"
    )
    lines = "INSERT INTO order_lines SELECT NULL, %s, seq, 1, CONCAT('Dish ', seq), 'With everything', 'Mains', seq, 5"
    common = (user, business, business, number, number, number)
    return [
        [
            ("INSERT INTO order_numbers VALUES (%s, %s)", (number, user)),
            ("INSERT INTO order_entries SELECT %s, MIN(code), NULL, NULL, '' FROM channels", (number,)),
            ("INSERT INTO addresses VALUES (%s, %s, 'Street', 'Town', '8000', 'CH', 46, 8, NULL)", (number, user)),
            (row, (2 * number - 1, number, None, "pending", *common)),
        ],
        [
            (row, (2 * number, number, 2 * number - 1, "completed", *common)),
            (f"{lines} FROM seq_1_to_3", (2 * number,)),
        ],
    ]


def _process(port: int) -> psutil.Process:
    """The server that listens there."""
    for each in psutil.net_connections(kind="tcp"):
        if each.status == psutil.CONN_LISTEN and tuple(each.laddr)[1:2] == (port,) and each.pid is not None:
            return psutil.Process(each.pid)
    raise SystemExit(f"nobody listens on port {port}")


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _percentiles_ms(values: list[float]) -> tuple[float, float, float]:
    if not values:
        return 0.0, 0.0, 0.0
    ordered = sorted(values)
    p50, p95, p99 = (1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.95, 0.99))
    return p50, p95, p99


def _tell(rounds: dict[Mode, list[Round]], arguments: argparse.Namespace) -> int:
    a = arguments
    reads = f"{a.readers} readers with pauses of {a.pause_ms:g} ms, pages of {a.page}"
    shop = f"{a.writes_per_s:g} transactions/s of the shop; {a.rounds} rounds of {a.seconds:g} s"
    head = "".join(f"{name:>9}" for name in ("p50 ms", "p95 ms", "p99 ms"))
    print_lines = [
        f"{a.orders:,} orders, {reads}; {shop}; buffer pool {a.pool_mb} MB, small {_DEFAULT_POOL_MB} MB",
        f"{'':12}{'pages/s':>9}{head}   {'writes/s':>9}{head}   {'database, cores':>16}{'index, cores':>14}",
    ]
    told: dict[str, Any] = {}
    for mode, found in rounds.items():
        seconds = sum(each.seconds for each in found)
        pages = _percentiles_ms([took for each in found for took in each.pages])
        writes = _percentiles_ms([took for each in found for took in each.transactions])
        a_second = sum(len(each.pages) for each in found) / seconds
        written = sum(len(each.transactions) for each in found) / seconds
        cores = [sum(each.cpu_s[name] for each in found) / seconds for name in ("mariadb", "elasticsearch")]
        told[mode] = {
            "pages_a_s": a_second,
            "pages_ms": pages,
            "writes_a_s": written,
            "writes_ms": writes,
            "cores": cores,
        }
        cells = "".join(f"{value:9.1f}" for value in pages), "".join(f"{value:9.1f}" for value in writes)
        print_lines.append(
            f"{mode:12}{a_second:9.1f}{cells[0]}   {written:9.1f}{cells[1]}   {cores[0]:16.2f}{cores[1]:14.2f}"
        )
    index, database = told["index"]["pages_ms"][1], told["database"]["pages_ms"][1]
    missed = []
    if index >= _MOST_P95_MS:
        missed.append(f"p95 of the index is {index:.1f} ms, wanted less than {_MOST_P95_MS:g}")
    if index > _MOST_RATIO * database:
        missed.append(f"p95 of the index is {index / database:.2f} of the database's, wanted {_MOST_RATIO:g} at most")
    pool = told["small pool"]["pages_ms"][1]
    print_lines.append(
        f"p95 of the index: {index / database:.2f} of the database's, {index / pool:.2f} with a small pool"
    )
    print_lines += [f"MISSED: {each}" for each in missed]
    print(json.dumps({**told, "missed": missed}) if a.json else "\n".join(print_lines))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
