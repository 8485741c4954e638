"""Audits of the lake's chains in the bucket that the deployment names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from include.audit.chain.audit import ChainAuditOptions, audit_chain
from include.audit.chain.listing import ProgressListener
from include.audit.chain.report import ChainReport
from include.audit.chain.run_params import ChainAuditRun
from include.audit.nothing import NothingJudged
from include.clock import Clock, iso
from include.errors import LyrebirdError, SettingsError
from include.lake.definition import LakeGroup, declared_groups, group_named
from include.lake.protocol.inventory import stored_topics
from include.lake.protocol.object_key import topic_of
from include.log.kafka.admin import KafkaAdmin
from include.settings.connections import Kafka
from include.settings.connections import StoreSettings as Connection
from include.settings.deployment import Deployment
from include.store.object_store import ObjectStore
from include.store.s3 import store_of

__all__ = ["audit_in_bucket", "audit_on_servers", "groups_of", "topics_in", "without_anything"]

_PATIENCE_S: Final = 10.0


def audit_on_servers(
    deployment: Deployment,
    asked: ChainAuditRun,
    clock: Clock,
    options: ChainAuditOptions | None = None,
    progress: ProgressListener | None = None,
    *,
    mend: bool = False,
) -> Iterator[ChainReport]:
    """Audit topics in the deployment's bucket: gives the report of each, by name, as it is made.

    Args:
        deployment: the deployment files.
        asked: names of topics and groups; none of either means all.
        clock: for the reports' times.
        options: how the audits are made; `compacted` and, with `mend`, `mend` are replaced. None: the defaults.
        progress: hears how far an audit is; None: nobody does.
        mend: write wrong summaries anew; the credentials of the section `expiry` delete what has to go.

    Raises:
        SettingsError: a section is missing, no group is declared or has a topic, or `expiry` names another bucket.
        Transient: the store did not answer: nothing can be said.
    """
    settings = deployment.one("store", Connection)
    store = store_of(settings)
    chosen = replace(options or ChainAuditOptions(), compacted=_compacted(deployment.one("kafka", Kafka)))
    if mend:
        chosen = replace(chosen, mend=_eraser(deployment, settings))
    try:
        yield from audit_in_bucket(store, groups_of(deployment, asked), asked.topics, clock, chosen, progress)
    finally:
        store.close()


def audit_in_bucket(
    store: ObjectStore,
    groups: Mapping[str, LakeGroup],
    topics: Iterable[str],
    clock: Clock,
    options: ChainAuditOptions | None = None,
    progress: ProgressListener | None = None,
) -> Iterator[ChainReport]:
    """The same in a bucket at hand.

    Args:
        store: the bucket.
        groups: groups of the lake, by name.
        topics: names of Kafka topics; none means all that the groups have anything of.
        clock: for the reports' times.
        options: how the audits are made; None: the defaults of `ChainAuditOptions`.
        progress: hears how far an audit is; None: nobody does.

    Raises:
        SettingsError: no group has a topic.
        Transient: the store did not answer: nothing can be said.
    """
    for topic in tuple(topics) or topics_in(store, groups.values()):
        yield audit_chain(store, groups, topic, clock.now_us(), options, progress)


def topics_in(store: ObjectStore, groups: Iterable[LakeGroup]) -> list[str]:
    """All that the groups have chains or objects of, whether they are still declared or not; a listing for each."""
    found: set[str] = set()
    for group in groups:
        found |= {topic.topic for topic in stored_topics(store, group.prefix)}
        found |= set(_folders(store, f"{group.prefix}/"))
    return sorted(found)


def _folders(store: ObjectStore, folder: str) -> Iterator[str]:
    """Topics that have objects: folders right below, but those that readers skip."""
    after = ""
    while (info := next(iter(store.list(folder, start_after=after)), None)) is not None:
        name, slash, _ = info.key.removeprefix(folder).partition("/")
        if slash and topic_of(name):
            yield topic_of(name)
        # "0" sorts right behind "/": all that lies in this folder is passed over.
        after = f"{folder}{name}0" if slash else info.key


def without_anything(
    groups: Mapping[str, LakeGroup], reports: Sequence[ChainReport], now_us: int
) -> list[NothingJudged]:
    """Those of `groups` that have nothing yet of any topic; `reports` are of all topics that there are."""
    judged = {figures.group for report in reports for figures in report.groups if figures.judged}
    return [
        NothingJudged(
            name,
            iso(now_us),
            f"nothing is stored below {group.prefix}/ yet. Start the application {group.application}.",
        )
        for name, group in sorted(groups.items())
        if name not in judged
    ]


def groups_of(deployment: Deployment, asked: ChainAuditRun) -> dict[str, LakeGroup]:
    """The groups that are asked for, all without a name; raises `SettingsError` where none is declared."""
    names = asked.groups
    found = {name: group_named(deployment, name) for name in names} if names else declared_groups(deployment)
    if not found:
        raise SettingsError("no group of the lake is declared", path="lake", fix="Declare one in the deployment files.")
    return found


def _eraser(deployment: Deployment, settings: Connection) -> ObjectStore:
    expiry = deployment.one("expiry", Connection)
    if expiry.bucket != settings.bucket:
        raise deployment.error(
            ("expiry",), "another bucket than `store`", got=expiry.bucket, fix="Change the credentials alone."
        )
    return store_of(expiry)


def _compacted(kafka: Kafka) -> Callable[[str], bool | None]:
    """Asks Kafka; None where it does not answer or has the topic no more: an audit needs no log."""

    def ask(topic: str) -> bool | None:
        try:
            return KafkaAdmin(kafka.bootstrap, kafka.options, timeout_s=_PATIENCE_S).compacts(topic)
        except LyrebirdError:
            return None

    return ask
