"""KubeletConfiguration files and drop-in directories to `kubelet_config.Source`, with the line of every key.

A file may be YAML or JSON, and it may be hostile (see `plain_yaml`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from jettison.engine.config.kubelet_config import Source
from jettison.engine.config.kubelet_fields import ALL_KEYS, KIND
from jettison.engine.config.suggestions import did_you_mean
from jettison.errors import InputError, ManifestError
from jettison.manifests.files.decoding import bounded, shortened, without_surrogates
from jettison.manifests.files.plain_files import plain_text
from jettison.manifests.files.plain_yaml import PlainLoader, complaints, look_through

# etcd stores no object beyond 1.5 MiB, and the longest real configurations have 10 KiB.
LARGEST_FILE = 2**20
# Each is compared with all that are known: a thousand would take seconds.
_MOST_UNKNOWN = 20


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A decoded file and where its keys stand: `evictionHard` and, inside a map, `evictionHard.memory.available`."""

    source: Source
    lines: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def line(self, key: str) -> int | None:
        """Of the key, or else of the map that it belongs to."""
        return self.lines.get(key) or self.lines.get(key.partition(".")[0])

    def place(self, key: str) -> str:
        """`file:line`, or just the file."""
        line = self.line(key)
        return f"{self.source.name}:{line}" if line else self.source.name

    def value(self, key: str) -> object:
        """What the file itself says about the key; None where it says nothing."""
        name, _, entry = key.partition(".")
        found = self.source.document.get(name) if isinstance(self.source.document, Mapping) else None
        if not entry:
            return found
        return found.get(entry) if isinstance(found, Mapping) else None


def parse_config_file(data: bytes, name: str) -> ConfigFile:
    """The document in `data`, or a ManifestError that names the line. More than one document: the first counts."""
    if len(data) > LARGEST_FILE:
        raise ManifestError(f"{name}: {len(data)} bytes, a KubeletConfiguration has at most {LARGEST_FILE}")
    text = plain_text(data, name)
    if not text.lstrip().startswith("{"):
        return _from_yaml(text, name)
    bounded(data, name)
    try:
        document = without_surrogates(json.loads(text, parse_constant=_no_number))
    except ValueError as error:
        return _from_braces(text, name, error)
    try:
        # Valid JSON has raw tabs between values only, where libyaml dislikes them.
        lines, warnings = _places(_compose(text.replace("\t", " "), name)[0], name)
    except ManifestError:
        lines, warnings = {}, ()  # JSON that is no YAML, for instance because of escaped surrogates
    return ConfigFile(Source(name, document), lines, (*warnings, *_unknown(document, lines, name)))


def drop_in_paths(directory: Path) -> list[Path]:
    """Every `*.conf` below the directory, in the order in which the kubelet applies them.

    The order is by name, level by level, so `10-a/z.conf` comes before `20.conf`. Linked directories are not entered.
    """
    try:
        return list(_walk(directory))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot read the drop-in directory `{directory}`: {reason}") from error


def _walk(directory: Path) -> Iterator[Path]:
    with os.scandir(directory) as entries:
        ordered = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    for entry in ordered:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(directory / entry.name)
        elif entry.name.endswith(".conf"):
            yield directory / entry.name


def _no_number(text: str) -> object:
    raise ValueError(f"`{text}` is not a JSON number")


def _from_braces(text: str, name: str, error: ValueError) -> ConfigFile:
    """`{a: b}` is YAML though it begins like JSON; what is neither was more likely meant to be JSON."""
    try:
        return _from_yaml(text, name)
    except ManifestError:
        if not isinstance(error, json.JSONDecodeError):
            raise
        said = error.msg[:1].lower() + error.msg[1:]
        raise ManifestError(f"{name}:{error.lineno}: {said} at column {error.colno}") from error


def _from_yaml(text: str, name: str) -> ConfigFile:
    node, document, count = _compose(text, name)
    lines, warnings = _places(node, name)
    if count > 1:
        warnings = (*warnings, f"{name}: {count} documents, of which only the first is read")
    return ConfigFile(Source(name, document), lines, (*warnings, *_unknown(document, lines, name)))


def _unknown(document: object, lines: Mapping[str, int], name: str) -> Iterator[str]:
    """A kubelet says so in its log and goes on without them: its strict decoder fails, and the lenient one is asked."""
    keys = list(document) if isinstance(document, Mapping) and document.get("kind") == KIND else []
    unknown = [key for key in keys if isinstance(key, str) and key not in ALL_KEYS]
    for key in unknown[:_MOST_UNKNOWN]:
        place = f"{name}:{lines[key]}" if key in lines else name
        yield f"{place}: unknown field `{shortened(key)}` is ignored{did_you_mean(key, ALL_KEYS)}"
    if len(unknown) > _MOST_UNKNOWN:
        yield f"{name}: {len(unknown) - _MOST_UNKNOWN} more unknown fields are ignored"


def _compose(text: str, name: str) -> tuple[yaml.Node | None, object, int]:
    """The first document as nodes and as values, and how many documents there are that say something."""
    with complaints(text, name):
        look_through(text, name)
        loader = PlainLoader(text)
        node = loader.get_node() if loader.check_node() else None
        document = loader.construct_document(node) if node is not None else None
        count = 1
        while loader.check_node():
            other = loader.get_node()
            count += other is not None and other.value != ""
    return node, document, count


def _places(root: yaml.Node | None, name: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """The line of each key, two levels deep, and a warning for each key that is there twice."""
    lines: dict[str, int] = {}
    warnings = []
    for key, node, line in _entries(root):
        nested = [(f"{key}.{entry}", place) for entry, _, place in _entries(node)]
        for path, place in [(key, line), *nested]:
            if path in lines:
                warnings.append(f"{name}:{place}: `{path}` is set again, only its last value counts")
            lines[path] = place
    return lines, tuple(warnings)


def _entries(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield key.value, value, key.start_mark.line + 1
