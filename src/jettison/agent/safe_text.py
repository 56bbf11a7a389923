"""Text from pods, made safe for a terminal.

A module of its own, because `jettison --help` needs it and loads nothing of the engine.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """Control characters as escapes: a pod must not move the cursor of a terminal or forge a line of the log."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def quoted(text: str) -> str:
    """A value of a `name=value` line: in quotes, and with escapes, where it could be taken for more than one value."""
    if text and text.isprintable() and not set(text) & set(' "=\\'):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(escaped)}"'
