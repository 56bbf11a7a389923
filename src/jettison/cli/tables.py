"""Aligned columns that make sense without colour, whatever the cells hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from jettison.agent.safe_text import printable

GAP = "  "
NOTHING = "-"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str] = (), indent: str = "") -> str:
    """One line for the head and one per row. Columns named in `right` hold numbers and end where they end."""
    lines = [[printable(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        indent
        + GAP.join(
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(head, line, widths, strict=True)
        ).rstrip()
        for line in lines
    )
