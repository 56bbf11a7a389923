"""Plain words, and documents that name files which exist: see "Plain words" in CONTRIBUTING.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "jettison"

# A sentence with one of these hides which process, file or user is meant.
BANNED = re.compile(
    r"\b((?i:whoever|whomever|somebody|nobody|anybody|everybody|someone|anyone|everyone|no one|for ever)"
    r"|[Ww]ho|[Ww]hom|[Hh]e|[Hh]im|[Hh]is|[Hh]imself|[Ss]he)\b"
)
# In the name of a test `_` parts the words, and a process, pod or client is "it".
BANNED_IN_NAMES = re.compile(
    r"_(whoever|whomever|somebody|nobody|anybody|everybody|for_ever|who|whom|he|him|his|himself|she|her)(?=_|$)"
)
TEST_NAME = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
# The column "before" of CONTRIBUTING.md, the user of that name, and texts that are Kubernetes' own.
ALLOWED = (("CONTRIBUTING.md", "| "), ("CONTRIBUTING.md", "* A process, pod, client or thread is *it*."))
# Lines with such words that are left, by folder. The numbers only go down; a folder at 0 leaves the table.
LEFT = {
    # The name of a user, and of pods that do not exist.
    "tests": 23,
}
PLACES = sorted(
    {
        *(str(path.relative_to(ROOT)) for path in SOURCE.iterdir() if path.suffix in ("", ".py")),
        *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "pyproject.toml", "docs", "benchmarks", "tests"),
    }
    - {"src/jettison/__pycache__"}
)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "tests" / "README.md"])
# `engine/node/signals.py`, `src/jettison/cli/program.py`, `tests/engine`, with what a document may put behind it.
NAMED = re.compile(
    r"`((?:src/jettison/|tests/|benchmarks/|docs/)?[a-z0-9_]+(?:/[a-z0-9_]+)*(?:/|\.(?:py|md)))(?:[:#][^`]*)?`"
)
TOP = {path.name for path in SOURCE.iterdir()} | {"src", "tests", "benchmarks", "docs"}


def _files(place: str) -> Iterator[Path]:
    path = ROOT / place
    if path.is_file():
        yield path
        return
    for each in sorted(path.rglob("*")):
        if each.suffix in (".py", ".md", ".yaml", ".txt") and each != Path(__file__):
            yield each


def _lines(place: str) -> Iterator[str]:
    for path in _files(place):
        name = str(path.relative_to(ROOT))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            is_allowed = any(name == each and line.startswith(begin) for each, begin in ALLOWED)
            if BANNED.search(line) and not is_allowed:
                yield f"{name}:{number}: {line.strip()}"


def test_there_is_something_to_check() -> None:
    """A moved folder must not make these tests pass."""
    assert {"docs", "src/jettison/engine", "src/jettison/cli"} <= set(PLACES)
    assert set(PLACES) >= LEFT.keys()
    assert len(DOCUMENTS) > 7


@pytest.mark.parametrize("place", PLACES)
def test_sentences_name_what_they_are_about(place: str) -> None:
    """Not somebody: a process, a file, a client, a user."""
    found = list(_lines(place))
    assert len(found) <= LEFT.get(place, 0), "\n".join(found)


def test_names_of_tests_say_what_they_are_about() -> None:
    """A name is a sentence, too: it names the pod, the process or the user."""
    files = [each for each in _files("tests") if each.name.startswith("test_")]
    names = [name for path in files for name in TEST_NAME.findall(path.read_text(encoding="utf-8"))]
    assert len(names) > 2000
    assert not [name for name in names if BANNED_IN_NAMES.search(name)]
    assert BANNED_IN_NAMES.search("test_a_budget_guards_nobody")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_a_document_names_exist(path: Path) -> None:
    """`engine/node/signals.py` is below src/jettison, all else below the root or beside the document."""
    missing = []
    for name in NAMED.findall(path.read_text(encoding="utf-8")):
        if name.partition("/")[0].rstrip("/") not in TOP:
            continue  # a path of the user's machine
        if not any((base / name).exists() for base in (SOURCE, ROOT, path.parent)):
            missing.append(name)
    assert not missing
