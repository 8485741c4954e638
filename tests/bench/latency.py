"""`python -m tests.bench.latency`: from a commit in MySQL to a search that shows it, at 200 orders a second.

The whole platform with default settings, started as a user starts it: `lyrebird demo --once`, whose shop writes at this
rate while the demo searches for each order that it has committed. Ends with 1 when a bound is missed, when the demo
says that search is not the truth, or when the machine had too little left for the shop to come to this rate.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any, Final

from include.settings.environment import PROJECT_ROOT

__all__ = ["main"]

_MOST_P50_S: Final = 2.5
_MOST_P99_S: Final = 5.0
_LEAST_OF_RATE: Final = 0.95


def main() -> int:
    """Run the demo, tell, judge; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=12_000)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    found = _demo(arguments.orders, arguments.rate)
    p50_s, p99_s = found["p50_s"], found["p99_s"]
    fast = p50_s is not None and p50_s < _MOST_P50_S and p99_s < _MOST_P99_S
    reached = found["orders_per_s"] >= _LEAST_OF_RATE * arguments.rate
    held = found["good"] and fast and reached
    if arguments.json:
        print(json.dumps(found | {"rate": arguments.rate, "load": load, "held": held}))
        return 0 if held else 1
    print(f"commit to searchable, {found['rows']} rows of {found['orders']} orders, {arguments.rate:g} orders/s:")
    short = "" if reached else ": the machine had too little left for it"
    print(f"the shop came to {found['orders_per_s']:.0f} orders/s{short}")
    print(f"p50 {p50_s} s (less than {_MOST_P50_S:g} is wanted), p99 {p99_s} s (less than {_MOST_P99_S:g})")
    print(f"load when it began: {load:.1f}; search is the truth: {'yes' if found['good'] else 'NO'}")
    print("held" if held else "MISSED")
    return 0 if held else 1


def _demo(orders: int, rate: float) -> dict[str, Any]:
    command = ["-m", "include", "demo", "--once", "--json", "--orders", str(orders), "--rate", str(rate)]
    done = subprocess.run([sys.executable, *command], cwd=PROJECT_ROOT, stdout=subprocess.PIPE, text=True, check=False)
    try:
        found = dict(json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError) as error:
        raise SystemExit(f"the demo did not come to its end: exit code {done.returncode}") from error
    return found | {"good": done.returncode == 0}


if __name__ == "__main__":
    sys.exit(main())
