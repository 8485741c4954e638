"""Lists, sets and maps of Thrift that nobody wants, passed over in either protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["Skip", "pass_over"]

Skip = Callable[[bytes, int, int, int], int]
"""(data, where a value begins, its type, depth) → where it ends."""


def pass_over(
    data: bytes, at: int, kinds: tuple[int, ...], count: int, depth: int, sizes: Mapping[int, int], skip: Skip
) -> int:
    """Where `count` elements end that begin at `at`, each of values of `kinds`.

    `sizes` are of the types that have one; each value takes a byte at least, so `IndexError` for a greater count.
    """
    if not count:
        return at
    if count > len(data):
        raise IndexError
    each = [sizes.get(kind, 0) for kind in kinds]
    if all(each):
        return at + count * sum(each)
    for _ in range(count):
        for kind, size in zip(kinds, each, strict=True):
            at = at + size if size else skip(data, at, kind, depth + 1)
    return at
