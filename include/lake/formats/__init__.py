"""File formats of the lake: messages ↔ bytes."""
