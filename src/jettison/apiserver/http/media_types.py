"""Accept headers, as far as clients of Kubernetes use them: a list in order of preference, with parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

JSON = "application/json"
YAML = "application/yaml"
PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class MediaType:
    """One choice of the list: `application/json;as=Table;v=v1;g=meta.k8s.io`."""

    name: str
    parameters: Mapping[str, str]

    @property
    def content_type(self) -> str:
        """What we answer it with, empty if we cannot; `as=` asks for another shape, the caller looks at that."""
        return JSON if self.name in (JSON, "application/*", "*/*") else YAML if self.name == YAML else ""


# A client sends the same few headers all the time; hostile ones are cut by the limit on headers.
@lru_cache(maxsize=256)
def parse_accept(header: str) -> tuple[MediaType, ...]:
    """Every choice, first wish first. No header at all means anything.

    Quality values are ignored: every known client of Kubernetes lists by preference.
    """
    choices = []
    for part in header.split(","):
        name, *rest = (piece.strip() for piece in part.split(";"))
        pairs = (piece.partition("=") for piece in rest)
        parameters = {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}
        if name:
            choices.append(MediaType(name.lower(), MappingProxyType(parameters)))
    return tuple(choices) or (MediaType("*/*", MappingProxyType({})),)
