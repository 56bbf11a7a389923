"""KubeletConfiguration files and drop-in directories to `kubelet_config.Source`, with the line of every key.

A file may be YAML or JSON, and it may be hostile (see `plain_yaml`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from itertools import islice
from pathlib import Path

import yaml

from jettison.engine.config.kubelet_config import Source
from jettison.engine.config.kubelet_fields import FIELD_NAMES, KIND, Shape
from jettison.engine.config.suggestions import did_you_mean
from jettison.errors import InputError, ManifestError
from jettison.manifests.files.decoding import bounded, shortened, without_surrogates
from jettison.manifests.files.plain_files import plain_text
from jettison.manifests.files.plain_yaml import PlainLoader, complaints, look_through
from jettison.values import frozen

# etcd stores no object beyond 1.5 MiB, and the longest real configurations have 10 KiB.
LARGEST_FILE = 2**20
# Of a directory of drop-ins.
MOST_ENTRIES, DEEPEST_FOLDER = 10_000, 32
# Each is compared with all that are known: a thousand would take seconds.
_MOST_UNKNOWN = 20
# Of maps and lists inside one another, in which lines are looked for.
_DEEPEST, _MOST_PATHS = 5, 50_000


@frozen
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
        if not isinstance(found, Mapping) or entry not in found:
            return None
        return "" if found[entry] is None else found[entry]  # as the configuration is read


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


def _walk(top: Path) -> Iterator[Path]:
    """Bounded, because a typing error may name the root of all files, or a tree deeper than the stack."""
    count = 0
    pending = [(top, True, 0)]
    while pending:
        path, is_folder, depth = pending.pop()
        if not is_folder:
            if path.name.endswith(".conf"):
                yield path
            continue
        with os.scandir(path) as entries:
            ordered = sorted(islice(entries, MOST_ENTRIES + 1 - count), key=lambda entry: os.fsencode(entry.name))
        count += len(ordered)
        if count > MOST_ENTRIES or depth > DEEPEST_FOLDER:
            most = f"{MOST_ENTRIES} entries and {DEEPEST_FOLDER} levels"
            raise InputError(f"cannot read the drop-in directory `{top}`: it has more than {most}")
        below = [(path / entry.name, entry.is_dir(follow_symlinks=False), depth + 1) for entry in ordered]
        pending += reversed(below)


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
    is_ours = isinstance(document, Mapping) and document.get("kind") == KIND
    unknown = list(unknown_fields(document)) if is_ours else []
    for path, key, known in unknown[:_MOST_UNKNOWN]:
        place = f"{name}:{lines[path]}" if path in lines else name
        said = path if path == key else f"{path.removesuffix(key)}{shortened(key)}"
        yield f"{place}: unknown field `{shortened(said)}` is ignored{did_you_mean(key, known)}"
    if len(unknown) > _MOST_UNKNOWN:
        yield f"{name}: {len(unknown) - _MOST_UNKNOWN} more unknown fields are ignored"


def unknown_fields(document: object) -> Iterator[tuple[str, str, Iterable[str]]]:
    """Path and name of each field that no KubeletConfiguration has, and the names that are known there."""
    return _unknown_fields(document, FIELD_NAMES, "")


def _unknown_fields(value: object, known: Shape, path: str) -> Iterator[tuple[str, str, Iterable[str]]]:
    """Path and name of each field that the shape does not have, and the names that it has."""
    if not known:
        return
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _unknown_fields(each, known, f"{path}[{index}]")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(key, str):
                where = f"{path}.{key}" if path else key
                if key in known:
                    yield from _unknown_fields(inner, known[key], where)
                else:
                    yield where, key, known


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
    """The line of each key, and a warning for each key that is there twice."""
    lines: dict[str, int] = {}
    warnings = []
    # A hundred aliases of a large map would be millions of paths.
    for path, place in islice(_paths(root, ""), _MOST_PATHS):
        if path in lines:
            warnings.append(f"{name}:{place}: `{path}` is set again, only its last value counts")
        lines[path] = place
    return lines, tuple(warnings)


def _paths(node: yaml.Node | None, path: str, depth: int = 0) -> Iterator[tuple[str, int]]:
    """As deep as a KubeletConfiguration goes."""
    if depth > _DEEPEST:
        return
    if isinstance(node, yaml.SequenceNode):
        for index, each in enumerate(node.value):
            yield from _paths(each, f"{path}[{index}]", depth + 1)
    for key, value, line in _entries(node):
        where = f"{path}.{key}" if path else key
        yield where, line
        yield from _paths(value, where, depth + 1)


def _entries(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield key.value, value, key.start_mark.line + 1
