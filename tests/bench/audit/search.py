"""`python -m tests.bench.audit.search`: what the two search audits cost on a real node, beside the original scheme.

An index of so many documents of 1 KB, 100 of them deleted behind everyone's back. Told are requests, bytes received
and seconds of each audit; of the expected side, which is read from memory here, only the seconds, apart. The
original asks for one count at a time, halving where it is short: how many requests that makes is counted on the same
findings. Ends with 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from include.audit.search.audit import AuditMode
from include.audit.search.report import SearchReport
from tests.bench.servers import halves, served
from tests.support.search.audit_proof import NodeAuditHarness, ids
from tests.support.servers.addresses import elasticsearch_url

__all__ = ["main"]

_LOST: Final = 100
_MOST_BY_COUNTS: Final = 25
_MOST_BY_DIGEST: Final = 5
_MOST_SHARE: Final = 0.01
_AT_ONCE: Final = 10_000
_NOTE: Final = "An order of the usual length, told in words that say nothing and take their place. " * 9


def main() -> int:
    """Fill, lose, audit, tell; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    every, _ = halves(apart=False)
    with tempfile.TemporaryDirectory() as folder, served(["elasticsearch"], Path(folder) / "stack", every) as env:
        world = NodeAuditHarness(elasticsearch_url(env), "bench")
        try:
            told = _measured(world, arguments.documents)
        finally:
            world.close()
    failed = [what for what, (got, most) in told["bounds"].items() if got > most]
    if arguments.json:
        sys.stdout.write(json.dumps({**told, "failed": failed}) + "\n")
    else:
        _tell(told)
    for what in failed:
        sys.stderr.write(f"missed: {what}\n")
    return 1 if failed else 0


def _measured(world: NodeAuditHarness, documents: int) -> dict[str, dict[str, tuple[float, float]]]:
    for start in range(1, documents + 1, _AT_ONCE):
        last = min(start + _AT_ONCE, documents + 1)
        world.topic.write([(n, {"state": f"{n} {_NOTE}"}) for n in range(start, last)])
        world.catch_up()
    started = time.monotonic()
    if not world.audit(scrub="none").clean:
        raise AssertionError("the index is not whole before anything was lost")
    expected_s = time.monotonic() - started
    lost = [n * (documents // _LOST) + 1 for n in range(_LOST)]
    for n in lost:
        world.lose(str(n))
    size = world.size_bytes()
    reports: dict[AuditMode, tuple[SearchReport, float]] = {}
    modes: tuple[AuditMode, ...] = ("bisect", "digest")
    for mode in modes:
        started = time.monotonic()
        report = world.audit(mode, scrub="none")
        reports[mode] = report, time.monotonic() - started
        if sorted(report.missing) != ids(lost) or report.findings != _LOST:
            raise AssertionError(f"{mode} did not find exactly what was lost")
    (counts, counts_s), (sums, sums_s) = reports["bisect"], reports["digest"]
    return {
        "figures": {
            "documents": (documents, 0),
            "index, MB": (size / 1e6, 0),
            "first audit with the topic read, s": (expected_s, 0),
            "bisect, s": (counts_s, 0),
            "bisect, MB": (counts.received_bytes / 1e6, 0),
            "digest, s": (sums_s, 0),
            "digest, MB": (sums.received_bytes / 1e6, 0),
            "one request for each count": (counts.one_by_one, 0),
        },
        "bounds": {
            "bisect, requests": (counts.requests, _MOST_BY_COUNTS),
            "digest, requests": (sums.requests, _MOST_BY_DIGEST),
            "digest, share of the index's bytes": (sums.received_bytes / size, _MOST_SHARE),
        },
    }


def _tell(told: dict[str, dict[str, tuple[float, float]]]) -> None:
    for what, (got, _) in told["figures"].items():
        sys.stdout.write(f"{what:<40}{got:>14,.6g}\n")
    for what, (got, most) in told["bounds"].items():
        sys.stdout.write(f"{what:<40}{got:>14,.6g}   at most {most:g}\n")


if __name__ == "__main__":
    sys.exit(main())
