"""Refuses a topic that does not keep what its kind has to: the newest record of each key, for ever.

Somebody may have made it by hand, or a broker by itself (`auto.create.topics.enable`): then it drops old records.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from include.errors import Terminal
from include.log.ports import TopicAdmin, TopicSpec

__all__ = ["require_kept", "what_forgets"]

_LOG: Final = logging.getLogger(__name__)
_POLICY: Final = "cleanup.policy"
_DELETIONS: Final = "delete.retention.ms"
# Without "delete" in its policy a topic heeds none of them: they would only strike when that came back.
_OF_DELETE: Final = ("retention.ms", "retention.bytes")
_EVER: Final = "-1"


def what_forgets(has: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """The settings by which a topic forgets, as they should be. `has`: all of the topic's; `wanted`: of its kind."""
    mended: dict[str, str] = {}
    if has[_POLICY] != wanted[_POLICY]:
        mended = {_POLICY: wanted[_POLICY]} | {name: _EVER for name in _OF_DELETE if has[name] != _EVER}
    if int(has[_DELETIONS]) < int(wanted[_DELETIONS]):
        mended[_DELETIONS] = wanted[_DELETIONS]
    return mended


def require_kept(spec: TopicSpec, admin: TopicAdmin) -> None:
    """Refuse a topic that forgets.

    Where the account may not see a topic's settings, a warning is all.

    Args:
        spec: a compacted topic with its `delete.retention.ms`.
        admin: of the log that has it.

    Raises:
        Terminal: it is not compacted, or drops records or deletions earlier than declared; with the command for it.
    """
    has = admin.settings(spec.name)
    if has is None:
        _LOG.warning("%s may forget records: this account may not see its settings (DescribeConfigs)", spec.name)
        return
    mended = what_forgets(has, spec.config)
    if mended:
        command = f"kafka-configs --alter --entity-type topics --entity-name {spec.name}"
        raise Terminal(
            "topic forgets what it has to keep",
            topic=spec.name,
            has={name: has[name] for name in mended},
            fix=f"Run `{command} --add-config {','.join(f'{name}={value}' for name, value in mended.items())}`; then, "
            f"as old records may be gone, `lyrebird documents rebuild --topic {spec.name}`.",
        )
