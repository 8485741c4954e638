"""Names of the objects that Secor wrote: its archives are input of backfills.

`[<hash>/]<prefix>/<topic>/<name>/…/<generation>_<partition>_<first:020d><extension>`. The hash
(`secor.s3.prefix.md5hash`) is four hexadecimal digits of the MD5 of topic and names. Several partitions in one file are
`<generation>_<first partition>-<last>_<digest>`, where the digest is the MD5 of the decimal offsets of all of them, one
behind the other, in base64url: it tells no offset, those are in the file.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from include.errors import Terminal

__all__ = ["SecorName", "group_digest"]

_BASENAME: Final = re.compile(
    r"(?P<generation>0|[1-9][0-9]*)_"
    r"(?:(?P<partition>0|[1-9][0-9]*)_(?P<first>[0-9]{20})"
    r"|(?P<least>0|[1-9][0-9]*)-(?P<most>0|[1-9][0-9]*)_(?P<digest>[A-Za-z0-9_-]{21}[AQgw]))"
    r"(?P<extension>(?:\.[^/]*)?)"
)
_MOST_OFFSET: Final = (1 << 63) - 1


def group_digest(offsets: Sequence[int]) -> str:
    """What names the first offsets of several partitions, given in the order of the partitions."""
    digest = hashlib.md5("".join(map(str, offsets)).encode(), usedforsecurity=False).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True)
class SecorName:
    """An object of Secor's. `first` is the offset of the cut, None where several partitions share it by `digest`.

    `partitions` are the first and the last Kafka partition; `hashed` whether the hash stands in front of all.
    """

    prefix: str
    topic: str
    names: tuple[str, ...]
    generation: int
    partitions: tuple[int, int]
    first: int | None
    digest: str = ""
    extension: str = ""
    hashed: bool = False

    @classmethod
    def parse(cls, key: str, prefix: str = "") -> SecorName:
        """Its value, for archives below `prefix` ("" for the top of the bucket); `Terminal` for any other key.

        Without a prefix a hash in front cannot be told from a topic, and is taken for one.
        """
        prefix = prefix.strip("/")
        for hashed in (False, True):
            rest = key.partition("/")[2] if hashed else key
            if not prefix or rest.startswith(prefix + "/"):
                below = rest[len(prefix) + 1 :] if prefix else rest
                found = cls._below(prefix, below, hashed=hashed)
                if found and str(found) == key:
                    return found
        raise Terminal(
            "this is no name that Secor gives",
            key=key,
            prefix=prefix,
            allowed="[hash/]prefix/topic/names/generation_partition_offset.extension",
            fix="Name the prefix of the archive as Secor's secor.s3.path has it, and leave other objects out.",
        )

    @classmethod
    def _below(cls, prefix: str, path: str, *, hashed: bool) -> SecorName | None:
        parts = path.split("/")
        match = _BASENAME.fullmatch(parts[-1])
        if not match or len(parts) < 3 or "" in parts:
            return None
        if match["digest"]:
            partitions, first = (int(match["least"]), int(match["most"])), None
            if partitions[0] >= partitions[1]:
                return None
        else:
            partitions, first = (int(match["partition"]),) * 2, int(match["first"])
            if first > _MOST_OFFSET:
                return None
        return cls(
            prefix,
            parts[0],
            tuple(parts[1:-1]),
            int(match["generation"]),
            partitions,
            first,
            match["digest"] or "",
            match["extension"],
            hashed,
        )

    @property
    def hash(self) -> str:
        """The four digits that stand in front where archives are spread by them."""
        path = "/".join((self.topic, *self.names))
        return hashlib.md5(path.encode(), usedforsecurity=False).hexdigest()[:4]

    def __str__(self) -> str:
        """The key."""
        least, most = self.partitions
        where = f"{least}-{most}_{self.digest}" if self.first is None else f"{least}_{self.first:020d}"
        parts = [self.hash] if self.hashed else []
        parts += [self.prefix] if self.prefix else []
        return "/".join((*parts, self.topic, *self.names, f"{self.generation}_{where}{self.extension}"))
