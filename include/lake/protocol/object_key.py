"""The name of a data object: fixed by its cut and its partition names, before a byte of it exists.

    <prefix>/<topic>/<partition names>/<generation>_<kafka partition>_<first of the cut, 20 digits><extension>

Every object of a cut has the cut's `first`, so an offset's object is, in its folder and Kafka partition, the one with
the greatest `first` that is not above it. Dates are written as the names say: `dt=2026-11-21`, or plain ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from include.errors import Terminal

__all__ = [
    "HIDDEN",
    "KEY_BYTES",
    "QUARANTINE",
    "ObjectKey",
    "check_parts",
    "digits",
    "misnamed",
    "topic_folder",
    "topic_of",
    "topic_path",
    "valid_prefix",
]

KEY_BYTES: Final = 1024
"""The longest key that S3 takes, in bytes of UTF-8."""

QUARANTINE: Final = "_quarantine"
"""The partition name of records that were refused; Hive and Spark skip folders that begin so."""

HIDDEN: Final = ("_", ".")
"""Readers skip folders that begin so."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]*(/[A-Za-z0-9][A-Za-z0-9._=-]*)*|")
_EXTENSION = re.compile(r"(\.[A-Za-z0-9-]+)*")
_FILE = re.compile(r"(0|[1-9][0-9]{0,8})_(0|[1-9][0-9]{0,9})_([0-9]{20})((?:\.[A-Za-z0-9-]+)*)", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f/]")
# Of the bytes of a key topic, partition names, a schema's folder and the file need 860 at most.
_PREFIX_BYTES: Final = 160
_LAST_OFFSET: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """A data object of the cut that begins at `first`; `Terminal` where a part cannot stand in a name.

    `names` are the folders below the topic; `()` puts the object right under the topic.
    """

    prefix: str
    topic: str
    names: tuple[str, ...]
    generation: int
    partition: int
    first: int
    extension: str = ""

    def __post_init__(self) -> None:
        check_parts(self.prefix, self.topic, self.generation, self.partition, self.first)
        for name in self.names:
            if name in {"", ".", ".."} or _CONTROL.search(name) or (name[0] in "_." and name != QUARANTINE):
                raise misnamed("partition name", name, "one folder that readers do not skip, without / or controls")
        if not _EXTENSION.fullmatch(self.extension):
            raise misnamed("extension", self.extension, "parts of letters and digits, each with a dot before it")
        try:
            size = len(str(self).encode())
        except UnicodeEncodeError:
            raise misnamed("partition name", repr(self.names), "text that UTF-8 can carry") from None
        if size > KEY_BYTES:
            raise misnamed("key", str(self), f"at most {KEY_BYTES} bytes")

    def __str__(self) -> str:
        folders = "".join(f"{part}/" for part in (self.prefix, topic_folder(self.topic), *self.names) if part)
        return f"{folders}{self.generation}_{self.partition}_{digits(self.first)}{self.extension}"

    @property
    def refused(self) -> bool:
        """Whether it holds what a parser or a format refused."""
        return self.names == (QUARANTINE,)

    @classmethod
    def parse(cls, text: str, prefix: str = "") -> ObjectKey:
        """Inverse of `str`, below `prefix`; `Terminal` naming the key for anything else."""
        below = text.removeprefix(f"{prefix}/") if prefix else text
        folder, *names = below.split("/")
        topic = topic_of(folder)
        found = _FILE.fullmatch(names.pop()) if names else None
        if not topic or found is None or (prefix and below == text):
            raise misnamed("data object", text, f"{prefix}/<topic>/…/<generation>_<partition>_<20 digits><extension>")
        generation, partition, first, extension = found.groups()
        return cls(prefix, topic, tuple(names), int(generation), int(partition), int(first), extension)


def topic_folder(topic: str) -> str:
    """The folder of a topic's data: its name, behind "=" where readers would skip it, as no topic's name has one."""
    return f"={topic}" if topic.startswith(HIDDEN) else topic


def topic_of(folder: str) -> str:
    """Inverse of `topic_folder`; "" for a folder that no topic has."""
    topic = folder.removeprefix("=")
    return topic if topic_folder(topic) == folder else ""


def topic_path(prefix: str, topic: str) -> str:
    """Where all data objects of a topic lie, with a / at the end."""
    return f"{prefix}/{topic_folder(topic)}/" if prefix else f"{topic_folder(topic)}/"


def digits(offset: int) -> str:
    """An offset as names hold it: keys sort as offsets do."""
    return f"{offset:020d}"


def check_parts(prefix: str, topic: str, generation: int, partition: int, first: int = 0) -> None:
    """Raise `Terminal` for what cannot stand in a name."""
    if not _PREFIX.fullmatch(prefix):
        raise misnamed("prefix", prefix, "folders of letters, digits, . _ = -, none beginning with . or _")
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise misnamed("topic", topic, "a name that Kafka takes")
    if not (0 <= generation < 10**9 and 0 <= partition < 1 << 31 and 0 <= first <= _LAST_OFFSET):
        raise misnamed("number", f"{generation}_{partition}_{first}", "generation, partition, offset from 0 on")


def misnamed(what: str, got: str, allowed: str) -> Terminal:
    """The error for a name that is none of ours."""
    return Terminal(
        f"not a {what} of the lake", got=got, allowed=allowed, fix="Mend the deployment, or remove what is not ours."
    )


def valid_prefix(text: str) -> str:
    """`text`, a folder in the bucket as a deployment declares it; raises `ValueError` for what cannot be one."""
    try:
        check_parts(text, "t", 0, 0)
    except Terminal as error:
        raise ValueError(str(error)) from None
    if len(text) > _PREFIX_BYTES:
        raise ValueError(f"a prefix has {_PREFIX_BYTES} bytes at most, this one {len(text)}")
    return text
