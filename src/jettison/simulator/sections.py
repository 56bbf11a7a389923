"""A YAML document read key by key: every mistake names the file, the line, the key and what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from jettison.engine.config.suggestions import did_you_mean, quantity_advice
from jettison.engine.numbers.durations import parse_duration
from jettison.engine.numbers.quantity import parse
from jettison.errors import DurationError, ManifestError, QuantityError, kind_in_words
from jettison.manifests.files.decoding import shortened
from jettison.manifests.files.plain_files import read_given
from jettison.manifests.files.plain_yaml import PlainLoader, complaints, load_documents

T = TypeVar("T")
Steps = tuple[str | int, ...]

LARGEST_SCENARIO = 4 * 2**20


class ScenarioFile:
    """One file, decoded, with the line of each value."""

    def __init__(self, text: str, name: str, directory: Path) -> None:
        self.text = text
        self.name = name
        # What other files are named from.
        self.directory = directory
        documents = load_documents(text, name, refuses_duplicates=True)
        if len(documents) != 1 or not isinstance(documents[0], dict):
            raise ManifestError(f"{name}: expected one map, with the keys of a scenario")
        self.document: Mapping[str, Any] = documents[0]
        with complaints(text, name):
            self._lines = dict(_lines(yaml.compose(text, Loader=PlainLoader), ()))

    @classmethod
    def read(cls, path: Path) -> ScenarioFile:
        """Raises ManifestError where it cannot be used."""
        data = read_given(path, LARGEST_SCENARIO)
        try:
            return cls(data.decode(), str(path), path.parent)
        except UnicodeDecodeError as error:
            raise ManifestError(f"{path}: not UTF-8 at byte {error.start}") from error

    def wrong(self, steps: Steps, why: str) -> ManifestError:
        """About the value there, or the nearest one around it."""
        known = next((steps[:length] for length in range(len(steps), -1, -1) if steps[:length] in self._lines), ())
        return ManifestError(f"{self.name}:{self._lines.get(known, 1)}: {_path(steps)}{why}")


def _lines(node: yaml.Node | None, steps: Steps) -> Iterator[tuple[Steps, int]]:
    if node is None:
        return
    yield steps, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*steps, str(key.value))
            yield from _lines(value, inner)
            # The key's own line, where its value begins in another one.
            yield inner, key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _lines(value, (*steps, index))


def _path(steps: Steps) -> str:
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return f"{shortened(text)}: " if text else ""


class Section:
    """A map of the document. Keys are taken one by one; `done` refuses what is left."""

    def __init__(self, file: ScenarioFile, steps: Steps = (), value: object = None) -> None:
        self.file = file
        self.steps = steps
        found = file.document if not steps else value
        if not isinstance(found, Mapping):
            raise file.wrong(steps, f"is {kind_in_words(found)}, expected a map")
        self._values = found
        self._taken: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def wrong(self, key: str, why: str) -> ManifestError:
        """About one of its values."""
        return self.file.wrong((*self.steps, key), why)

    def _take(self, key: str) -> object:
        self._taken.add(key)
        return self._values.get(key)

    def _read(self, key: str, default: T, what: str, convert: Callable[[Any], T]) -> T:
        value = self._take(key)
        if value is None:
            return default
        try:
            return convert(value)
        except (QuantityError, DurationError) as error:
            said = quantity_advice(str(error), str(value)) if isinstance(error, QuantityError) else str(error)
            raise self.wrong(key, f"`{shortened(str(value))}`: {said}") from error
        except (TypeError, ValueError) as error:
            raise self.wrong(key, f"is `{shortened(str(value))}`, expected {what}") from error

    def text(self, key: str, default: str = "") -> str:
        """Any text."""
        return self._read(key, default, "a text", _text)

    def name(self, key: str) -> str:
        """A text that must be there."""
        found = self.text(key)
        if not found:
            raise self.wrong(key, "is missing")
        return found

    def choice(self, key: str, allowed: Collection[str], default: str) -> str:
        """One of some texts."""
        found = self.text(key, default)
        if found not in allowed:
            said = f"is `{shortened(found)}`, expected one of {', '.join(allowed)}{did_you_mean(found, allowed)}"
            raise self.wrong(key, said)
        return found

    def amount(self, key: str, default: int = 0) -> int:
        """A quantity of at least 0, such as `512Mi`."""
        return self._bounded(key, self._read(key, default, "an amount such as `512Mi`", _amount))

    def optional_amount(self, key: str) -> int | None:
        """The same, or None."""
        self._taken.add(key)
        return self.amount(key) if key in self else None

    def duration_ns(self, key: str, default: int = 0) -> int:
        """A Go duration of at least 0, such as `90s`."""
        return self._bounded(key, self._read(key, default, "a duration such as `90s` or `1h30m`", _duration))

    def optional_duration_ns(self, key: str) -> int | None:
        """The same, or None."""
        self._taken.add(key)
        return self.duration_ns(key) if key in self else None

    def integer(self, key: str, default: int, least: int = 0, most: int = 10**9) -> int:
        """A whole number within bounds."""
        found = self._read(key, default, "a whole number", _integer)
        if not least <= found <= most:
            raise self.wrong(key, f"is `{found}`, expected {least} to {most}")
        return found

    def fraction(self, key: str, default: float = 0.0) -> float:
        """From 0 to 1."""
        found = self._read(key, default, "a number from 0 to 1", _number)
        if not 0 <= found <= 1:
            raise self.wrong(key, f"is `{found}`, expected a number from 0 to 1")
        return found

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        return self._read(key, default, "true or false", _flag)

    def anything(self, key: str) -> Any:
        """As it stands there."""
        return self._take(key)

    def texts(self, key: str) -> dict[str, str]:
        """A map of texts; numbers are texts, too."""
        value = self._take(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.wrong(key, f"is {kind_in_words(value)}, expected a map")
        for name, each in value.items():
            if isinstance(each, Mapping | list) or each is None:
                raise self.file.wrong((*self.steps, key, name), f"is {kind_in_words(each)}, expected a text")
        return {name: str(each) for name, each in value.items()}

    def section(self, key: str) -> Section | None:
        """A map inside of this one."""
        value = self._take(key)
        return None if value is None else Section(self.file, (*self.steps, key), value)

    def values(self, key: str) -> list[Any]:
        """A list of anything."""
        value = self._take(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong(key, f"is {kind_in_words(value)}, expected a list")
        return value

    def sections(self, key: str) -> list[Section]:
        """A list of maps."""
        return [Section(self.file, (*self.steps, key, index), each) for index, each in enumerate(self.values(key))]

    def done(self) -> None:
        """All keys that there are were taken."""
        for key in self._values:
            if key not in self._taken:
                known = sorted(self._taken)
                hint = did_you_mean(key, known) or f", expected one of {', '.join(known)}"
                raise self.wrong(key, f"unknown key{hint}")

    def _bounded(self, key: str, found: int) -> int:
        if not 0 <= found < 2**62:
            raise self.wrong(key, f"is {found}, expected 0 to {2**62 - 1}")
        return found


def _text(value: object) -> str:
    if isinstance(value, Mapping | list):
        raise TypeError
    return str(value).lower() if isinstance(value, bool) else str(value)


def _amount(value: object) -> int:
    if isinstance(value, bool | float) or not isinstance(value, int | str):
        raise TypeError
    return parse(str(value)).value


def _duration(value: object) -> int:
    if not isinstance(value, str) and value != 0:
        raise TypeError
    return parse_duration(str(value))


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value
