"""Text from pods, made safe for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Control characters as escapes: a pod must not move somebody's cursor or forge a line of the log."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
