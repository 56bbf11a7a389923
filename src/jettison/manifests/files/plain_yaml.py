"""YAML as Kubernetes reads it, from any source: only what JSON can say comes out, and no more of it than went in.

A file may be hostile: libyaml's composer crashes the process when 200,000 brackets are nested, and a few aliases of
aliases stand for billions of values. So it is looked through event by event, which needs no stack and no memory, before
anything is built from it.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import yaml

from jettison.errors import ManifestError
from jettison.manifests.files.decoding import shortened

DEEPEST = 32
MOST_ALIASES = 100
# A node full of pods has 20,000; a mebibyte of commas would have a million, and ten seconds of looking through.
MOST_EVENTS = 200_000
MOST_BYTES: Final = 8 * 2**20
"""What a document may stand for once its aliases are written out."""

_TEXT = "tag:yaml.org,2002:str"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_VALUE = "tag:yaml.org,2002:value"
_INT = "tag:yaml.org,2002:int"
_FLOATS = "tag:yaml.org,2002:float"
_BOOL = "tag:yaml.org,2002:bool"
_INTEGER: Final = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_WORDS: Final = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")
_MERGE = "<<"
_INT64: Final = 2**63
_UINT64: Final = 2**64


class PlainLoader(yaml.CSafeLoader):
    """Plain YAML as Kubernetes reads it: `1e3` and `0o17` are numbers, `20:30` and a date are texts."""


class _Numbers:
    """Stands where PyYAML has a pattern for numbers."""

    @staticmethod
    def match(text: str) -> bool:
        """Whether Go would take it for a number."""
        return read_number(text) is not None


def read_number(text: str) -> float | None:
    """A plain scalar as Go's YAML reads it; None for a text. Underscores count nothing."""
    plain = text if text.startswith(".") else text.replace("_", "")
    if _INTEGER.fullmatch(plain):
        is_old_octal = plain.lstrip("+-").startswith("0") and plain.lstrip("+-").isdigit()
        return int(plain, 8 if is_old_octal else 0)
    if not _FLOAT.fullmatch(plain):
        return None
    number = float(plain)
    return number if math.isfinite(number) else None


PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_TIMESTAMP, _VALUE, _INT)]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
PlainLoader.yaml_implicit_resolvers |= {first: [(_FLOATS, _WORDS), (_INT, _Numbers)] for first in "+-.0123456789"}


def _text(loader: PlainLoader, node: yaml.ScalarNode) -> str:
    """One copy of each: the keys of a hundred manifests are the same thirty words."""
    return sys.intern(str(loader.construct_scalar(node)))


def _number(loader: PlainLoader, node: yaml.ScalarNode) -> float:
    found = read_number(str(loader.construct_scalar(node)))
    if found is None:
        raise ValueError
    return found


PlainLoader.add_constructor(_TEXT, _text)
PlainLoader.add_constructor(_INT, _number)
# As a value it is a text; as a key it has been resolved by then.
PlainLoader.add_constructor("tag:yaml.org,2002:merge", _text)
# A date that says so with a tag as well: PyYAML's own constructor crashes on what is none.
PlainLoader.add_constructor(_TIMESTAMP, _text)


class _WholeLoader(PlainLoader):
    """As above, with the last difference: `y` and `n` are booleans. In a file of our own a node may be called `n`."""

    bool_values: ClassVar[dict[str, bool]] = {**PlainLoader.bool_values, "y": True, "n": False}


_WholeLoader.add_implicit_resolver(_BOOL, re.compile(r"[yYnN]\Z"), list("yYnN"))


def load_documents(text: str, name: str, *, most: int = MOST_BYTES, refuses_duplicates: bool = False) -> list[Any]:
    """Every document as a JSON value, None for an empty one; or a ManifestError with the place."""
    with complaints(text, name):
        look_through(text, name, refuses_duplicates=refuses_duplicates)
        found = list(yaml.load_all(text, Loader=PlainLoader))
    copies = _Copy(name, most)
    return [copies.of(each) for each in found]


