"""A tree of sums over the leaves of a table: parents are sums of their children, the root is the table.

After R. Merkle, A Digital Signature Based on a Conventional Encryption Function (1987), with sums in the place of
hashes of hashes: a node is made of one scan in any order, and of what a change takes away and adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from include.source.hashes.sums import HashSum

__all__ = ["Tree"]


@dataclass(frozen=True)
class Tree:
    """Leaves that have rows, by number of so many bits; those without are not there."""

    bits: int
    leaves: Mapping[int, HashSum]

    @classmethod
    def of(cls, bits: int, parts: Iterable[Mapping[int, HashSum]]) -> Self:
        """Of the leaves of several ranges of keys together."""
        found: dict[int, HashSum] = {}
        for part in parts:
            for leaf, each in part.items():
                found[leaf] = found.get(leaf, HashSum()).plus(each)
        return cls(bits, {leaf: each for leaf, each in sorted(found.items()) if each.rows})

    @cached_property
    def root(self) -> HashSum:
        """Of all rows."""
        return self.level(0).get(0, HashSum())

    def level(self, bits: int) -> dict[int, HashSum]:
        """The nodes whose numbers have so many bits, at most as many as the leaves'."""
        if not 0 <= bits <= self.bits:
            raise ValueError(f"a level of {bits} bits in a tree of {self.bits}")
        found: dict[int, HashSum] = {}
        for leaf, each in self.leaves.items():
            node = leaf >> (self.bits - bits)
            found[node] = found.get(node, HashSum()).plus(each)
        return found

    def differing(self, other: Tree) -> list[int]:
        """Leaves that are not the same in both, in order; `ValueError` for a tree with other leaves."""
        if self.bits != other.bits:
            raise ValueError(f"trees of {self.bits} and {other.bits} bits have no leaves in common")
        leaves = sorted(self.leaves.keys() | other.leaves.keys())
        return [leaf for leaf in leaves if self.leaves.get(leaf) != other.leaves.get(leaf)]

    def to_json(self) -> dict[str, Any]:
        """Plain values; sums as texts, as they have more digits than JSON's numbers."""
        return {"bits": self.bits, "leaves": [[n, s.rows, str(s.total)] for n, s in self.leaves.items()]}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`."""
        return cls(said["bits"], {n: HashSum(rows, int(total)) for n, rows, total in said["leaves"]})
