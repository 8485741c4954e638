"""Which topics forget what they have to keep, and by which settings they would not."""

from __future__ import annotations

import logging

import pytest

from include.errors import Terminal
from include.log.memory import MemoryLog
from include.log.publishing.retention import require_kept, what_forgets
from include.log.topics import document_spec

DECLARED = document_spec("docs", 1)
WEEK_MS = str(7 * 86_400_000)
KEPT = {"cleanup.policy": "compact", "delete.retention.ms": WEEK_MS, "retention.ms": "-1", "retention.bytes": "-1"}


@pytest.mark.parametrize(
    ("has", "mended"),
    [
        ({}, {}),
        ({"delete.retention.ms": str(2 * int(WEEK_MS))}, {}),
        ({"retention.ms": "604800000"}, {}),
        ({"delete.retention.ms": "86400000"}, {"delete.retention.ms": WEEK_MS}),
        ({"cleanup.policy": "delete"}, {"cleanup.policy": "compact"}),
        (
            {"cleanup.policy": "compact,delete", "retention.ms": "604800000"},
            {"cleanup.policy": "compact", "retention.ms": "-1"},
        ),
        (
            {"cleanup.policy": "delete", "retention.bytes": "1000000", "delete.retention.ms": "1"},
            {"cleanup.policy": "compact", "retention.bytes": "-1", "delete.retention.ms": WEEK_MS},
        ),
    ],
)
def test_a_topic_forgets_by_the_settings_that_have_to_be_altered(has: dict[str, str], mended: dict[str, str]) -> None:
    assert what_forgets(KEPT | has, DECLARED.config) == mended
    assert what_forgets(KEPT | has | mended, DECLARED.config) == {}


def test_where_settings_may_not_be_seen_a_warning_is_all(caplog: pytest.LogCaptureFixture) -> None:
    class Silent:
        def settings(self, topic: str) -> None:
            """Kafka does not tell."""

    with caplog.at_level(logging.WARNING):
        require_kept(DECLARED, Silent())  # type: ignore[arg-type]
    assert "docs may forget" in caplog.text


def test_a_topic_that_forgets_is_refused_with_the_command_that_mends_it() -> None:
    log = MemoryLog()
    log.admin().ensure(DECLARED)
    require_kept(DECLARED, log.admin())
    log.configure("docs", {"cleanup.policy": "delete", "retention.ms": "604800000"})
    with pytest.raises(Terminal, match=r"--entity-name docs --add-config cleanup\.policy=compact,retention\.ms=-1`"):
        require_kept(DECLARED, log.admin())
