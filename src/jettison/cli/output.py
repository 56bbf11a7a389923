"""How an answer is printed: as a table, as JSON or as YAML, with remarks on standard error.

Columns of a table are aligned and make sense without colour, whatever the cells hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
import yaml

from jettison.agent.safe_text import printable
from jettison.values import frozen

TABLE, JSON, YAML = "table", "json", "yaml"

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice([TABLE, JSON, YAML]),
    default=TABLE,
    show_default=True,
    help="How to print the answer; docs/commands.md describes the JSON, and YAML has the same keys.",
)

GAP = "  "
NOTHING = "-"
UNBOUNDED = 10**6
"""Wider than any table: print all of it."""


@dataclass(slots=True)
class Remarks:
    """Said beside the answer: on standard error with a table, inside the document with JSON and YAML."""

    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def remark(kind: str, text: str) -> None:
    """One line beside the answer; `kind` is note or warning."""
    click.echo(printable(f"{kind}: {text}"), err=True)


def print_document(output: str, document: Mapping[str, Any]) -> None:
    """As JSON or YAML. What a terminal could take for an order is escaped, in a way that both read back."""

    def text(*, is_ascii: bool) -> str:
        if output == JSON:
            return json.dumps(document, indent=2, ensure_ascii=is_ascii) + "\n"
        return str(
            yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=not is_ascii, width=1000)
        )

    found = text(is_ascii=False)
    is_harmless = found.replace("\n", "").isprintable()
    click.echo(found if is_harmless else text(is_ascii=True), nl=False)


def emit(output: str, remarks: Remarks, text: Callable[[], str], data: Callable[[], dict[str, Any]]) -> None:
    """Print the answer; only the form that was asked for is made."""
    if output == TABLE:
        for kind, said in (("note", remarks.notes), ("warning", remarks.warnings)):
            for each in said:
                remark(kind, each)
        click.echo(text())
        return
    document = {"version": 1, **data()}
    document.setdefault("notes", remarks.notes)
    document.setdefault("warnings", remarks.warnings)
    print_document(output, document)


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


@frozen
class Squeeze:
    """One thing to do about a table that is too wide: take a column away, or cut its cells to `least` characters."""

    column: str
    least: int | None = None


def fitted(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    steps: Iterable[Squeeze],
    *,
    right: Collection[str] = (),
) -> list[str]:
    """The lines of a table no wider than `width`: as many of the steps are taken, in their order, as it needs."""
    columns = {
        name: [printable(cell) for cell in cells]
        for name, cells in zip(head, zip(head, *rows, strict=True), strict=True)
    }
    for step in steps:
        excess = _width(columns) - width
        if excess <= 0:
            break
        if step.least is None:
            del columns[step.column]
        elif step.column in columns:
            cells = columns[step.column]
            most = max(step.least, max(map(len, cells)) - excess)
            columns[step.column] = [shortened(cell, most) for cell in cells]
    lines = zip(*columns.values(), strict=True)
    return [line[:width] for line in table(next(lines), list(lines), right=right).splitlines()]


def shortened(text: str, most: int) -> str:
    """Without its middle where it is longer: generated names differ at their ends."""
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def _width(columns: Mapping[str, Sequence[str]]) -> int:
    return sum(max(map(len, cells)) for cells in columns.values()) + len(GAP) * (len(columns) - 1)
