"""Texts of a manifest before they become file names, choices, arguments and environment. Hostile is normal.

`$(VARIABLE)` in a value may name the ones before it, so thirty lines can stand for a gigabyte. Sizes are therefore
added up before anything is expanded, first when the document is read and again, with the values that only the start
knows, before it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TypeVar

from jettison.errors import ManifestError
from jettison.manifests.files.decoding import shortened

T = TypeVar("T")

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)

_LONGEST_SHOWN = 1000
_HALF_PAIR = re.compile("[\ud800-\udfff]")

LONGEST_STRING = 131_071
"""The kernel's: an argument, or a variable with its name, has at most 128 KiB with the NUL at its end."""

LARGEST_ENVIRONMENT = 256 * 1024
"""Bytes of all variables and arguments of a container together. The kernel takes eight times as many; an agent that
starts a pod should not have to carry them."""

MOST_REFERENCES = 500

_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")
# What Kubernetes takes: any printable ASCII but the equals sign.
_VARIABLE = re.compile(r"[ -<>-~]+", re.ASCII)


class Given(str):
    """A value that comes from elsewhere: a dollar in it is a dollar."""

    __slots__ = ()


def is_variable(name: str) -> bool:
    """Whether a variable may be called so."""
    return bool(_VARIABLE.fullmatch(name))


def shown(value: object) -> str:
    """For a message, in backticks: no character that a terminal could take for an order, and not too many."""
    text = str(value)
    if len(text) > _LONGEST_SHOWN:  # no more than is shown is escaped: a hostile value may have megabytes
        return f"{ascii(text[:40])[1:-1]}… ({len(text)} characters)"
    return shortened(ascii(text)[1:-1])


def is_label(text: str) -> bool:
    """Whether it is a name that is harmless as a path component, in a cgroup's name and in an environment variable."""
    return bool(_LABEL.fullmatch(text))


def label(text: str, where: str) -> str:
    """Such a name."""
    if not is_label(text):
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


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)`; an unknown one stays as it is and `$$` is a dollar, as in Kubernetes."""
    if isinstance(text, Given):
        return str(text)

    def value(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _REFERENCE.sub(value, text)


class Sizes:
    """Adds up what a container's variables and arguments become. Raises ManifestError, with number and bound."""

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self._sizes = {name: _size(value) for name, value in (known or {}).items()}
        self._references = 0
        self._total = sum(_size(name) + size + 2 for name, size in self._sizes.items())

    def variable(self, name: str, value: str) -> None:
        """One more; those that follow may name it."""
        where = f"env `{shortened(name)}`"
        size = self._expanded(value, where)
        self._sizes[name] = size
        self._total = _added(self._total, _size(name) + 1 + size, where)

    def words(self, words: Iterable[str], where: str) -> None:
        """A command that is run with these variables."""
        total = self._total
        for word in words:
            total = _added(total, self._expanded(word, where), where)

    def _expanded(self, text: str, where: str) -> int:
        size = _size(text)
        if isinstance(text, Given):
            return size
        # Counted before they are looked for, which takes a hundred times as long.
        self._references += text.count("$(") + text.count("$$")
        if self._references > MOST_REFERENCES:
            raise ManifestError(f"{where}: `$(` and `$$` more than {MOST_REFERENCES} times in one container")
        for match in _REFERENCE.finditer(text) if "$" in text else ():
            name = match[1]
            if name is None:
                size -= 1
            elif name in self._sizes:
                size += self._sizes[name] - _size(match[0])
        return size


def _added(total: int, size: int, where: str) -> int:
    if size > LONGEST_STRING:
        raise ManifestError(f"{where}: {size} bytes after expansion, at most {LONGEST_STRING} can be passed")
    total += size + 1
    if total > LARGEST_ENVIRONMENT:
        raise ManifestError(f"{where}: env and args have more than {LARGEST_ENVIRONMENT} bytes after expansion")
    return total


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(os.fsencode(text))
