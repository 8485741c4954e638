"""The join across two servers in the demo: who writes beside the shop, and whether the index is what SQL says."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from demo.bodies import bodies
from demo.comparison import differences
from demo.part_summary import PartSummary
from include.clock import Clock
from include.errors import Transient

__all__ = ["indexed", "told_of", "written"]

_RATE: Final = 4.0
_WITHIN_S: Final = 300.0
_LOOK_EVERY_S: Final = 1.0
_EXAMPLES: Final = 5
_KEY: Final = ("business_id", "package_id", "owner_id")

ComparedBody = Mapping[str, Any]


@contextlib.contextmanager
def written(env: Mapping[str, str], seed: int, clock: Clock) -> Iterator[None]:
    """Advertising sells packages, four changes a second, until the block ends; a `Writing`."""
    from demo.advertising.desk import AdvertisingDesk, at_work
    from demo.shop.connection import ShopServer

    with at_work(AdvertisingDesk(ShopServer.from_environment("ads", env, "ADS").connect, seed, clock), _RATE):
        yield


def indexed(clock: Clock) -> PartSummary:
    """The index of advertisers against both servers, once it is equal; waits a minute and a half at most."""
    from demo.advertising.truth import advertisers
    from demo.shop.connection import ShopServer
    from include.index.server.elasticsearch import ElasticsearchIndex
    from include.settings.connections import Elasticsearch
    from include.settings.deployment import Deployment

    index = ElasticsearchIndex(Deployment.load().one("elasticsearch", Elasticsearch))
    with contextlib.ExitStack() as left:
        left.callback(index.close)
        shop, ads = (
            left.enter_context(contextlib.closing(server.connect()))
            for server in (ShopServer.from_environment(), ShopServer.from_environment("ads", server="ADS"))
        )
        return _awaited(
            lambda: told_of(advertisers(shop, ads), list(bodies(index.client, "advertisers", "advertiser"))), clock
        )


def _awaited(look: Callable[[], PartSummary], clock: Clock) -> PartSummary:
    deadline_s = clock.monotonic_s() + _WITHIN_S
    while True:
        over = clock.monotonic_s() >= deadline_s
        try:
            told = look()
        except Transient:
            if over:
                raise
        else:
            if told.good or over:
                return told
        clock.sleep(_LOOK_EVERY_S)


def told_of(truth: Sequence[ComparedBody], found: Sequence[ComparedBody]) -> PartSummary:
    """What the index holds beside what SQL says, row by row; good when both are the same and there is a row."""
    wanted, there = ({tuple(row[name] for name in _KEY): row for row in rows} for rows in (truth, found))
    unlike = {key: why for key in wanted.keys() & there.keys() if (why := differences(wanted[key], there[key]))}
    missing, strange = (sorted(map(str, keys)) for keys in (wanted.keys() - there.keys(), there.keys() - wanted.keys()))
    # Two documents of one key are one too many.
    extra = len(found) - len(wanted.keys() & there.keys())
    good = bool(truth) and not (unlike or missing or extra)
    if good:
        lines = [
            f"advertisers: {len(truth):,} rows in the index, as SQL over both servers says, such as",
            _shown(truth),
        ]
    else:
        counts = f"{len(missing):,} are missing, {len(unlike):,} different, {extra:,} too many"
        lines = [
            f"advertisers: {len(truth):,} rows by SQL over both servers; in the index {counts}",
            *(f"  missing: {key}" for key in missing[:_EXAMPLES]),
            *(f"  too many: {key}" for key in strange[:_EXAMPLES]),
            *(f"  {key}: {'; '.join(why)}" for key, why in list(unlike.items())[:_EXAMPLES]),
        ]
    values = {"rows": len(truth), "different": len(unlike), "missing": len(missing), "extra": extra}
    return PartSummary(tuple(lines), {"advertisers": values}, good)


def _shown(rows: Sequence[ComparedBody]) -> str:
    """The newest package as who calls its owner sees it."""
    row = max(rows, key=lambda row: int(row["package_id"]))
    owner = f"{row['owner_name']} ({row['owner_language']}, {row['owner_phone']})" if row["owner_id"] else "no owner"
    return (
        f"  {row['business_name']}: {row['plan']} for {row['monthly_price']} a month, {row['status']} from "
        f"{row['starts_on']}; {owner}"
    )
