"""Sends lines until each is settled, waiting where the server asks for it: `flight` decides, this sends.

With a pool of threads several requests are under way at once, and lines can be made while others travel (`give`).
"""

from __future__ import annotations

import concurrent.futures
import random
from collections.abc import Callable, Sequence

from include.clock import Clock
from include.index.bulk.request import BulkLine
from include.index.bulk.scheduler import BulkRequest, Concurrency, DeliveryResult, InFlight
from include.index.bulk.witness import Witness
from include.index.server.port import BulkAnswer

__all__ = ["Delivery", "DeliveryResult"]

_AHEAD = 2


class Delivery:
    """Delivers to one index; for one thread.

    Args:
        send: sends the body of a bulk request; never raises for what a server does: no answer is status 0.
        clock: for waits.
        index: its name.
        bulk_bytes: about how many bytes a request has.
        patience_s: seconds without a line that the server takes, after which the others are given up.
        jitter: spreads waits; None: a generator of its own.
        pool: threads that send; None: requests go one after the other in the caller's thread.
        concurrency: shared by the deliveries of a process, so that the next one starts with what the last one found;
            None: one request at a time.
        witness: shared likewise; brings what tells a document at which the server breaks from an outage, where no
            other is taken. None: such a document waits.
    """

    def __init__(
        self,
        send: Callable[[bytes], BulkAnswer],
        clock: Clock,
        *,
        index: str,
        bulk_bytes: int,
        patience_s: float,
        jitter: random.Random | None = None,
        pool: concurrent.futures.Executor | None = None,
        concurrency: Concurrency | None = None,
        witness: Witness | None = None,
    ) -> None:
        self.bulk_bytes = bulk_bytes
        self._send = send
        self._clock = clock
        self._pool = pool
        self._witness = witness
        self._concurrency = concurrency or Concurrency(1)
        self._flight = InFlight(
            index=index,
            bulk_bytes=bulk_bytes,
            patience_s=patience_s,
            concurrency=self._concurrency,
            # Jitter wants spread, not secrecy.
            jitter=jitter or random.Random(),  # noqa: S311
        )
        self._futures: dict[concurrent.futures.Future[BulkAnswer], BulkRequest] = {}

    def deliver(self, lines: Sequence[BulkLine]) -> DeliveryResult:
        """Send `lines`; blocks until all are settled, or `patience_s` after the last one that the server took.

        May be called again with lines that were delivered before: they come back as stale. Raises `Terminal` when
        the index is not there or refuses this writer; what was under way then has been answered.
        """
        self._flight.add(lines, self._clock.monotonic_s())
        return self.finish()

    def give(self, lines: Sequence[BulkLine]) -> DeliveryResult:
        """Send `lines` and come back while they travel; blocks as `deliver` when too many do. Raises as `deliver`.

        Gives what became of lines of this and earlier calls; the last of them `finish` tells.
        """
        self._flight.add(lines, self._clock.monotonic_s())
        self._pump(self.bulk_bytes * _AHEAD * self._concurrency.limit if self._pool else 0)
        return self._take()

    def finish(self) -> DeliveryResult:
        """Wait for all that was given; raises as `deliver`."""
        self._pump(0)
        return self._take()

    def _take(self) -> DeliveryResult:
        out = self._flight.take()
        if self._witness is not None:
            self._witness.took(out.done)
        return out

    def _pump(self, most_bytes: int) -> None:
        """Send and take answers until no more than `most_bytes` are not settled, or patience ends."""
        flight = self._flight
        while True:
            if self._witness is not None and flight.lacks_witness:
                flight.bear(self._witness.bring())
            now_s = self._clock.monotonic_s()
            request = flight.next(now_s)
            if request is not None:
                self._start(request)
            elif flight.fault and not self._futures:
                raise flight.fault
            elif flight.idle or (flight.pending_bytes <= most_bytes and not flight.fault):
                return
            elif self._futures:
                self._land(max(0.0, flight.resume_s - now_s) or None)
            elif flight.given_up():
                flight.surrender()
            else:
                self._clock.sleep(flight.resume_s - now_s)

    def _start(self, request: BulkRequest) -> None:
        if self._pool is None:
            self._flight.on_answer(request, self._send(request.data), self._clock.monotonic_s())
        else:
            self._futures[self._pool.submit(self._send, request.data)] = request

    def _land(self, timeout_s: float | None) -> None:
        first = concurrent.futures.FIRST_COMPLETED
        done, _ = concurrent.futures.wait(self._futures, timeout_s, return_when=first)
        for future in done:
            self._flight.on_answer(self._futures.pop(future), future.result(), self._clock.monotonic_s())
