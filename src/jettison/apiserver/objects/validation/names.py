"""What objects may be called. Each kind has one of these rules; a disruption budget, surprisingly, the loosest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from jettison.engine.labels.syntax import label_key_complaints

NameRule = Callable[[str], Iterator[str]]

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LONGEST_LABEL: Final = 63
_LONGEST_PORT: Final = 15


def subdomain_name(name: str) -> Iterator[str]:
    """Most kinds: what may be a DNS name, and so the prefix of a label key."""
    if not name:
        yield from subdomain_name("-")
        return
    if "/" in name:
        yield from path_segment_name(name)
        return
    for complaint in label_key_complaints(f"{name}/x"):
        yield complaint.removeprefix("prefix part ")


def label_name(name: str) -> Iterator[str]:
    """Namespaces, containers and volumes: one label of a DNS name."""
    if len(name.encode("utf-8", "replace")) > _LONGEST_LABEL:
        yield f"must be no more than {_LONGEST_LABEL} bytes"
    if re.fullmatch(_LABEL, name):
        return
    if re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", name):
        yield "must not contain dots"
    else:
        yield (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
            f"end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
            f"regex used for validation is '{_LABEL}')"
        )


def path_segment_name(name: str) -> Iterator[str]:
    """Every kind: what can stand in a path."""
    if name in (".", ".."):
        yield f"may not be '{name}'"
    for char in "/%":
        if char in name:
            yield f"may not contain '{char}'"


def port_name(name: str) -> Iterator[str]:
    """Ports of containers: what a service may be called after."""
    if len(name) > _LONGEST_PORT:
        yield f"must be no more than {_LONGEST_PORT} bytes"
    if not re.fullmatch(r"[-a-z0-9]+", name):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search(r"[a-z]", name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"
