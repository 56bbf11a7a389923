"""The examples in the documents about commands print what stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import jettison.cli
from tests.cli.running import EXAMPLES, run

TEXT = "".join((EXAMPLES.parent / name).read_text() for name in ("commands.md", "explain.md", "lint.md"))
BLOCKS = re.findall(r"```console\n\$ jettison (.*)\n((?:.*\n)*?)```\n", TEXT)


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 6


@pytest.mark.parametrize(("command", "output"), BLOCKS, ids=[command[:24] for command, _ in BLOCKS])
def test_an_example_is_true(command: str, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)

    assert run(*shlex.split(command)).stdout == output


def test_every_kind_of_document_is_named() -> None:
    row = next(
        line for line in (EXAMPLES.parent / "commands.md").read_text().splitlines() if line.startswith("| `kind` |")
    )
    (package,) = jettison.cli.__path__
    made = {kind for file in Path(package).rglob("*.py") for kind in re.findall(r'"kind": "(\w+)"', file.read_text())}

    assert set(re.findall(r"`(\w+)`", row)) - {"kind"} == made - {"Pod", "PodList"}
