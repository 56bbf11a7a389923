"""How an answer is printed: as a table, as JSON or as YAML, with remarks on standard error."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import click
import yaml

from jettison.agent.safe_text import printable

TABLE, JSON, YAML = "table", "json", "yaml"

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice([TABLE, JSON, YAML]),
    default=TABLE,
    show_default=True,
    help="How to print the answer; docs/commands.md describes the JSON, and YAML has the same keys.",
)


@dataclass(slots=True)
class Remarks:
    """Said beside the answer: on standard error with a table, inside the document with JSON and YAML."""

    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def remark(kind: str, text: str) -> None:
    """One line beside the answer; `kind` is note or warning."""
    click.echo(printable(f"{kind}: {text}"), err=True)


def print_document(output: str, document: Mapping[str, Any]) -> None:
    """As JSON or YAML."""
    if output == JSON:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        click.echo(
            yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=1000), nl=False
        )


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
