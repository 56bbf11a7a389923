"""Where maintenance's words go: answers to standard output, complaints and progress to standard error."""

from __future__ import annotations

import sys

import click

from jettison.agent.safe_text import printable


class Console:
    """A `Voice`. Progress is told to a terminal, else only where it was asked for: scripts expect kubectl's lines."""

    def __init__(self, progress: bool | None = None) -> None:
        self._reports = sys.stderr.isatty() if progress is None else progress

    def say(self, text: str) -> None:
        """A line of the answer."""
        click.echo(printable(text))

    def complain(self, text: str) -> None:
        """A line about what went wrong."""
        click.echo(printable(text), err=True)

    def report(self, text: str) -> None:
        """A line of progress."""
        if self._reports:
            click.echo(f"progress: {printable(text)}", err=True)
