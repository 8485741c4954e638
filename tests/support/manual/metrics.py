"""docs/metrics.md: every metric, with what a high value means."""

from __future__ import annotations

from typing import Final

from include.metrics.names import COUNTERS, GAUGES, HELP
from tests.support.manual.tables import table

__all__ = ["HEAD", "page"]

HEAD: Final = """\
# Metrics

Every metric that an application or capture serves to Prometheus, with what a high value means. Made from the declared
names (`python -m tests.support.manual`).
"""


def page() -> str:
    """The page, as Markdown."""
    counters, gauges = (
        table("metric", "meaning", rows=(f"| `{name}` | {HELP[name]} |" for name in names))
        for names in (COUNTERS, GAUGES)
    )
    return f"{HEAD}\n## Counters\n\n{counters}\n## Gauges\n\n{gauges}"
