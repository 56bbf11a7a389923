"""Texts of a manifest before they become file names, arguments and choices. Hostile ones are the normal case."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import TypeVar

from jettison.errors import ManifestError
from jettison.manifests.files.decoding import shortened

T = TypeVar("T")

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)

_LONGEST_SHOWN = 1000
_HALF_PAIR = re.compile("[\ud800-\udfff]")


def shown(value: object) -> str:
    """For a message, in backticks: no character that a terminal could take for an order, and not too many."""
    text = str(value)
    if len(text) > _LONGEST_SHOWN:  # no more than is shown is escaped: a hostile value may have megabytes
        return f"{ascii(text[:40])[1:-1]}… ({len(text)} characters)"
    return shortened(ascii(text)[1:-1])


def label(text: str, where: str) -> str:
    """A name that is harmless as a path component, in a cgroup's name and in an environment variable."""
    if not _LABEL.fullmatch(text):
        raise ManifestError(f"{where} `{shown(text)}` is not a lower case DNS label of at most 63 characters")
    return text


def subdomain(text: str, where: str) -> str:
    """A pod's name: labels with dots between them."""
    if len(text) > 253 or not _SUBDOMAIN.fullmatch(text):
        raise ManifestError(f"{where} `{shown(text)}` is not a lower case DNS name of at most 253 characters")
    return text


def passable(text: str, where: str) -> str:
    """What goes to the kernel ends at a NUL, and half a surrogate pair cannot be written in UTF-8 at all."""
    if "\0" in text or (not text.isascii() and _HALF_PAIR.search(text)):
        raise ManifestError(f"{where}: `{shown(text)}` holds a character that no program can be given")
    return text


def choice(value: str, allowed: Sequence[str], where: str) -> str:
    """One of a few words."""
    if value not in allowed:
        known = ", ".join(f"`{each}`" for each in allowed if each)
        raise ManifestError(f"{where} is `{shown(value)}`, allowed: {known}")
    return value


def below(path: str, where: str) -> PurePosixPath:
    """A relative path that stays below wherever it is put."""
    passable(path, where)
    if path.startswith("/") or ".." in path.split("/"):
        raise ManifestError(f"{where}: `{shown(path)}` must be relative and without `..`")
    return PurePosixPath(path)


def unique(names: Iterable[str], kind: str) -> None:
    """Complain about the first name that comes twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ManifestError(f"two {kind}s are called `{name}`")
        seen.add(name)


def at_most(most: int, values: Sequence[T] | None, where: str) -> Sequence[T]:
    """The list, or a complaint when it is longer than any pod needs."""
    count = len(values or ())
    if count > most:
        raise ManifestError(f"{where}: must have at most {most} items, got {count}")
    return values or ()