def load_first(text: str, name: str, *, most: int = MOST_BYTES) -> Any:
    """The first document alone, whatever follows it; None where there is none."""
    with complaints(text, name):
        look_through(text, name, is_first_enough=True)
        found = next(yaml.load_all(text, Loader=_WholeLoader), None)
    return _Copy(name, most).of(found)


@contextmanager
def complaints(text: str, name: str) -> Iterator[None]:
    """What PyYAML raises becomes a ManifestError that names the line."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ManifestError(f"{name}:{mark.line + 1 if mark else 1}: {error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ManifestError(f"{name}:{line}: control characters are not allowed") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ManifestError(f"{name}: a value is not what its tag says, or a number of over 4300 digits") from error


def look_through(text: str, name: str, *, refuses_duplicates: bool = False, is_first_enough: bool = False) -> None:
    """Refuse what would crash or exhaust whatever builds values from it."""
    depth = aliases = 0
    anchored_at: int | None = None
    keys = _Keys(name) if refuses_duplicates else None
    for count, event in enumerate(yaml.parse(text, Loader=PlainLoader)):
        line = event.start_mark.line + 1
        if count > MOST_EVENTS:
            raise ManifestError(f"{name}:{line}: more than {MOST_EVENTS} values, brackets and keys")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise ManifestError(f"{name}:{line}: nested more than {DEEPEST} levels deep")
            if event.anchor is not None and anchored_at is None:
                anchored_at = depth
        elif isinstance(event, yaml.CollectionEndEvent):
            if anchored_at == depth:
                anchored_at = None
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            aliases += 1
            if anchored_at is not None:
                raise ManifestError(f"{name}:{line}: alias `*{event.anchor}` stands inside an anchored value")
            if aliases > MOST_ALIASES:
                raise ManifestError(f"{name}:{line}: more than {MOST_ALIASES} aliases")
        elif is_first_enough and isinstance(event, yaml.DocumentEndEvent):
            return
        if keys is not None:
            keys.take(event, line)


class _Keys:
    """Of every map that is open, the keys so far and whether a key comes next; a list has None."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: list[tuple[dict[str, int], bool] | None] = []

    def take(self, event: yaml.Event, line: int) -> None:
        """Refuse a key that its map has already: of two values nothing tells which is meant."""
        if isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()
        elif isinstance(event, yaml.NodeEvent):
            inner = self._open[-1] if self._open else None
            if inner is not None:
                keys, is_key = inner
                if is_key and isinstance(event, yaml.ScalarEvent) and event.value != _MERGE:
                    if (before := keys.get(event.value)) is not None:
                        said = shortened(event.value)
                        raise ManifestError(f"{self._name}:{line}: key `{said}` is there already, in line {before}")
                    keys[event.value] = line
                self._open[-1] = (keys, not is_key)
            if isinstance(event, yaml.MappingStartEvent):
                self._open.append(({}, True))
            elif isinstance(event, yaml.SequenceStartEvent):
                self._open.append(None)


class _Copy:
    """Builds JSON values, and keeps count: an alias is a copy of what it stands for."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = self._left = most

    def of(self, value: object) -> Any:
        self._spend(1)
        match value:
            case None | bool():
                return value
            case str():
                self._spend(len(value))
                return value
            case int() if -_INT64 <= value < _UINT64:
                return value
            case int():
                raise ManifestError(f"{self._name}: a number has more than 64 bits")
            case float() if math.isfinite(value):
                return value
            case list():
                return [self.of(each) for each in value]
            case dict():
                return {self._key(key): self.of(each) for key, each in value.items()}
            case _:
                raise ManifestError(f"{self._name}: a {type(value).__name__} cannot be said in JSON")

    def _key(self, key: object) -> str:
        """`1: a` and `yes: b` are texts in JSON."""
        if not isinstance(key, str | int | float) or (isinstance(key, int) and abs(key) > _UINT64):
            raise ManifestError(f"{self._name}: a {type(key).__name__} cannot be a key")
        text = str(key).lower() if isinstance(key, bool) else str(key)
        self._spend(len(text))
        return sys.intern(text)

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ManifestError(f"{self._name}: the document stands for more than {self._most} bytes")
