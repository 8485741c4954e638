"""A zstd frame of some kilobytes that unpacks to any size: blocks that say "this byte, 128 Ki times"."""

from __future__ import annotations

__all__ = ["zstd_bomb"]

_BLOCK = 1 << 17


def zstd_bomb(size: int) -> bytes:
    """One frame of `size` bytes, a multiple of 128 KiB."""
    # No checksum, no content size, a window of 128 KiB.
    head = b"\x28\xb5\x2f\xfd\0" + bytes([(17 - 10) << 3])
    block = (_BLOCK << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (_BLOCK << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    return head + block * (size // _BLOCK - 1) + last
