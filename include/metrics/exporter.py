"""`/metrics` of a process, and the note by which `lyrebird status` finds it.

The note is `$LYREBIRD_STATE/metrics/<application>.json`: {"application", "pid", "url"}. A note whose process is
gone is stale; readers check the pid.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Self

import prometheus_client
from prometheus_client import CollectorRegistry

from include.metrics.names import COUNTERS, GAUGES, HELP, Counter, Gauge

__all__ = ["Metrics", "write_atomically"]


class Metrics:
    """The counters and gauges of one process; safe to use from several threads."""

    def __init__(self, application: str) -> None:
        self.application = application
        self._registry = CollectorRegistry()
        self._counters = {
            name: prometheus_client.Counter(
                name.removesuffix("_total"), HELP[name], ["application", "kind"], registry=self._registry
            )
            for name in COUNTERS
        }
        self._gauges = {
            name: prometheus_client.Gauge(name, HELP[name], ["application", "kind"], registry=self._registry)
            for name in GAUGES
        }

    def count(self, name: Counter, by: float = 1, kind: str = "") -> None:
        """Add `by`; `kind` tells apart what one name counts (an op, a table, a reason)."""
        self._counters[name].labels(self.application, kind).inc(by)

    def set(self, name: Gauge, value: float, kind: str = "") -> None:
        """Set a gauge."""
        self._gauges[name].labels(self.application, kind).set(value)

    def text(self) -> str:
        """The exposition text."""
        return prometheus_client.generate_latest(self._registry).decode()

    def serve(self, state: Path, port: int = 0, host: str = "127.0.0.1") -> Self:
        """Answer `/metrics` from a daemon thread (port 0: a free one) and leave the note in the state folder."""
        server, _thread = prometheus_client.start_http_server(port, host, self._registry)
        note = {
            "application": self.application,
            "pid": os.getpid(),
            "url": f"http://{host}:{server.server_port}/metrics",
        }
        folder = state / "metrics"
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / f"{self.application}.json", json.dumps(note))
        return self


def write_atomically(path: Path, text: str) -> None:
    """Readers see the old or the new content, also after a crash: temporary file, fsync, rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
