"""Names of the protocol's own objects, which Hive and Spark skip for their leading `_`.

    <prefix>/_chain/<topic>~<topic id>/current                                          the readers' pointer
    <prefix>/_chain/<topic>~<topic id>/<generation>/<partition>/<first>.intent          what a cut will be
    <prefix>/_chain/<topic>~<topic id>/<generation>/<partition>/<first>.commit          what it is
    <prefix>/_chain/<topic>~<topic id>/<generation>/summary/<partition>/<first>.commits 1,000 commits in one
    <prefix>/_chain/<topic>~<topic id>/<generation>/hint/<partition>                    where to look for the head
    <prefix>/_chain/<topic>~<topic id>/index/…                                          what is kept of dates

Kafka's topic names have no `~`. Commits and intents are alone in their folder, so that a listing of it is the chain.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from include.lake.protocol.object_key import ObjectKey, check_parts, digits, misnamed

__all__ = ["ChainKey", "CutKey", "CutKind", "TopicKey", "parse_cut_key"]

CutKind = Literal["intent", "commit", "commits"]
"""intent: the promise of a cut; commit: that it is whole; commits: a summary that begins with this cut."""

_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CUT = re.compile(
    r"([^/~]+)~([^/~]+)/(0|[1-9][0-9]{0,8})/(summary/)?(0|[1-9][0-9]{0,9})/([0-9]{20})\.(intent|commits?)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class TopicKey:
    """A topic of a group, by the id that a topic made anew does not share; all of its generations."""

    prefix: str
    topic: str
    topic_id: str

    def __post_init__(self) -> None:
        check_parts(self.prefix, self.topic, 0, 0)
        if not _TOPIC_ID.fullmatch(self.topic_id):
            raise misnamed("topic id", self.topic_id, "Kafka's: letters, digits, _ and -")

    def __str__(self) -> str:
        below = f"_chain/{self.topic}~{self.topic_id}"
        return f"{self.prefix}/{below}" if self.prefix else below

    @property
    def pointer(self) -> str:
        """Key of the pointer that readers follow."""
        return f"{self}/current"


@dataclass(frozen=True, slots=True)
class ChainKey:
    """The chain of one Kafka partition in one generation, and the names of its data objects."""

    of: TopicKey
    generation: int
    partition: int

    def __post_init__(self) -> None:
        check_parts(self.of.prefix, self.of.topic, self.generation, self.partition)

    def __str__(self) -> str:
        return f"{self.of}/{self.generation}/{self.partition}"

    def intent(self, first: int) -> str:
        """Key of the intent of the cut at `first`."""
        return f"{self}/{digits(first)}.intent"

    def commit(self, first: int) -> str:
        """Key of the commit of the cut at `first`."""
        return f"{self}/{digits(first)}.commit"

    @property
    def summaries(self) -> str:
        """The folder of its summaries."""
        return f"{self.of}/{self.generation}/summary/{self.partition}/"

    def summary(self, first: int) -> str:
        """Key of the summary whose first commit is the one at `first`."""
        return f"{self.summaries}{digits(first)}.commits"

    @property
    def hint(self) -> str:
        """Key of the advice where the head may be."""
        return f"{self.of}/{self.generation}/hint/{self.partition}"

    def data(self, names: tuple[str, ...], first: int, extension: str) -> ObjectKey:
        """The data object of these partition names in the cut at `first`."""
        return ObjectKey(self.of.prefix, self.of.topic, names, self.generation, self.partition, first, extension)

    def parse_data(self, text: str, first: int) -> ObjectKey:
        """A data object of the cut at `first`; `Terminal` for any other name."""
        key = ObjectKey.parse(text, self.of.prefix)
        if (key.topic, key.generation, key.partition, key.first) != (
            self.of.topic,
            self.generation,
            self.partition,
            first,
        ):
            raise misnamed("data object of this cut", text, f"one of {self.commit(first)}")
        return key


@dataclass(frozen=True, slots=True)
class CutKey:
    """An intent, a commit or a summary."""

    chain: ChainKey
    first: int
    kind: CutKind

    def __str__(self) -> str:
        keys = {"intent": self.chain.intent, "commit": self.chain.commit, "commits": self.chain.summary}
        return keys[self.kind](self.first)

    @classmethod
    def parse(cls, text: str, prefix: str = "") -> CutKey:
        """Inverse of `str`, below `prefix`; `Terminal` naming the key for anything else."""
        head = f"{prefix}/_chain/" if prefix else "_chain/"
        found = _CUT.fullmatch(text.removeprefix(head)) if text.startswith(head) else None
        if found is None or (found[4] is not None) != (found[7] == "commits"):
            raise misnamed("chain object", text, f"{head}<topic>~<id>/<generation>/<partition>/<20 digits>.<kind>")
        topic, topic_id, generation, _, partition, first, suffix = found.groups()
        kind = next(kind for kind in get_args(CutKind) if kind == suffix)
        chain = ChainKey(TopicKey(prefix, topic, topic_id), int(generation), int(partition))
        check_parts(prefix, topic, 0, 0, int(first))
        return cls(chain, int(first), kind)


def parse_cut_key(text: str, chain: ChainKey) -> tuple[int, CutKind]:
    """`first` and kind of an object in this chain's folder, fast; `Terminal` for any other name."""
    head = f"{chain}/"
    number, _, suffix = text.removeprefix(head).partition(".")
    if text.startswith(head) and len(number) == 20 and number.isascii() and number.isdigit():
        if suffix == "commit":
            return int(number), "commit"
        if suffix == "intent":
            return int(number), "intent"
    raise misnamed("chain object", text, f"{head}<20 digits>.intent or .commit")
