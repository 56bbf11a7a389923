"""What is wrong with a configuration, each with its file, line, key and value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jettison.manifests.files.decoding import shortened


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake or one thing to think twice about."""

    message: str
    key: str = ""
    # What the key is set to, as written; None where nobody set it, or where it is a whole map.
    value: str | None = None
    # A file or a flag; empty where nobody in particular is to blame.
    source: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}" if self.line else self.source
        said = self.message
        if self.key:
            # The engine's own sentences go on from the key: `maxPods is 'x', expected …`.
            goes_on = said.startswith("is ")
            value = "" if goes_on or self.value is None else f" is `{self.value}`"
            said = f"{self.key}{value}{' ' if goes_on else ': '}{said}"
        return f"{place}: {said}" if place else said

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "source": self.source or None,
            "line": self.line,
            "key": self.key or None,
            "value": self.value,
            "message": self.message,
        }


def value_text(raw: object) -> str | None:
    """A scalar as a person would write it; None for maps and lists, which are too long to repeat."""
    if raw is None or isinstance(raw, Mapping | list | tuple):
        return None
    return shortened(raw if isinstance(raw, str) else json.dumps(raw, default=str))


def counted(number: int, what: str) -> str:
    """`no errors`, `1 error`, `2 errors`."""
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
