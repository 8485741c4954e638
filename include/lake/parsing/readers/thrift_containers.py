"""Lists, sets and maps of Thrift that nobody wants, passed over in either protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["SkipThrift", "pass_over"]

SkipThrift = Callable[[bytes, int, int, int], int]
"""(data, where a value begins, its type, depth) → where it ends."""


def pass_over(
    data: bytes, at: int, kinds: tuple[int, ...], count: int, depth: int, sizes: Mapping[int, int], skip: SkipThrift
) -> int:
    """Finds the end of a container's elements without reading them.

    Args:
        data: the message.
        at: byte where the first element begins.
        kinds: types of the values of an element: one, or those of a map's key and value.
        count: number of elements.
        depth: how deep the container is nested.
        sizes: type → bytes of its values, for types whose values all have the same size.
        skip: finds the end of a value of another type.

    Returns:
        The byte behind the last element.

    Raises:
        IndexError: `data` is too short for so many, as each value takes a byte at least.
        ValueError: `skip` meets what is no Thrift, or too deep.
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
