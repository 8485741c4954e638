"""Orders a join's requests: to be made of its inputs anew, or to write outputs again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from include.log.requests.records import Answer, Request
from include.log.requests.work import RequestWork

__all__ = ["JoinRequests", "OpenRequest"]


@dataclass(frozen=True)
class OpenRequest:
    """An open request; how far it is stands in the join's takeover."""

    request: Request

    @property
    def keys(self) -> frozenset[bytes]:
        """The outputs' keys that it names."""
        return frozenset(map(bytes.fromhex, self.request.keys))


class JoinRequests(RequestWork[OpenRequest]):
    """The requests of one joined topic, in the order in which they were asked; repairs of some keys come first."""

    def accept(self, request: Request) -> str | None:
        """Take a request; None when its id is known already, else the reason of a refusal, or ''."""
        return self.take(OpenRequest(request), _refusal(request))

    def next(self) -> OpenRequest | None:
        """The one to work on."""
        return min(self.open.values(), key=self._turn, default=None)

    def _progress(self, work: OpenRequest) -> Mapping[str, Any]:
        return {}

    def _resumed(self, request: Request, answer: Answer, progress: Mapping[str, Any]) -> OpenRequest:
        return OpenRequest(request)

    def _turn(self, work: OpenRequest) -> tuple[bool, int, str]:
        return not work.request.keys, work.request.at_us, work.request.id


def _refusal(request: Request) -> str:
    if request.kind not in ("rebuild", "repair"):
        return f"a join is asked for a rebuild or a repair, not for {request.kind}"
    if request.kind == "rebuild" and request.keys:
        return "a rebuild is of all outputs, some are asked for by repair"
    try:
        OpenRequest(request).keys  # noqa: B018 - read for what it raises
    except ValueError:
        return "the keys of a repair are those of the topic's records, in hexadecimal digits"
    return ""
