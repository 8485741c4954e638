"""Names of indexes: `orders-v3` is generation 3 behind the alias `orders`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from include.errors import SettingsError

__all__ = ["IndexName"]

_ALIAS: Final = re.compile(r"[a-z0-9][a-z0-9_-]*")
_NAME: Final = re.compile(r"(.+)-v([1-9][0-9]*)")
_LONGEST: Final = 255


@dataclass(frozen=True, slots=True)
class IndexName:
    """A concrete index. Applications write to it, readers ask its alias."""

    alias: str
    generation: int

    def __post_init__(self) -> None:
        if not _ALIAS.fullmatch(self.alias) or _NAME.fullmatch(self.alias) or len(str(self).encode()) > _LONGEST:
            raise SettingsError(
                "not an index's name", name=self.alias, allowed="lower case letters, digits, '-', '_'; no -v<n>"
            )

    @classmethod
    def parse(cls, text: str) -> IndexName:
        """Inverse of `str`; raises `SettingsError`."""
        match = _NAME.fullmatch(text)
        if match is None:
            raise SettingsError("not the name of an index generation", name=text, allowed="<alias>-v<n>")
        return cls(match[1], int(match[2]))

    def __str__(self) -> str:
        return f"{self.alias}-v{self.generation}"
