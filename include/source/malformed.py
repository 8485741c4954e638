"""Bytes that no server writes, and what may be said of them.

An error reaches logs, mails and status, where values have not been masked: it says where and what kind, never a value.
"""

from __future__ import annotations

__all__ = ["Malformed", "told"]


class Malformed(ValueError):
    """A value's bytes make no value of its type; the text holds no part of them."""


def told(error: Exception) -> str:
    """Why a value could not be read, without any of its bytes, whatever the error's own text quotes."""
    if isinstance(error, Malformed):
        return str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"no text of {error.encoding} at byte {error.start}"
    return "no value of its type" if isinstance(error, ValueError) else "the event is cut short"
